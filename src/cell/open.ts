// Opens the way to run agents that the settings name, or says why it does not work here and what to do about it.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type AgentUser, agentUser } from '../core/agent-user.ts'
import { Directory } from '../lib/directory.ts'
import { refuse } from '../lib/refusal.ts'
import { fromEnvironment } from '../lib/settings.ts'
import { BubblewrapCell } from './bubblewrap.ts'
import type { Cell } from './cell.ts'
import { launch } from './launch.ts'
import { runLimits } from './limits.ts'
import { MountView } from './mount-view.ts'
import { OpenCell } from './no-cell.ts'
import { CellPaths } from './paths.ts'
import { isProgram } from './program.ts'
import type { CellSettings } from './settings.ts'

export interface OpenOptions {
  readonly settings: CellSettings
  /** The directory of all workspaces, and that of visitors' chats: what a cell mounts lies there. */
  readonly groups: string
  readonly chats: string
}

const INSTALL = 'apt-get install bubblewrap perl-base'
const OTHERWISE = 'or set SANDBOX=none in .env to run agents without a cell'

/** Refuses, with the remedy as the hint, where cells do not work on this machine. */
export async function openCell({ settings, groups, chats }: OpenOptions): Promise<Cell> {
  const user = agentUser(settings.AGENT_UID)
  const limits = runLimits(settings)
  if (settings.SANDBOX === 'none') return new OpenCell(user, limits)
  if (process.platform !== 'linux') refuse('unavailable', 'cells need Linux', OTHERWISE.slice(3))
  const bwrap = programAt('bwrap') ?? refuse('unavailable', 'bubblewrap is not installed', `${INSTALL}, ${OTHERWISE}`)
  const perl = programAt('perl') ?? refuse('unavailable', 'perl is not installed', `${INSTALL}, ${OTHERWISE}`)
  if (!existsSync(groups)) refuse('unavailable', `there is no directory ${groups}`, 'svc create makes it')
  const paths = new CellPaths(settings.SANDBOX_PATHS)
  const mounted = [groups, chats].filter((path) => existsSync(path)).map((path) => realpathSync(path))
  const view = user && (await viewFor(user, [...mounted, ...paths.sources()]))
  const isNetworkOpen = settings.NETWORK === 'open'
  const cell = new BubblewrapCell({ bwrap, perl, user, limits, isNetworkOpen, paths, view })
  const said = await probe(cell, groups)
  if (said === undefined) return cell
  cell.close()
  const { reason, remedy } = await diagnose(said, groups, user)
  return refuse('unavailable', reason, `${remedy}, ${OTHERWISE}`)
}

/** Where the agents' user can enter all of them, there is nothing to do. Where no view can be made, the probe fails. */
async function viewFor(user: AgentUser, sources: readonly string[]): Promise<MountView | undefined> {
  for (const source of sources)
    if (!(await canEnter(user, statSync(source).isDirectory() ? source : dirname(source))))
      return MountView.open(sources).catch(() => undefined)
  return undefined
}

/** What bubblewrap said when it could not start `true` with the arguments of a real run; undefined where it could. */
async function probe(cell: Cell, groups: string): Promise<string | undefined> {
  const place = {
    folder: '',
    home: groups,
    // Any file will do in the place of the socket.
    socket: '/dev/null',
    openHome: async () =>
      (await Directory.open(groups, { follow: true })) ?? refuse('not_found', `there is no directory ${groups}`),
  }
  const { child, ended } = await launch(cell, place, ['/bin/true'], {})
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-2000)
  })
  const { code, error } = await ended
  if (code === 0) return undefined
  return said.trim().split('\n').at(-1) || error?.message || `exit code ${code}`
}

interface Diagnosis {
  readonly reason: string
  readonly remedy: string
}

/** By looking at the machine, not at the words of bubblewrap, which change from version to version. */
async function diagnose(said: string, groups: string, user: AgentUser | undefined): Promise<Diagnosis> {
  if (kernelSays('/proc/sys/user/max_user_namespaces', '0'))
    return { reason: 'the kernel permits no user namespaces', remedy: 'sysctl -w user.max_user_namespaces=15000' }
  if (kernelSays('/proc/sys/kernel/unprivileged_userns_clone', '0'))
    return {
      reason: 'the kernel permits no user namespaces to ordinary users',
      remedy: 'sysctl -w kernel.unprivileged_userns_clone=1',
    }
  if (user && !(await canEnter(user, groups)))
    return {
      reason: `the agents' user (uid ${user.uid}) cannot enter ${groups}`,
      remedy: 'keep the data where every directory above it can be entered by all (chmod o+x), such as /srv/data',
    }
  if (kernelSays('/proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1'))
    return {
      reason: `AppArmor keeps bubblewrap from making namespaces (${said})`,
      remedy:
        'add an AppArmor profile for bwrap with the rule "userns," (docs/security.md), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    }
  if (existsSync('/.dockerenv') || existsSync('/run/.containerenv'))
    return {
      reason: `this container permits no nested namespaces (${said})`,
      remedy:
        'start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (Podman: --security-opt unmask=ALL)',
    }
  return { reason: `bubblewrap does not work here (${said})`, remedy: 'install bubblewrap 0.8 or newer with --bind-fd' }
}

function kernelSays(path: string, value: string): boolean {
  try {
    return readFileSync(path, 'utf8').trim() === value
  } catch {
    return false
  }
}

function canEnter({ uid, gid }: AgentUser, directory: string): Promise<boolean> {
  const child = spawn('/bin/sh', ['-c', 'cd "$1"', 'sh', directory], { uid, gid, cwd: '/', env: {}, stdio: 'ignore' })
  return new Promise((resolve) => {
    child.on('error', () => resolve(false))
    child.on('close', (code) => resolve(code === 0))
  })
}

/** Perl only where every cell shows it. */
function programAt(name: string): string | undefined {
  const folders = (fromEnvironment('PATH') ?? '/usr/bin:/bin').split(':')
  const isShown = (path: string): boolean => name === 'bwrap' || path.startsWith('/usr/') || path.startsWith('/bin/')
  return folders
    .filter(Boolean)
    .map((folder) => join(folder, name))
    .find((path) => isShown(path) && isProgram(path))
}
