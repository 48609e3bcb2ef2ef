// No cell (`SANDBOX=none`): a process sees and reaches what its user can. Started by root, it still runs as the agents' user.
import { statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { AgentUser } from '../core/agent-user.ts'
import { type Cell, type Entry, mustBeWithoutNul, type Place, type SeenPlaces } from './cell.ts'
import type { RunLimits } from './limits.ts'
import { isProgram } from './program.ts'

export class OpenCell implements Cell {
  readonly kind = 'none'
  readonly isNetworkOpen = true
  readonly user: AgentUser | undefined
  readonly limits: RunLimits

  constructor(user: AgentUser | undefined, limits: RunLimits) {
    this.user = user
    this.limits = limits
  }

  seen({ home, socket, chat }: Pick<Place, 'home' | 'socket' | 'chat'>): SeenPlaces {
    return { workspace: home, home: chat?.path ?? home, socket }
  }

  inner(path: string): string {
    return path
  }

  /** Without the directories that another user cannot enter: one of them hides which programs there are. */
  searchPath(path: string): string {
    return this.user ? path.split(':').filter(canBeEntered).join(':') : path
  }

  async enter(place: Place, argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Entry> {
    mustBeWithoutNul([...argv, ...Object.entries(env).flat()])
    // A workspace that is not there, or leads elsewhere, is refused as in a cell.
    await (await place.openHome()).close()
    await (await place.chat?.open())?.close()
    const release = async (): Promise<void> => undefined
    return {
      argv: [...endingWithUs(argv, env.PATH), ...argv],
      env,
      cwd: place.home,
      user: this.user,
      wrappers: 0,
      descriptors: [],
      release,
    }
  }

  close(): void {}
}

function canBeEntered(folder: string): boolean {
  for (let at = folder; ; at = dirname(at)) {
    const stats = statSync(at, { throwIfNoEntry: false })
    if (!stats || (stats.mode & 0o001) === 0) return false
    if (at === dirname(at)) return true
  }
}

/**
 * Makes the kernel end a program with this process, however that ends: an agent that outlives a kill would work on beside
 * the one that is started in its place. Bubblewrap does it by itself.
 */
function endingWithUs([program = '']: readonly string[], path = ''): readonly string[] {
  const canRun = (name: string): boolean =>
    name.includes('/')
      ? isProgram(name)
      : path.split(':').some((folder) => folder !== '' && isProgram(join(folder, name)))
  // A program that is not there, or may not be run, is left to say so itself.
  return process.platform === 'linux' && canRun('setpriv') && canRun(program)
    ? ['setpriv', '--pdeathsig', 'KILL', '--']
    : []
}
