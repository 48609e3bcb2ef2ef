// `svc generate`: writes the compose file of an instance and the files that it mounts. The compose file is written last and
// names the other files by a hash of their content, so a crash or a full disk leaves the previous set as it was.
import { createHmac } from 'node:crypto'
import { chown, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Layout } from '../core/layout.ts'
import { linkHost, listenAddressOf } from '../daemons/process/listen-addresses.ts'
import { readProviderSettings } from '../daemons/provider-settings.ts'
import { ALL_SETTINGS, CONTAINER_SETTINGS, DAEMON_NAMES, type DaemonName } from '../daemons/settings.ts'
import { refuseDisk, writeAtomic } from '../lib/files/atomic-file.ts'
import { Directory } from '../lib/files/directory.ts'
import type { FileOwner } from '../lib/files/owner.ts'
import { refuse } from '../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../lib/settings.ts'
import { formatDotenv } from '../lib/text/dotenv.ts'
import { packageVersion } from '../lib/version.ts'
import { EMPTY_ENV_FILE } from './compose-command.ts'
import { type ComposeInput, composeText, egressState, packageServices } from './compose-document.ts'
import { containerNetworks } from './container-networks.ts'
import { type ContainerSite, daemonEnv, unreachableUrls } from './daemon-env.ts'
import type { Fragment } from './fragment.ts'
import { readFragments } from './fragment-files.ts'
import { makeMountedDirectories } from './mounted-directories.ts'
import { isUnedited, readGenerated, readUnedited } from './stamped-file.ts'

export interface GenerateOptions {
  readonly instance: string
  readonly layout: Layout
  /** The content of .env. */
  readonly entries: ReadonlyMap<string, string>
  /** Overwrites a compose file that was edited by hand. */
  readonly isForced: boolean
  /** Of the engine; undefined for the default path. */
  readonly engineSocket?: string | undefined
  /** User of this process; undefined on systems without users. */
  readonly uid?: number | undefined
  warn(text: string): void
}

export interface GeneratedCompose {
  readonly path: string
  readonly services: readonly string[]
  readonly isChanged: boolean
  readonly image: string
  readonly published: ComposeInput['published']
  /** The new owner of the directories that containers use; undefined if it has not changed. */
  readonly newOwner?: FileOwner | undefined
}

/** Directory of the files that containers mount, besides those of the instance. */
const FILE_NAME = /^[a-z0-9-]+-[0-9a-f]{16}\.(?:env|json|txt)$/
const UNFINISHED = /^\.tmp-[0-9a-f]{16}$/

export async function generateCompose(options: GenerateOptions): Promise<GeneratedCompose> {
  const { layout, entries, warn } = options
  const source = sourceOf(layout.env, entries)
  mustBeValid(source)
  const previous = await (options.isForced ? readGenerated(layout.compose) : readUnedited(layout.compose, EDIT_HINT))
  const owner = await findContainerOwner(layout, options.uid)
  const plan = await planFiles(options, source, owner)
  for (const warning of plan.warnings) warn(warning)
  const text = await composeText(plan.input)
  const user = options.uid === 0 ? owner : undefined
  const isOwnerNew = await makeMountedDirectories(layout, user, plan.input.postgres !== undefined)
  await writeSet(layout, plan.files, text, user)
  await removeUnused(layout, `${text}\n${previous ?? ''}`)
  return {
    path: layout.compose,
    services: [
      ...[...DAEMON_NAMES, 'egress-proxy', ...(plan.input.postgres ? ['postgres'] : [])],
      ...packageServices(plan.input.fragments).map(({ name }) => name),
    ],
    isChanged: previous !== text,
    image: plan.input.image,
    published: plan.input.published,
    newOwner: isOwnerNew ? owner : undefined,
  }
}

function mustBeValid(source: SettingSource): void {
  readSettings(ALL_SETTINGS, [source])
  readProviderSettings([source])
}

/** Whether the compose file is what `generate` would write now. Changes nothing. */
export async function composeState(
  options: Omit<GenerateOptions, 'isForced' | 'warn'>,
): Promise<'absent' | 'edited' | 'outdated' | 'current'> {
  const text = await readGenerated(options.layout.compose)
  if (text === undefined) return 'absent'
  if (!isUnedited(text)) return 'edited'
  const source = sourceOf(options.layout.env, options.entries)
  const owner = await findContainerOwner(options.layout, options.uid)
  const { input } = await planFiles({ ...options, isForced: false, warn: () => {} }, source, owner)
  return (await composeText(input)) === text ? 'current' : 'outdated'
}

