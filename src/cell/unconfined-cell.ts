// Runs agents without a sandbox (`SANDBOX=none`). If svc runs as root, they still run as the agents' user.
import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import {
  type Cell,
  type CellProcess,
  type CellResources,
  mustBeWithoutNul,
  type SpawnSpec,
  type VisiblePaths,
} from './cell.ts'
import { isExecutable } from './executable.ts'
import { spawnProcess } from './launch.ts'
import type { RunLimits } from './limits.ts'

export class UnconfinedCell implements Cell {
  readonly kind = 'none'
  readonly isNetworkOpen = true
  readonly user: AgentUser | undefined
  readonly limits: RunLimits

  constructor(user: AgentUser | undefined, limits: RunLimits) {
    this.user = user
    this.limits = limits
  }

  visiblePaths({ home, socket, chat }: Pick<CellResources, 'home' | 'socket' | 'chat'>): VisiblePaths {
    return { workspace: home, home: chat?.path ?? home, socket }
  }

  pathInside(path: string): string {
    return path
  }

  /** Removes directories that the agents' user cannot enter. */
  searchPath(path: string): string {
    return this.user ? path.split(':').filter(canBeEntered).join(':') : path
  }

  async start(...run: Parameters<Cell['start']>): Promise<CellProcess> {
    return spawnProcess(await this.prepareSpawn(...run), this.limits)
  }

  async prepareSpawn(
    resources: CellResources,
    argv: readonly string[],
    env: Readonly<Record<string, string>>,
  ): Promise<SpawnSpec> {
    mustBeWithoutNul([...argv, ...Object.entries(env).flat()])
    // Refuses a missing or replaced workspace, as a sandbox does.
    await (await resources.openHome()).close()
    await (await resources.chat?.open())?.close()
    await (await resources.files?.open())?.close()
    const release = async (): Promise<void> => undefined
    return {
      argv: [...parentDeathWrapper(argv, env.PATH), ...argv],
      env,
      cwd: resources.home,
      user: resources.user ?? this.user,
      owner: resources.user ?? this.user,
      descriptors: [],
      release,
    }
  }

  async close(): Promise<void> {}
}

function canBeEntered(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    const stats = statSync(at, { throwIfNoEntry: false })
    if (!stats || (stats.mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/**
 * Makes the kernel kill the program when this process dies: an agent that survives would work beside the one that replaces
 * it. Bubblewrap does this itself.
 */
function parentDeathWrapper([program = '']: readonly string[], path = ''): readonly string[] {
  const canRun = (name: string): boolean =>
    name.includes('/')
      ? isExecutable(name)
      : path.split(':').some((folder) => folder !== '' && isExecutable(join(folder, name)))
  // A missing program must fail with its own error, not with that of setpriv.
  return process.platform === 'linux' && canRun('setpriv') && canRun(program)
    ? ['setpriv', '--pdeathsig', 'KILL', '--']
    : []
}
