// The systemd unit of an instance: all daemons below one parent, as the owner of the data directory. See
// docs/decisions.md#systemd-unit for the directives that are left out because cells or Node cannot run with them.
import { execFile, spawn } from 'node:child_process'
import { realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { CELL_SETTINGS } from '../cell/settings.ts'
import type { Layout } from '../core/layout.ts'
import { readTurnRules } from '../daemons/settings.ts'
import { readText, writeAtomic } from '../lib/files/atomic-file.ts'
import { refuse } from '../lib/refusal.ts'
import { readSettings, type SettingSource } from '../lib/settings.ts'

/** Threads and processes of svc itself, besides those of runs. */
const OWN_TASKS = 512
/** Enough for the streams of STREAMS_MAX, their sources and the files of the store. */
const OPEN_FILES = 65_536
/** svc closes connections that last longer than 10 seconds after SIGTERM. */
const STOP_SECONDS = 30
const UNIT_MAX_BYTES = 65_536

export interface UnitOptions {
  readonly instance: string
  /** The data directory. */
  readonly root: string
  /** Its owner, who runs svc. */
  readonly user: string
  /** Absolute paths. */
  readonly node: string
  readonly program: string
  /** More paths that agents read. */
  readonly paths: readonly string[]
  /** Limits of the runs; 0 means no limit. */
  readonly turnsMax: number
  readonly processesMax: number
}

export function unitName(instance: string): string {
  return `svc-${instance}.service`
}

/** The same options always give the same text. */
export function formatUnit(options: UnitOptions): string {
  const { instance, root, user, node, program, paths, turnsMax, processesMax } = options
  const visible = [root, node, program, ...paths]
  const command = (...words: string[]): string => [node, program, ...words].map(quoteCommandWord).join(' ')
  const isBelow = (parents: readonly string[]): boolean =>
    visible.some((path) => parents.some((parent) => path === parent || path.startsWith(`${parent}/`)))
  // Without a private one, ProtectSystem makes it read-only.
  const isInTmp = isBelow(['/tmp', '/var/tmp'])
  const cache = `/var/cache/svc-${instance}`
  return `# Written by "svc generate ${instance} --systemd". Change it with: systemctl edit ${unitName(instance)}
[Unit]
Description=svc instance ${instance}
Wants=network-online.target
After=network-online.target postgresql.service
RequiresMountsFor=${quoteWord(root)}

[Service]
Type=notify
NotifyAccess=all
User=${user}
Environment=${quoteWord(`SVC_DATA_DIR=${dirname(root)}`)}
Environment=${quoteWord(`XDG_CACHE_HOME=${cache}`)}
CacheDirectory=svc-${instance}
CacheDirectoryMode=0700
# Fails with the reason if agents cannot run in cells under this unit.
ExecStartPre=${command('doctor', instance, '--sandbox')}
ExecStart=${command('serve', instance)}
# Updating the schema of a large store takes long.
TimeoutStartSec=infinity
# The parent says that it is alive; it watches the processes below it itself.
WatchdogSec=30
Restart=on-failure
RestartSec=5
# svc ends the runs of agents itself.
KillMode=mixed
TimeoutStopSec=${STOP_SECONDS}
UMask=0077

# A run that uses too much memory ends alone.
OOMPolicy=continue
MemoryMax=80%
TasksMax=${processesMax === 0 ? 'infinity' : turnsMax * processesMax + OWN_TASKS}
LimitNOFILE=${OPEN_FILES}

NoNewPrivileges=yes
${user === 'root' ? '' : 'CapabilityBoundingSet=\n'}ProtectSystem=strict
ReadWritePaths=${quoteWord(root)}${isInTmp ? ' /tmp /var/tmp' : ''}
ProtectHome=${isBelow(['/home', '/root', '/run/user']) ? 'read-only' : 'yes'}
PrivateTmp=${isInTmp ? 'no' : 'yes'}
PrivateDevices=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service @mount sethostname
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
`
}

/** Quotes a value that systemd splits at blanks. "%" starts a specifier everywhere. */
function quoteWord(word: string): string {
  return `"${word.replaceAll(/[\\"]/g, '\\$&').replaceAll('%', '%%')}"`
}

/** In commands, "$" also starts a variable. */
function quoteCommandWord(word: string): string {
  return quoteWord(word).replaceAll('$', '$$$$')
}

export interface WrittenUnit {
  readonly path: string
  readonly user: string
}

interface WriteUnitOptions {
  readonly name: string
  readonly layout: Layout
  readonly sources: readonly SettingSource[]
  /** Defaults to the Node of this process. */
  readonly node?: string
}

const PROGRAM = fileURLToPath(new URL('../../bin/svc.js', import.meta.url))

/** Writes the unit into the data directory. Refuses before it writes if the unit could not start. */
export async function writeUnit(options: WriteUnitOptions): Promise<WrittenUnit> {
  const { text, user } = await planUnit(options)
  const path = join(options.layout.root, unitName(options.name))
  await writeAtomic(path, text, 0o644)
  return { path, user }
}

/** The text that `writeUnit` writes. */
export async function planUnit({
  name,
  layout,
  sources,
  node = process.execPath,
}: WriteUnitOptions): Promise<{ readonly text: string; readonly user: string }> {
  // systemd does not follow links in ReadWritePaths.
  const root = join(await realpath(dirname(layout.root)), `svc_${name}`)
  if ((await realpath(layout.root)) !== root)
    refuse(
      'invalid',
      `${layout.root} is a symbolic link, which a unit cannot serve`,
      'set SVC_DATA_DIR to the directory that contains it',
    )
  const { uid, gid, user } = await findUnitUser({ name, layout })
  const { AGENT_MAX_PROCESSES, SANDBOX_PATHS } = readSettings(CELL_SETTINGS, sources)
  const options = {
    instance: name,
    root,
    user,
    node,
    program: PROGRAM,
    paths: SANDBOX_PATHS,
    turnsMax: readTurnRules(sources).turnsMax,
    processesMax: AGENT_MAX_PROCESSES,
  }
  for (const path of [root, node, PROGRAM]) mustBePrintable(path)
  for (const path of [node, PROGRAM]) await mustBeReadable(path, { uid, gid, user })
  return { text: formatUnit(options), user }
}

const UNIT_DIRECTORIES = ['/etc/systemd/system', '/run/systemd/system', '/usr/local/lib/systemd/system']

/** The unit of the instance that systemd knows; undefined if there is none. */
export async function installedUnit(
  instance: string,
  directories: readonly string[] = UNIT_DIRECTORIES,
): Promise<{ readonly path: string; readonly text: string } | undefined> {
  for (const directory of directories) {
    const path = join(directory, unitName(instance))
    const text = await readText(path, UNIT_MAX_BYTES).catch(() => undefined)
    if (text !== undefined) return { path, text }
  }
  return undefined
}

function mustBePrintable(path: string): void {
  if (/[\p{Cc}\u2028\u2029]/u.test(path))
    refuse('invalid', `a unit cannot contain the path ${JSON.stringify(path)}`, 'rename the directory')
}

/** The owner of the data directory. Refuses that of another user, unless root asks. */
export async function findUnitUser({
  name,
  layout: { root },
}: Pick<WriteUnitOptions, 'name' | 'layout'>): Promise<PathReader> {
  const { uid, gid } = await stat(root)
  const user = await findUserName(uid)
  const self = process.getuid?.()
  if (self !== 0 && self !== uid)
    refuse(
      'forbidden',
      `${root} belongs to the user ${user ?? uid}`,
      `sudo -u '${user ?? `#${uid}`}' svc generate ${name} --systemd`,
    )
  // systemd needs a name: it does not start a unit for a uid that the system does not know.
  if (user === undefined)
    refuse(
      'not_found',
      `${root} belongs to uid ${uid}, which is not a user of this machine`,
      `useradd --system --uid ${uid} svc, or chown -R the directory`,
    )
  return { uid, gid, user }
}

async function findUserName(uid: number): Promise<string | undefined> {
  try {
    return (await promisify(execFile)('id', ['-nu', String(uid)])).stdout.trim()
  } catch {
    return undefined
  }
}

interface PathReader {
  readonly uid: number
  readonly gid: number
  readonly user: string
}

/** Checks as the user of the unit, because root can read everything. */
async function mustBeReadable(path: string, { uid, gid, user }: PathReader): Promise<void> {
  const child = spawn('/bin/sh', ['-c', 'test -r "$1"', 'sh', path], {
    ...(process.getuid?.() === 0 ? { uid, gid } : {}),
    cwd: '/',
    env: {},
    stdio: 'ignore',
  })
  const isReadable = await new Promise<boolean>((resolve) => {
    child.on('error', () => resolve(false))
    child.on('close', (code) => resolve(code === 0))
  })
  if (!isReadable)
    refuse(
      'forbidden',
      `the user ${user} cannot read ${path}`,
      'install svc for all users of this machine: npm install -g svc-host',
    )
}
