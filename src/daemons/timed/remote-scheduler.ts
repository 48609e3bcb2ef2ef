// Fires tasks through routd, for a process without the store. Slots are leased for a minute: another scheduler takes over
// unfinished ones, and each prompt is posted once.
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { RoutdClient } from './routd-client.ts'

const TICK_MS = 1000
/** Delay after routd was unavailable. */
const RETRY_MS = 5000
/** Slots leased at once: all must be fired within the lease. */
const BATCH_SIZE = 20

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

  /** Why the last request to routd failed, if it did. */
  get fault(): string | undefined {
    return this.#fault
  }

  /** Finishes the tasks that are being fired. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#stop.resolve()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const pauseMs = await this.#fireDue()
      if (pauseMs > 0) await this.#pause(pauseMs)
    }
  }

  async #pause(ms: number): Promise<void> {
    const timer = Promise.withResolvers<void>()
    const timeout = setTimeout(timer.resolve, ms)
    await Promise.race([timer.promise, this.#stop.promise])
    clearTimeout(timeout)
  }

  /** Fires due tasks and returns how long to sleep. */
  async #fireDue(): Promise<number> {
    const { routd, log, tickMs = TICK_MS } = this.#options
    try {
      const ids = await routd.due(BATCH_SIZE)
      this.#fault = undefined
      for (const id of ids) await this.#fire(id)
      if (ids.length > 0) log.debug({ count: ids.length }, 'tasks fired')
      return ids.length === BATCH_SIZE ? 0 : tickMs
    } catch (error) {
      if (!(error instanceof Refusal)) log.error({ err: error }, 'internal error')
      const reason = error instanceof Error ? error.message : String(error)
      // Logged once per reason, because it is retried every few seconds.
      if (reason !== this.#fault) log.warn({ reason }, 'cannot fire tasks')
      this.#fault = reason
      return Math.max(tickMs, RETRY_MS)
    }
  }

  async #fire(id: string): Promise<void> {
    const { routd, log } = this.#options
    try {
      await routd.logRun(id, { status: 'success' })
      await routd.reschedule(id)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code === 'unavailable' || error.code === 'unauthenticated') throw error
      // Another scheduler has the slot, or the task was removed.
      if (error.code === 'conflict' || error.code === 'not_found') return
      log.error({ task: id, reason: error.message }, 'cannot fire a task')
      await routd.logRun(id, { status: 'error', error: error.message })
      await routd.reschedule(id)
    }
  }
}
