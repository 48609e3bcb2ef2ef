// How many tool calls may come through one socket, one link or one account.
import { Bucket, type Rate } from '../lib/bucket.ts'
import type { Clock } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'

/** A burst may be as large as what so long a time allows. */
const WINDOW_S = 10

function rateOf(perSecond: number): Rate {
  return { count: perSecond * WINDOW_S, windowMs: WINDOW_S * 1000 }
}

export class CallRate {
  readonly #bucket: Bucket
  readonly #clock: Clock

  /** 0 a second is no limit. */
  constructor(perSecond: number, clock: Clock) {
    this.#clock = clock
    this.#bucket = new Bucket(rateOf(perSecond), clock.now())
  }

  /** Counts one call, or refuses it. */
  take(): void {
    const now = this.#clock.now()
    const waitMs = this.#bucket.waitMs(now)
    if (waitMs > 0)
      refuse('rate_limited', 'too many tool calls', `wait ${Math.ceil(waitMs / 1000)} s before the next call`)
    this.#bucket.take(now)
  }

  isIdle(): boolean {
    return this.#bucket.isFull(this.#clock.now())
  }
}

/** One rate for each key, as long as it is in use. */
export class CallRates {
  readonly #rates = new Map<string, CallRate>()
  readonly #perSecond: number
  readonly #clock: Clock
  #sweptAt: number

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond
    this.#clock = clock
    this.#sweptAt = clock.now()
  }

  get size(): number {
    return this.#rates.size
  }

  take(key: string): void {
    if (this.#perSecond === 0) return
    this.#sweep()
    const known = this.#rates.get(key)
    const rate = known ?? new CallRate(this.#perSecond, this.#clock)
    if (!known) this.#rates.set(key, rate)
    rate.take()
  }

  /** A bucket that is full again is as good as a new one. */
  #sweep(): void {
    const now = this.#clock.now()
    if (Math.abs(now - this.#sweptAt) < WINDOW_S * 1000) return
    this.#sweptAt = now
    for (const [key, rate] of this.#rates) if (rate.isIdle()) this.#rates.delete(key)
  }
}