const EDIT_HINT = 'move your changes to .env or services/, then write it anew with svc generate --force'

/**
 * The user of the containers: the owner of the data directory, or of the workspaces if that is root, because containers never run
 * as root. Refuses the directory of another user.
 */
export async function findContainerOwner(layout: Layout, uid: number | undefined): Promise<FileOwner> {
  const found = await stat(layout.root).catch((error) => refuseDisk(error, 'use', layout.root))
  if (uid !== undefined && uid !== 0 && found.uid !== uid)
    refuse(
      'forbidden',
      `${layout.root} belongs to another user (uid ${found.uid})`,
      found.uid === 0 ? 'run the command as root' : `run the command as that user, with sudo -u '#${found.uid}'`,
    )
  if (found.uid !== 0) return { uid: found.uid, gid: found.gid }
  const { uid: agent, gid } =
    layout.agents ?? refuse('forbidden', `${layout.root} belongs to root`, 'run the command as root')
  return { uid: agent, gid }
}

interface PlannedFile {
  readonly name: string
  readonly text: string
}

interface FilePlan {
  readonly input: ComposeInput
  readonly files: readonly PlannedFile[]
  readonly warnings: readonly string[]
}

async function planFiles(options: GenerateOptions, source: SettingSource, user: FileOwner): Promise<FilePlan> {
  const { instance, layout } = options
  // Inside a container proxyd listens at another port than the one that is published.
  const entries = new Map([...options.entries, ['WEB_HOST', linkHost([source])]])
  const settings = readSettings(CONTAINER_SETTINGS, [source])
  const password = settings.POSTGRES_PASSWORD || undefined
  const site: ContainerSite = {
    instance,
    root: layout.root,
    image: settings.SVC_IMAGE || `svc-host:${packageVersion()}`,
    networks: containerNetworks(settings.CONTAINER_SUBNET, layout.root),
    postgresPassword: password,
  }
  const fragments = await readFragments(layout, password !== undefined)
  const files: PlannedFile[] = []
  const add = (label: string, extension: string, text: string): string => {
    const name = `${label}-${contentHash(entries, `${label}\n${text}`)}.${extension}`
    files.push({ name, text })
    return join(layout.daemonEnvs, name)
  }
  const envFiles = Object.fromEntries(
    DAEMON_NAMES.map((daemon) => [daemon, add(daemon, 'env', formatDotenv(daemonEnv(daemon, entries, site)))]),
    // The list has every name, which the type of fromEntries cannot express.
  ) as Record<DaemonName, string>
  const warnings: string[] = []
  const serviceEnvFiles = new Map<string, string>()
  for (const { name, fragment } of packageServices(fragments)) {
    const values = serviceSettings(fragment, entries, warnings)
    if (values.length > 0) serviceEnvFiles.set(name, add(name, 'env', formatDotenv(values)))
  }
  for (const key of unreachableUrls(entries)) {
    if (key === 'DATABASE_URL')
      refuse(
        'invalid',
        `DATABASE_URL in ${layout.env} names this machine, which inside a container is the container itself`,
        'write the address of the server that containers can reach, or remove the setting and use svc generate --postgres',
      )
    warnings.push(
      `${key} names this machine, which inside a container is the container itself: write an address that containers can reach`,
    )
  }
  const hasOutsideDatabase = password === undefined && Boolean(entries.get('DATABASE_URL'))
  const input: ComposeInput = {
    ...site,
    user,
    envFiles,
    stateFile: add('egress', 'json', egressState({ networks: site.networks, fragments })),
    egressConfig: add('egress-admin', 'txt', `[admin]\nsecret = "${keyedHash(entries, 'admin of egress-proxy')}"\n`),
    published: publishedAddresses(source),
    postgres:
      password === undefined
        ? undefined
        : { image: settings.POSTGRES_IMAGE, passwordFile: add('postgres-password', 'txt', password) },
    hasOutsideDatabase,
    hasCollector: Boolean(entries.get('OTEL_EXPORTER_OTLP_ENDPOINT')),
    engineSocket: entries.get('SANDBOX') === 'none' ? undefined : await findEngineSocket(options, warnings),
    fragments,
    serviceEnvFiles,
  }
  return { input, files, warnings }
}

