// Fires due tasks. It sleeps until the next slot, at most a second: the clock may change, and other processes may schedule
// tasks. Any number of schedulers may run; the store decides which one fires a task.

import { believedTime } from '../../core/messages/retention-clock.ts'
import { createSlotCorrection, type SlotCorrection } from '../../core/schedule/slot-correction.ts'
import {
  dueTasks,
  FIRING_BATCH,
  fireDueTasks,
  fireTaskIfDue,
  nextSlotTime,
  skipSlot,
} from '../../core/schedule/task-firing.ts'
import { removeUnusedRates } from '../../core/schedule/task-rates.ts'
import { COMPLETED_RETENTION_MS, removeExpiredTasks } from '../../core/schedule/tasks.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { monotonicClock, timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { INTERNAL_ERROR, type SuspectHandling } from '../process/suspect-handling.ts'

/** Longest sleep between two checks. */
const TICK_MS = 1000
/** Limits the checks while many signals arrive. */
const SIGNAL_DELAY_MS = 100
const CORRECTED = 'next runs of tasks were computed while the clock was ahead; corrected'
/** Interval of the removal of completed one-time tasks. */
const CLEANUP_MS = 3_600_000

export interface SchedulerOptions {
  readonly host: InstanceHost
  readonly log: Log
  readonly suspects?: SuspectHandling | undefined
}

export class Scheduler {
  readonly #options: SchedulerOptions
  readonly #slots: SlotCorrection
  readonly #unsubscribe: () => void
  #timer: NodeJS.Timeout | undefined
  #wakesAt = Number.POSITIVE_INFINITY
  #running: Promise<void> | undefined
  #isClosed = false
  #cleanedAt = Number.NEGATIVE_INFINITY
  /** Whether the suspects were handled; false if the process stops. */
  readonly #isReady: Promise<boolean>

  constructor(options: SchedulerOptions) {
    this.#options = options
    this.#slots = createSlotCorrection(options.host)
    this.#unsubscribe = options.host.signals.on(() => this.#wake(SIGNAL_DELAY_MS))
    this.#isReady =
      options.suspects?.handle('task', ({ id }, next) =>
        options.host.engine.transaction(async (tx) => {
          const { keys } = await fireTaskIfDue(tx, this.#firingContext(), id)
          tx.onCommit(() => options.host.signals.emit(keys))
          return next(tx)
        }),
      ) ?? Promise.resolve(true)
    this.#wake(0)
  }

  /** Finishes the tasks that are being fired. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#unsubscribe()
    clearTimeout(this.#timer)
    await this.#running
  }

  /** Schedules a check, unless an earlier one is scheduled. */
  #wake(inMs: number): void {
    const at = performance.now() + inMs
    if (this.#isClosed || this.#running || at >= this.#wakesAt) return
    clearTimeout(this.#timer)
    this.#wakesAt = at
    const { faults } = this.#options.host
    const check = (): void => {
      this.#wakesAt = Number.POSITIVE_INFINITY
      this.#running = this.#fireDue()
        .catch((error) => {
          // The next check retries after a refusal; nothing was fired.
          if (!(error instanceof Refusal)) faults.report('job', error)
          return TICK_MS
        })
        .then((sleepMs) => {
          this.#running = undefined
          this.#wake(sleepMs)
        })
    }
    this.#timer = setTimeout(faults.guard('job', check), inMs).unref()
  }

  /** Fires all due tasks and returns how long to sleep. */
  async #fireDue(): Promise<number> {
    const { engine, clock } = this.#options.host
    if (!(await this.#isReady)) return TICK_MS
    const corrected = await this.#slots.correct()
    if (corrected > 0) this.#options.log.warn({ count: corrected }, CORRECTED)
    for (;;) {
      const next = await engine.read((tx) => nextSlotTime(tx, clock.now()))
      const left = next === undefined ? TICK_MS : next - clock.now()
      if (left > 0 && !this.#isClosed) await this.#cleanUp()
      if (left > 0 || this.#isClosed) return Math.min(left, TICK_MS)
      await this.#fireBatch()
    }
  }

  async #cleanUp(): Promise<void> {
    const { engine, clock } = this.#options.host
    const at = monotonicClock.now()
    if (at - this.#cleanedAt < CLEANUP_MS) return
    this.#cleanedAt = at
    const now = clock.now()
    await engine.transaction(async (tx) => {
      await removeExpiredTasks(tx, timestamp((await believedTime(tx, now)) - COMPLETED_RETENTION_MS))
      await removeUnusedRates(tx, now)
    })
  }

  async #fireBatch(): Promise<void> {
    const { host, log } = this.#options
    const context = this.#firingContext()
    try {
      const { count, keys } = await host.engine.transaction((tx) => fireDueTasks(tx, context, FIRING_BATCH))
      if (count > 0) log.debug({ count }, 'tasks fired')
      if (keys.length > 0) host.signals.emit(keys)
    } catch (error) {
      if (error instanceof Refusal) throw error
      await this.#fireEach(error)
    }
  }

  /** After an error in a batch: fires the tasks one by one and skips those that fail. */
  async #fireEach(cause: unknown): Promise<void> {
    const { host, log } = this.#options
    const context = this.#firingContext()
    host.faults.count('job')
    log.error({ place: 'job', err: cause }, 'internal error')
    for (let left = FIRING_BATCH; left > 0; left--) {
      const [task] = await host.engine.read((tx) => dueTasks(tx, host.clock.now(), 1))
      if (!task) return
      try {
        const { keys } = await host.engine.transaction((tx) => fireDueTasks(tx, context, 1))
        host.signals.emit(keys)
      } catch (error) {
        if (error instanceof Refusal) throw error
        log.error({ task: task.id, err: error }, 'cannot fire a task')
        await host.engine.transaction((tx) => skipSlot(tx, context, task, INTERNAL_ERROR))
      }
    }
  }

  #firingContext() {
    const { host } = this.#options
    return { ...writeContextOf(host), clock: this.#slots.clock, timeZone: host.timeZone }
  }
}
