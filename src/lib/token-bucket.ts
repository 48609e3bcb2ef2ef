// A token bucket that refills continuously up to one window's worth.

export interface Rate {
  /** How many per window; 0 means no limit. */
  readonly count: number
  readonly windowMs: number
}

export class TokenBucket {
  readonly rate: Rate
  /** One item costs `windowMs` units and each millisecond adds `count`, which avoids rounding. */
  #left: number
  #at: number

  constructor(rate: Rate, now: number) {
    this.rate = rate
    this.#left = rate.count * rate.windowMs
    this.#at = now
  }

  /** Milliseconds until one more fits; 0 if it fits now. */
  waitMs(now: number): number {
    const { count, windowMs } = this.rate
    if (count === 0) return 0
    this.#fill(now)
    return this.#left >= windowMs ? 0 : Math.ceil((windowMs - this.#left) / count)
  }

  take(now: number, items = 1): void {
    if (this.rate.count === 0) return
    this.#fill(now)
    this.#left -= items * this.rate.windowMs
  }

  /** Refunds tokens of an item that was not used. */
  refund(): void {
    const { count, windowMs } = this.rate
    this.#left = Math.min(count * windowMs, this.#left + windowMs)
  }

  isFull(now: number): boolean {
    this.#fill(now)
    return this.#left >= this.rate.count * this.rate.windowMs
  }

  /** If the clock was set back, the level does not change. */
  #fill(now: number): void {
    const { count, windowMs } = this.rate
    if (now > this.#at) this.#left = Math.min(count * windowMs, this.#left + (now - this.#at) * count)
    this.#at = now
  }
}