/** Keyed, so that the name in the readable compose file tells nothing about a short secret. */
function contentHash(entries: ReadonlyMap<string, string>, text: string): string {
  return keyedHash(entries, text).slice(0, 16)
}

function keyedHash(entries: ReadonlyMap<string, string>, text: string): string {
  const key = entries.get('SECRETS_KEY') ?? entries.get('CHANNEL_SECRET') ?? ''
  return createHmac('sha256', key).update(text).digest('hex')
}

function serviceSettings(
  { name, settings, optionalSettings }: Fragment,
  entries: ReadonlyMap<string, string>,
  warnings: string[],
): (readonly [string, string])[] {
  return settings.toSorted().flatMap((key) => {
    const value = entries.get(key)
    if (value === undefined) {
      if (!optionalSettings.includes(key))
        warnings.push(`services/${name}.yml uses the setting ${key}, which .env does not have`)
      return []
    }
    // In such a file, docker-compose 1.29 expands ${x} even in quotes, and versions disagree about the rest.
    if (/['\\\r\n]|\$\{/.test(value))
      refuse(
        'invalid',
        `${key} in .env has a single quote, a backslash, a line break or \${, which the service of a package cannot get`,
      )
    return [[key, value] as const]
  })
}

function publishedAddresses(source: SettingSource): ComposeInput['published'] {
  const proxyd = listenAddressOf('proxyd', [source])
  const routd = listenAddressOf('routd', [source])
  for (const { listen, setting } of [proxyd, routd])
    if (listen.port === 0)
      refuse(
        'invalid',
        `${setting} has port 0, and a container needs a fixed one`,
        `set ${setting} to a port such as 8080`,
      )
  const { host, port } = proxyd.listen
  const address = host === 'localhost' ? '127.0.0.1' : host.includes(':') ? `[${host}]` : host
  if (!/^[\d.]+$|^\[/.test(address))
    refuse(
      'invalid',
      `${proxyd.setting} has the name ${host}, and a container needs an address`,
      'write 127.0.0.1 or 0.0.0.0',
    )
  // Strangers must not reach it, whatever ROUTD_LISTEN says.
  return { proxyd: `${address}:${port}`, routd: `127.0.0.1:${routd.listen.port}` }
}

const DEFAULT_SOCKET = '/var/run/docker.sock'

async function findEngineSocket(
  { entries, engineSocket = DEFAULT_SOCKET }: GenerateOptions,
  warnings: string[],
): Promise<ComposeInput['engineSocket']> {
  const path = entries.get('ENGINE_SOCKET') || engineSocket
  try {
    const { gid } = await stat(path)
    // Group 0 would give runed the group of root.
    return { path, gid: gid === 0 ? undefined : gid }
  } catch {
    warnings.push(`there is no socket of a container engine at ${path}: runed cannot start agents until one is there`)
    return { path }
  }
}

/** New files have new names, so that the previous compose file keeps its own; those of a failed attempt are removed. */
async function writeSet(
  { daemonEnvs, compose }: Layout,
  files: readonly PlannedFile[],
  text: string,
  owner: FileOwner | undefined,
): Promise<void> {
  await (await Directory.make(daemonEnvs, 0o700, { follow: true })).close()
  const written: string[] = []
  try {
    const existing = new Set(await readdir(daemonEnvs))
    const empty = { name: EMPTY_ENV_FILE, text: '# Empty on purpose: compose would read .env instead.\n' }
    for (const { name, text: content } of [empty, ...files]) {
      if (existing.has(name)) continue
      const path = join(daemonEnvs, name)
      written.push(path)
      await writeAtomic(path, content, 0o600)
      await setOwner(path, owner)
    }
    await writeAtomic(compose, text, 0o644)
  } catch (error) {
    for (const path of written) await rm(path, { force: true })
    throw error
  }
}

async function setOwner(path: string, owner: FileOwner | undefined): Promise<void> {
  if (owner) await chown(path, owner.uid, owner.gid).catch((error) => refuseDisk(error, 'write', path))
}

/** Keeps the files of the previous compose file: its containers may still run, and restart. */
async function removeUnused({ daemonEnvs }: Layout, used: string): Promise<void> {
  for (const name of await readdir(daemonEnvs))
    if (UNFINISHED.test(name) || (FILE_NAME.test(name) && !used.includes(name)))
      await rm(join(daemonEnvs, name), { force: true })
}
