// A token bucket: filled continuously, holds what one window allows.

export interface Rate {
  /** How many in a window; 0 is no limit. */
  readonly count: number
  readonly windowMs: number
}

export class Bucket {
  readonly rate: Rate
  /** One item takes `windowMs` of these and a millisecond brings `count`, so nothing is rounded. */
  #left: number
  #at: number

  constructor(rate: Rate, now: number) {
    this.rate = rate
    this.#left = rate.count * rate.windowMs
    this.#at = now
  }

  /** How long until there is room for one more, in milliseconds; 0 when there is. */
  waitMs(now: number): number {
    const { count, windowMs } = this.rate
    if (count === 0) return 0
    this.#fill(now)
    return this.#left >= windowMs ? 0 : Math.ceil((windowMs - this.#left) / count)
  }

  take(now: number): void {
    if (this.rate.count === 0) return
    this.#fill(now)
    this.#left -= this.rate.windowMs
  }

  /** What was taken for something that was not done after all. */
  giveBack(): void {
    const { count, windowMs } = this.rate
    this.#left = Math.min(count * windowMs, this.#left + windowMs)
  }

  isFull(now: number): boolean {
    this.#fill(now)
    return this.#left >= this.rate.count * this.rate.windowMs
  }

  /** A clock that was set back gives nothing and takes nothing. */
  #fill(now: number): void {
    const { count, windowMs } = this.rate
    if (now > this.#at) this.#left = Math.min(count * windowMs, this.#left + (now - this.#at) * count)
    this.#at = now
  }
}
