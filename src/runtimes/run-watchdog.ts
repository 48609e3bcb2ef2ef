// Watches over a run: it ends when it is stopped, when its time is over, or when it gives no sign of life.
import type { Clock } from '../lib/clock.ts'
import { formatDuration } from '../lib/text/duration.ts'
import { type Job, RunFault } from './runtime.ts'

/** Timers take no more. */
const TIMER_MAX_MS = 2_147_483_647

export class RunWatchdog {
  readonly #job: Job
  readonly #end: (fault: RunFault) => void
  readonly #clock: Clock
  readonly #deadline: NodeJS.Timeout
  #hang: NodeJS.Timeout | undefined
  #lastSign = performance.now()
  #isOver = false

  /** Calls `end` once, with why; not after `close`. */
  constructor(job: Job, clock: Clock, end: (fault: RunFault) => void) {
    this.#job = job
    this.#clock = clock
    this.#end = end
    const left = Math.max(0, Math.min(job.deadline - clock.now(), TIMER_MAX_MS))
    this.#deadline = setTimeout(() => this.#over(new RunFault('terminal', 'its time was over', [], 'late')), left)
    this.#lookLater(job.hangMs)
    job.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (job.signal.aborted) queueMicrotask(this.#onAbort)
  }

  /** It has printed something. */
  recordActivity(): void {
    this.#lastSign = performance.now()
  }

  close(): void {
    this.#isOver = true
    clearTimeout(this.#deadline)
    clearTimeout(this.#hang)
    this.#job.signal.removeEventListener('abort', this.#onAbort)
  }

  #lookLater(ms: number): void {
    this.#hang = setTimeout(() => this.#look(), Math.min(Math.max(1, ms), TIMER_MAX_MS))
  }

  #look(): void {
    const { hangMs } = this.#job
    const seenAt = this.#job.lastActivityAt?.()
    const silent = Math.min(
      performance.now() - this.#lastSign,
      seenAt === undefined ? Number.POSITIVE_INFINITY : this.#clock.now() - seenAt,
    )
    if (silent < hangMs) this.#lookLater(hangMs - silent)
    else this.#over(new RunFault('again', `it gave no sign of life for ${formatDuration(hangMs)}`))
  }

  readonly #onAbort = (): void => {
    this.#over(abortFault(this.#job.signal))
  }

  #over(fault: RunFault): void {
    if (this.#isOver) return
    this.close()
    this.#end(fault)
  }
}

/** Whoever stops a run may say why. */
export function abortFault({ reason }: AbortSignal): RunFault {
  return reason instanceof RunFault ? reason : new RunFault('again', 'it was stopped')
}
