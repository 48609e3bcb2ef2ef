// Processes that wait for jobs, kept for a while between them. In a cell each folder has its own.
import type { Clock } from '../lib/clock.ts'
import type { Cell, Place } from './cell.ts'
import { bareEnvironment } from './environment.ts'
import { launch } from './launch.ts'
import { type Job, type Ran, RunFault } from './runtime.ts'
import { WarmChild } from './warm-child.ts'

const IDLE_MS = 60_000
/** Of all folders together: each is a process with its memory. */
const IDLE_MAX = 8

interface Idle {
  readonly key: string
  readonly child: WarmChild
  readonly timer: NodeJS.Timeout
}

export interface PoolOptions {
  readonly cell: Cell
  readonly clock: Clock
  readonly argv: readonly string[]
  readonly idleMs?: number
}

export class WarmPool {
  readonly #options: PoolOptions
  /** The oldest first. */
  readonly #idle = new Set<Idle>()
  readonly #children = new Set<WarmChild>()
  #isClosed = false

  constructor(options: PoolOptions) {
    this.#options = options
  }

  /** Starts one ahead, where it is not known yet for whom. */
  async warm(): Promise<void> {
    if (this.#options.cell.kind === 'none') this.#park('', await this.#start({ folder: '', home: '/', socket: '' }))
  }

  async run(job: Job, line: object): Promise<Ran> {
    const { folder, home, socket } = job
    const isShared = this.#options.cell.kind === 'none'
    const key = isShared ? '' : folder
    const place = isShared ? { folder: '', home: '/', socket: '' } : { folder, home, socket }
    const child = this.#take(key) ?? (await this.#start(place))
    try {
      return await child.run(job, line)
    } catch (error) {
      // In a cell it has the socket of the time when it was started, which may be gone.
      if (!isShared && error instanceof RunFault && error.kind === 'unavailable') await child.stop()
      throw error
    } finally {
      if (!child.isGone) this.#park(key, child)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { timer } of this.#idle) clearTimeout(timer)
    this.#idle.clear()
    await Promise.all([...this.#children].map((child) => child.stop()))
  }

  #take(key: string): WarmChild | undefined {
    for (const idle of [...this.#idle].reverse()) {
      if (idle.key !== key) continue
      this.#idle.delete(idle)
      clearTimeout(idle.timer)
      if (!idle.child.isGone) return idle.child
    }
    return undefined
  }

  #park(key: string, child: WarmChild): void {
    if (this.#isClosed) {
      void child.stop()
      return
    }
    const timer = setTimeout(() => this.#drop(idle), this.#options.idleMs ?? IDLE_MS).unref()
    const idle: Idle = { key, child, timer }
    this.#idle.add(idle)
    const [oldest] = this.#idle
    if (this.#idle.size > IDLE_MAX && oldest) this.#drop(oldest)
  }

  #drop(idle: Idle): void {
    this.#idle.delete(idle)
    clearTimeout(idle.timer)
    void idle.child.stop()
  }

  async #start(place: Place): Promise<WarmChild> {
    const { cell, argv, clock } = this.#options
    const child = new WarmChild(await launch(cell, place, argv, bareEnvironment(cell.seen(place).home)), clock)
    this.#children.add(child)
    void child.ended.then(() => this.#children.delete(child))
    return child
  }
}
