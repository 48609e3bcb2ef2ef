// Pool of agent processes that stay alive for a while between jobs.
import { UnconfinedCell } from '../cell/unconfined-cell.ts'
import type { AgentUser } from '../core/agent-user.ts'
import type { Clock } from '../lib/clock.ts'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
import { buildBaseEnvironment } from './environment.ts'
import type { AgentRunResult, Job } from './runtime.ts'
import { WarmChild } from './warm-child.ts'

const IDLE_MS = 60_000
/** Bounds the memory of idle processes. */
const IDLE_MAX = 8

/** A child runs turns of many folders, so the limits of one folder do not apply to it. */
const NO_LIMITS = {
  processes: Number.POSITIVE_INFINITY,
  memoryBytes: Number.POSITIVE_INFINITY,
  files: Number.POSITIVE_INFINITY,
  cpuMs: Number.POSITIVE_INFINITY,
}

interface IdleChild {
  readonly child: WarmChild
  readonly uid?: number | undefined
  readonly timer: NodeJS.Timeout
}

interface WarmPoolOptions {
  readonly clock: Clock
  readonly argv: readonly string[]
  /** The user of a job that names none. The uid and gid of the user that a process must become are added to `argv`. */
  readonly user?: AgentUser | undefined
  /** Added to the base environment. */
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly idleMs?: number
  /** Gets exceptions that no run waits for. */
  readonly onFault: FaultHandler
}

export class WarmPool {
  readonly #options: WarmPoolOptions
  /** Oldest first. */
  readonly #idle = new Set<IdleChild>()
  readonly #children = new Set<WarmChild>()
  readonly #cell = new UnconfinedCell(undefined, NO_LIMITS)
  #isClosed = false

  constructor(options: WarmPoolOptions) {
    this.#options = options
  }

  /** Starts a process in advance. */
  async warm(): Promise<void> {
    const { user } = this.#options
    this.#park(await this.#start(user), user)
  }

  async run(job: Job, line: object): Promise<AgentRunResult> {
    const { user = this.#options.user } = job
    const child = this.#take(user) ?? (await this.#start(user))
    try {
      return await child.run(job, line)
    } finally {
      if (!child.isGone) this.#park(child, user)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { timer } of this.#idle) clearTimeout(timer)
    this.#idle.clear()
    await Promise.all([...this.#children].map((child) => child.stop()))
  }

  #take(user: AgentUser | undefined): WarmChild | undefined {
    for (const idle of [...this.#idle].reverse()) {
      if (idle.uid !== user?.uid) continue
      this.#idle.delete(idle)
      clearTimeout(idle.timer)
      if (!idle.child.isGone) return idle.child
    }
    return undefined
  }

  #park(child: WarmChild, user: AgentUser | undefined): void {
    if (this.#isClosed) {
      child.stop().catch(this.#options.onFault)
      return
    }
    const { onFault, idleMs = IDLE_MS } = this.#options
    const timer = setTimeout(
      guard(onFault, () => this.#drop(idle)),
      idleMs,
    ).unref()
    const idle: IdleChild = { child, uid: user?.uid, timer }
    this.#idle.add(idle)
    const [oldest] = this.#idle
    if (this.#idle.size > IDLE_MAX && oldest) this.#drop(oldest)
  }

  #drop(idle: IdleChild): void {
    this.#idle.delete(idle)
    clearTimeout(idle.timer)
    idle.child.stop().catch(this.#options.onFault)
  }

  async #start(user: AgentUser | undefined): Promise<WarmChild> {
    const { env, clock, onFault } = this.#options
    const argv = [...this.#options.argv, ...(user ? [String(user.uid), String(user.gid)] : [])]
    const all = { ...buildBaseEnvironment(this.#cell, '/'), ...env }
    const resources = {
      folder: '',
      home: '/',
      socket: '',
      openHome: async () => ({ fd: -1, close: async () => undefined }),
    }
    const child = new WarmChild(await this.#cell.start(resources, argv, all), clock, onFault)
    this.#children.add(child)
    child.ended.then(() => this.#children.delete(child)).catch(onFault)
    return child
  }
}
