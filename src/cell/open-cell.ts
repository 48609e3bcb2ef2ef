// Creates the sandbox that the settings select, or explains why it does not work on this machine and how to fix it.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type AgentUser, agentUsers } from '../core/agent-user.ts'
import { readEnvironment } from '../lib/environment.ts'
import { Directory } from '../lib/files/directory.ts'
import { refuse } from '../lib/refusal.ts'
import { BubblewrapCell } from './bubblewrap/bubblewrap-cell.ts'
import { MountView } from './bubblewrap/mount-view.ts'
import type { Cell } from './cell.ts'
import { CellPaths } from './cell-paths.ts'
import { findOnPath } from './executable.ts'
import { runLimits } from './limits.ts'
import { canOpenPipes } from './pipe.ts'
import type { CellSettings } from './settings.ts'
import { UnconfinedCell } from './unconfined-cell.ts'

export interface OpenCellOptions {
  readonly settings: CellSettings
  /** Directories of all workspaces, of visitor chats and of files in chats. */
  readonly groups: string
  readonly chats: string
  readonly files: string
  /** The data directory; default the parent of `groups`. */
  readonly root?: string | undefined
  onError?(error: unknown): void
}

const INSTALL = 'apt-get install bubblewrap perl-base'
const ALTERNATIVE = 'or set SANDBOX=none in .env to run agents without a sandbox'

/** If sandboxes do not work on this machine, the hint of the refusal says how to fix it. */
export async function openCell({
  settings,
  groups,
  chats,
  files,
  root = dirname(groups),
  onError,
}: OpenCellOptions): Promise<Cell> {
  const user = agentUsers(settings, root)
  const limits = runLimits(settings)
  if (settings.SANDBOX === 'none') return new UnconfinedCell(user, limits)
  if (settings.SANDBOX === 'container') {
    const { openContainerCell } = await import('./container/open-container-cell.ts')
    return openContainerCell({ settings, user, root, groups, onError: (error) => onError?.(error) })
  }
  if (process.platform !== 'linux') refuse('unavailable', 'agent sandboxes need Linux', ALTERNATIVE.slice(3))
  if (!canOpenPipes())
    refuse('unavailable', 'agent sandboxes need a Node with node:ffi', `start svc with its own command, ${ALTERNATIVE}`)
  const bwrap =
    findOnPath('bwrap') ?? refuse('unavailable', 'bubblewrap is not installed', `${INSTALL}, ${ALTERNATIVE}`)
  // In a directory that the sandbox can see.
  const isVisible = (path: string): boolean => path.startsWith('/usr/') || path.startsWith('/bin/')
  const perl =
    findOnPath('perl', isVisible) ?? refuse('unavailable', 'perl is not installed', `${INSTALL}, ${ALTERNATIVE}`)
  if (!existsSync(groups))
    refuse('unavailable', `directory ${groups} does not exist`, 'create the instance with svc create')
  const paths = new CellPaths(settings.SANDBOX_PATHS)
  const mounted = [groups, chats, files].filter((path) => existsSync(path)).map((path) => realpathSync(path))
  const view = user && (await viewFor(user, [...mounted, ...paths.sources()]))
  const isNetworkOpen = settings.NETWORK === 'open'
  const cell = new BubblewrapCell({ bwrap, perl, user, limits, isNetworkOpen, paths, view })
  const error = await probe(cell, groups)
  if (error === undefined) return cell
  await cell.close()
  const { reason, remedy } = await diagnose(error, groups, user)
  return refuse('unavailable', reason, `${remedy}, ${ALTERNATIVE}`)
}

/** Undefined if the agents' user can enter all sources, or if no view can be created; then the probe fails. */
async function viewFor(user: AgentUser, sources: readonly string[]): Promise<MountView | undefined> {
  for (const source of sources)
    if (!(await canEnter(user, statSync(source).isDirectory() ? source : dirname(source))))
      return MountView.open(sources).catch(() => undefined)
  return undefined
}

/** Starts `true` with the arguments of a real run. Returns the error of bubblewrap, or undefined. */
async function probe(cell: Cell, groups: string): Promise<string | undefined> {
  const resources = {
    folder: '',
    home: groups,
    // Any file can stand in for the socket.
    socket: '/dev/null',
    openHome: async () =>
      (await Directory.open(groups, { follow: true })) ?? refuse('not_found', `directory ${groups} does not exist`),
  }
  const { stderr: output, ended } = await cell.start(resources, ['/bin/true'], {})
  let stderr = ''
  output.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-2000)
  })
  const { code, error } = await ended
  if (code === 0) return undefined
  return stderr.trim().split('\n').at(-1) || error?.message || `exit code ${code}`
}

interface Diagnosis {
  readonly reason: string
  readonly remedy: string
}

/** Inspects the machine instead of bubblewrap's messages, which change between versions. */
async function diagnose(error: string, groups: string, user: AgentUser | undefined): Promise<Diagnosis> {
  if (hasKernelValue('/proc/sys/user/max_user_namespaces', '0'))
    return { reason: 'the kernel does not allow user namespaces', remedy: 'sysctl -w user.max_user_namespaces=15000' }
  if (hasKernelValue('/proc/sys/kernel/unprivileged_userns_clone', '0'))
    return {
      reason: 'the kernel does not allow user namespaces for ordinary users',
      remedy: 'sysctl -w kernel.unprivileged_userns_clone=1',
    }
  if (user && !(await canEnter(user, groups)))
    return {
      reason: `the agents' user (uid ${user.uid}) cannot enter ${groups}`,
      remedy: 'make every parent directory enterable (chmod o+x), or move the data to a path such as /srv/data',
    }
  if (hasKernelValue('/proc/sys/kernel/apparmor_restrict_unprivileged_userns', '1'))
    return {
      reason: `AppArmor prevents bubblewrap from creating namespaces (${error})`,
      remedy:
        'add an AppArmor profile for bwrap with the rule "userns," (docs/security.md), or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
    }
  // systemd sets it for the processes of a unit.
  if (readEnvironment('INVOCATION_ID') !== undefined)
    return {
      reason: `bubblewrap does not work in this systemd unit (${error})`,
      remedy: 'remove the directives that svc generate --systemd leaves out (docs/server.md)',
    }
  if (existsSync('/.dockerenv') || existsSync('/run/.containerenv'))
    return {
      reason: `this container does not allow nested namespaces (${error})`,
      remedy:
        'start it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (Podman: --security-opt unmask=ALL)',
    }
  return {
    reason: `bubblewrap does not work on this machine (${error})`,
    remedy: 'install bubblewrap 0.8 or newer with --bind-fd',
  }
}

function hasKernelValue(path: string, value: string): boolean {
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
