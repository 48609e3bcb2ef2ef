// Fires tasks when their time comes. It sleeps until the next slot, but never for long: the clock may be set, and other
// processes may schedule. How many of these run does not matter; the store says who fires what.
import { dueTasks, fireDue, nextSlot, skipSlot } from '../../core/firing.ts'
import { COMPLETED_KEPT_MS, removeOver } from '../../core/tasks.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'

/** The longest sleep: one question to an index for each. */
const TICK_MS = 1000
/** What is heard while many messages come is looked at no more often than this. */
const QUIET_MS = 100
/** How often single runs that are over are removed. */
const TIDY_MS = 3_600_000
/** How many are fired in one transaction; others who add messages wait for it. */
const PIECE = 20

export interface SchedulerOptions {
  readonly host: Host
  readonly log: Log
}

export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #unheard: () => void
  #timer: NodeJS.Timeout | undefined
  #wakesAt = Number.POSITIVE_INFINITY
  #looking: Promise<void> | undefined
  #isClosed = false
  #tidiedAt = Number.NEGATIVE_INFINITY

  constructor(options: SchedulerOptions) {
    this.#options = options
    this.#unheard = options.host.signals.on(() => this.#wake(QUIET_MS))
    this.#wake(0)
  }

  /** What it is firing is fired; nothing is begun. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#unheard()
    clearTimeout(this.#timer)
    await this.#looking
  }

  /** Looks after so many milliseconds, unless it does so earlier. */
  #wake(inMs: number): void {
    const at = performance.now() + inMs
    if (this.#isClosed || this.#looking || at >= this.#wakesAt) return
    clearTimeout(this.#timer)
    this.#wakesAt = at
    this.#timer = setTimeout(() => {
      this.#wakesAt = Number.POSITIVE_INFINITY
      this.#looking = this.#look()
        .catch((error) => {
          // A store that does not answer is asked again; nothing was fired.
          if (!(error instanceof Refusal)) this.#options.host.onStray?.(error)
          return TICK_MS
        })
        .then((sleepMs) => {
          this.#looking = undefined
          this.#wake(sleepMs)
        })
    }, inMs).unref()
  }

  /** Fires all that is due; how long to sleep then. */
  async #look(): Promise<number> {
    const { engine, clock } = this.#options.host
    for (;;) {
      const next = await engine.read((tx) => nextSlot(tx, clock.now()))
      const left = next === undefined ? TICK_MS : next - clock.now()
      if (left > 0 && !this.#isClosed) await this.#tidy()
      if (left > 0 || this.#isClosed) return Math.min(left, TICK_MS)
      await this.#fire()
    }
  }

  async #tidy(): Promise<void> {
    const { engine, clock } = this.#options.host
    const now = clock.now()
    if (now - this.#tidiedAt < TIDY_MS) return
    this.#tidiedAt = now
    await engine.transaction((tx) => removeOver(tx, timestamp(now - COMPLETED_KEPT_MS)))
  }

  async #fire(): Promise<void> {
    const { host, log } = this.#options
    const firing = this.#firing()
    try {
      const { count, keys } = await host.engine.transaction((tx) => fireDue(tx, firing, PIECE))
      if (count > 0) log.debug({ count }, 'tasks fired')
      if (keys.length > 0) host.signals.emit(keys)
    } catch (error) {
      if (error instanceof Refusal) throw error
      await this.#fireEach(error)
    }
  }

  /** One of those that are due cannot be fired: the others are, and it is skipped. */
  async #fireEach(cause: unknown): Promise<void> {
    const { host, log } = this.#options
    const firing = this.#firing()
    log.error({ err: cause }, 'internal error')
    for (let left = PIECE; left > 0; left--) {
      const [task] = await host.engine.read((tx) => dueTasks(tx, host.clock.now(), 1))
      if (!task) return
      try {
        const { keys } = await host.engine.transaction((tx) => fireDue(tx, firing, 1))
        host.signals.emit(keys)
      } catch (error) {
        if (error instanceof Refusal) throw error
        log.error({ task: task.id, err: error }, 'a task could not be fired')
        await host.engine.transaction((tx) => skipSlot(tx, firing, task, 'it could not be fired; the log knows more'))
      }
    }
  }

  #firing() {
    const { engine, clock, random, timeZone } = this.#options.host
    return { dialect: engine.dialect, clock, random, timeZone }
  }
}
