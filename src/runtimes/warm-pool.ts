// Processes that wait for jobs, kept for a while between them.

import { launch } from '../cell/launch.ts'
import { UnconfinedCell } from '../cell/unconfined-cell.ts'
import type { Clock } from '../lib/clock.ts'
import { baseEnvironment } from './environment.ts'
import type { AgentRunResult, Job } from './runtime.ts'
import { WarmChild } from './warm-child.ts'

const IDLE_MS = 60_000
/** Each is a process with its memory. */
const IDLE_MAX = 8

/** Its jobs are turns of many folders, and each of them has limits of its own. */
const NO_LIMITS = {
  processes: Number.POSITIVE_INFINITY,
  memoryBytes: Number.POSITIVE_INFINITY,
  files: Number.POSITIVE_INFINITY,
  cpuMs: Number.POSITIVE_INFINITY,
}

interface Idle {
  readonly child: WarmChild
  readonly timer: NodeJS.Timeout
}

export interface WarmPoolOptions {
  readonly clock: Clock
  readonly argv: readonly string[]
  /** Variables besides those that any program needs. */
  readonly env?: Readonly<Record<string, string>> | undefined
  readonly idleMs?: number
}

export class WarmPool {
  readonly #options: WarmPoolOptions
  /** The oldest first. */
  readonly #idle = new Set<Idle>()
  readonly #children = new Set<WarmChild>()
  readonly #cell = new UnconfinedCell(undefined, NO_LIMITS)
  #isClosed = false

  constructor(options: WarmPoolOptions) {
    this.#options = options
  }

  /** Starts one ahead. */
  async warm(): Promise<void> {
    this.#park(await this.#start())
  }

  async run(job: Job, line: object): Promise<AgentRunResult> {
    const child = this.#take() ?? (await this.#start())
    try {
      return await child.run(job, line)
    } finally {
      if (!child.isGone) this.#park(child)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { timer } of this.#idle) clearTimeout(timer)
    this.#idle.clear()
    await Promise.all([...this.#children].map((child) => child.stop()))
  }

  #take(): WarmChild | undefined {
    for (const idle of [...this.#idle].reverse()) {
      this.#idle.delete(idle)
      clearTimeout(idle.timer)
      if (!idle.child.isGone) return idle.child
    }
    return undefined
  }

  #park(child: WarmChild): void {
    if (this.#isClosed) {
      void child.stop()
      return
    }
    const timer = setTimeout(() => this.#drop(idle), this.#options.idleMs ?? IDLE_MS).unref()
    const idle: Idle = { child, timer }
    this.#idle.add(idle)
    const [oldest] = this.#idle
    if (this.#idle.size > IDLE_MAX && oldest) this.#drop(oldest)
  }

  #drop(idle: Idle): void {
    this.#idle.delete(idle)
    clearTimeout(idle.timer)
    void idle.child.stop()
  }

  async #start(): Promise<WarmChild> {
    const { argv, env, clock } = this.#options
    const all = { ...baseEnvironment(this.#cell, '/'), ...env }
    const place = {
      folder: '',
      home: '/',
      socket: '',
      openHome: async () => ({ fd: -1, close: async () => undefined }),
    }
    const child = new WarmChild(await launch(this.#cell, place, argv, all), clock)
    this.#children.add(child)
    void child.ended.then(() => this.#children.delete(child))
    return child
  }
}
