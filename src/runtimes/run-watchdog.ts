// Stops a run when it is aborted, reaches its deadline, or shows no activity for too long.
import type { Clock } from '../lib/clock.ts'
import { guard } from '../lib/fault-boundary.ts'
import { formatDuration } from '../lib/text/duration.ts'
import { type Job, RunFault } from './runtime.ts'

/** The longest delay of setTimeout. */
const TIMER_MAX_MS = 2_147_483_647

export class RunWatchdog {
  readonly #job: Job
  readonly #end: (fault: unknown) => void
  readonly #clock: Clock
  readonly #deadline: NodeJS.Timeout
  #hang: NodeJS.Timeout | undefined
  #lastOutput = performance.now()
  #isClosed = false

  /** Calls `end` at most once, and not after `close`: with the reason to stop the run, or an internal error. */
  constructor(job: Job, clock: Clock, end: (fault: unknown) => void) {
    this.#job = job
    this.#clock = clock
    this.#end = end
    const left = Math.max(0, Math.min(job.deadline - clock.now(), TIMER_MAX_MS))
    const onDeadline = (): void => this.#stop(new RunFault('terminal', 'it ran past its deadline', 'late'))
    this.#deadline = setTimeout(guard(this.#end, onDeadline), left)
    this.#checkLater(job.hangMs)
    job.signal.addEventListener('abort', this.#onAbort, { once: true })
    if (job.signal.aborted) queueMicrotask(this.#onAbort)
  }

  /** Call when the run printed something. */
  recordActivity(): void {
    this.#lastOutput = performance.now()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#deadline)
    clearTimeout(this.#hang)
    this.#job.signal.removeEventListener('abort', this.#onAbort)
  }

  #checkLater(ms: number): void {
    const check = guard(
      (error) => this.#stop(error),
      () => this.#check(),
    )
    this.#hang = setTimeout(check, Math.min(Math.max(1, ms), TIMER_MAX_MS))
  }

  #check(): void {
    const { hangMs } = this.#job
    const lastCallAt = this.#job.lastActivityAt?.()
    const idleMs = Math.min(
      performance.now() - this.#lastOutput,
      lastCallAt === undefined ? Number.POSITIVE_INFINITY : this.#clock.now() - lastCallAt,
    )
    if (idleMs < hangMs) this.#checkLater(hangMs - idleMs)
    else this.#stop(new RunFault('retryable', `it showed no activity for ${formatDuration(hangMs)}`))
  }

  readonly #onAbort = guard(
    (error) => this.#end(error),
    () => this.#stop(toAbortFault(this.#job.signal)),
  )

  #stop(fault: unknown): void {
    if (this.#isClosed) return
    this.close()
    this.#end(fault)
  }
}

/** The caller that aborts a run may pass the fault as its reason. */
export function toAbortFault({ reason }: AbortSignal): RunFault {
  return reason instanceof RunFault ? reason : new RunFault('retryable', 'it was stopped')
}
