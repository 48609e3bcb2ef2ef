// The rate of one link (decision L9): filled continuously, holds one minute's worth, counts what is appended.

export interface Rate {
  /** How many a minute; 0 is no limit. */
  readonly perMinute: number
}

/** What a message takes. A millisecond brings as many of these as a minute brings messages, so nothing is rounded. */
const MESSAGE = 60_000

export class Bucket {
  readonly #rate: Rate
  #left: number
  #at: number

  constructor(rate: Rate, now: number) {
    this.#rate = rate
    this.#left = rate.perMinute * MESSAGE
    this.#at = now
  }

  /** How long until there is room for one more, in milliseconds; 0 when there is. */
  waitMs(now: number): number {
    const { perMinute } = this.#rate
    if (perMinute === 0) return 0
    this.#fill(now)
    return this.#left >= MESSAGE ? 0 : Math.ceil((MESSAGE - this.#left) / perMinute)
  }

  take(now: number): void {
    if (this.#rate.perMinute === 0) return
    this.#fill(now)
    this.#left -= MESSAGE
  }

  /** What was taken for a message that was not appended after all. */
  giveBack(): void {
    this.#left = Math.min(this.#rate.perMinute * MESSAGE, this.#left + MESSAGE)
  }

  isFull(now: number): boolean {
    this.#fill(now)
    return this.#left >= this.#rate.perMinute * MESSAGE
  }

  /** A clock that was set back gives nothing and takes nothing. */
  #fill(now: number): void {
    const { perMinute } = this.#rate
    if (now > this.#at) this.#left = Math.min(perMinute * MESSAGE, this.#left + (now - this.#at) * perMinute)
    this.#at = now
  }
}
