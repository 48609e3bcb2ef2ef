// Rate limits of tool calls, per tool socket, link or account.
import type { Clock } from '../../lib/clock.ts'
import { defineCounter, type MetricRegistry } from '../../lib/log/metric-registry.ts'
import { refuse } from '../../lib/refusal.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

/** A burst may use this many seconds' worth of calls. */
const WINDOW_S = 10

export const CALLS_LIMITED = defineCounter(
  'svc_calls_limited_total',
  'Tool calls refused because of TOOL_CALLS_PER_SECOND',
)

export class CallRateLimiter {
  readonly #bucket: TokenBucket
  readonly #clock: Clock
  readonly #metrics: MetricRegistry | undefined

  /** 0 means no limit. */
  constructor(perSecond: () => number, clock: Clock, metrics?: MetricRegistry) {
    this.#clock = clock
    this.#metrics = metrics
    const rate = {
      get count() {
        return perSecond() * WINDOW_S
      },
      windowMs: WINDOW_S * 1000,
    }
    this.#bucket = new TokenBucket(rate, clock.now())
  }

  /** Counts one call, or refuses it; `what` names the calls. */
  take(what = 'tool calls'): void {
    const now = this.#clock.now()
    const waitMs = this.#bucket.waitMs(now)
    if (waitMs > 0) {
      this.#metrics?.add(CALLS_LIMITED, {})
      refuse('rate_limited', `too many ${what}`, `wait ${Math.ceil(waitMs / 1000)} s before the next call`)
    }
    this.#bucket.take(now)
  }

  isIdle(): boolean {
    return this.#bucket.isFull(this.#clock.now())
  }
}

/** One limiter per key; idle ones are removed. */
export class CallRateLimiters {
  readonly #limiters = new Map<string, CallRateLimiter>()
  readonly #perSecond: () => number
  readonly #clock: Clock
  readonly #metrics: MetricRegistry | undefined
  #sweptAt: number

  constructor(perSecond: () => number, clock: Clock, metrics?: MetricRegistry) {
    this.#perSecond = perSecond
    this.#metrics = metrics
    this.#clock = clock
    this.#sweptAt = clock.now()
  }

  get size(): number {
    return this.#limiters.size
  }

  take(key: string, what?: string): void {
    if (this.#perSecond() === 0) return
    this.#sweep()
    const limiter = this.#limiters.get(key) ?? new CallRateLimiter(this.#perSecond, this.#clock, this.#metrics)
    this.#limiters.set(key, limiter)
    limiter.take(what)
  }

  /** A full bucket equals a new one. */
  #sweep(): void {
    const now = this.#clock.now()
    if (Math.abs(now - this.#sweptAt) < WINDOW_S * 1000) return
    this.#sweptAt = now
    for (const [key, limiter] of this.#limiters) if (limiter.isIdle()) this.#limiters.delete(key)
  }
}
