// Fires tasks through routd, where this process has no store. Slots are given out for a minute: what this process leaves
// unfinished is given to the next that asks, and no prompt is said twice.
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { RoutdClient } from './routd-client.ts'

const TICK_MS = 1000
/** The pause after routd did not answer. */
const AGAIN_MS = 5000
/** How many slots are taken at once: all of them must be fired within a minute. */
const PIECE = 20

export interface RemoteSchedulerOptions {
  readonly routd: RoutdClient
  readonly log: Pick<Log, 'debug' | 'warn' | 'error'>
  readonly tickMs?: number
}

export class RemoteScheduler {
  readonly #options: RemoteSchedulerOptions
  readonly #stop = Promise.withResolvers<void>()
  readonly #running: Promise<void>
  #isClosed = false
  #fault: string | undefined

  constructor(options: RemoteSchedulerOptions) {
    this.#options = options
    this.#running = this.#run()
  }

  /** Why routd could not be asked the last time; nothing where it could. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** What it is firing is fired; nothing is begun. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#stop.resolve()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const pauseMs = await this.#look()
      if (pauseMs > 0) await this.#pause(pauseMs)
    }
  }

  async #pause(ms: number): Promise<void> {
    const timer = Promise.withResolvers<void>()
    const timeout = setTimeout(timer.resolve, ms)
    await Promise.race([timer.promise, this.#stop.promise])
    clearTimeout(timeout)
  }

  /** Fires what is due; how long to sleep then. */
  async #look(): Promise<number> {
    const { routd, log, tickMs = TICK_MS } = this.#options
    try {
      const ids = await routd.due(PIECE)
      this.#fault = undefined
      for (const id of ids) await this.#fire(id)
      if (ids.length > 0) log.debug({ count: ids.length }, 'tasks fired')
      return ids.length === PIECE ? 0 : tickMs
    } catch (error) {
      if (!(error instanceof Refusal)) log.error({ err: error }, 'internal error')
      const reason = error instanceof Error ? error.message : String(error)
      // Once for each reason: it is asked again every few seconds.
      if (reason !== this.#fault) log.warn({ reason }, 'no task can be fired')
      this.#fault = reason
      return Math.max(tickMs, AGAIN_MS)
    }
  }

  async #fire(id: string): Promise<void> {
    const { routd, log } = this.#options
    try {
      await routd.logRun(id, { status: 'success' })
      await routd.reschedule(id)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code === 'unavailable' || error.code === 'unauthenticated') throw error
      // Another scheduler has the slot, or the task is gone.
      if (error.code === 'conflict' || error.code === 'not_found') return
      log.error({ task: id, reason: error.message }, 'a task could not be fired')
      await routd.logRun(id, { status: 'error', error: error.message })
      await routd.reschedule(id)
    }
  }
}
