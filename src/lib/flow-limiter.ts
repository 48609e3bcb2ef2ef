// Limits how much work one source (the tool socket or the output of a run) causes in this process. Work over the limit is not
// refused: it waits, and the source is not read meanwhile. Work is done in slices, one per turn of the event loop.
import { type Clock, monotonicClock } from './clock.ts'
import { TokenBucket } from './token-bucket.ts'

/** 0 means no limit. */
export interface FlowLimits {
  readonly bytesPerSecond: number
  readonly linesPerSecond: number
  /** A burst may use this many seconds' worth. */
  readonly burstS: number
}

/** A read costs at least this much, or single bytes would cost a read each. */
const READ_BYTES_MIN = 4096

export class FlowLimiter {
  readonly #clock: Clock
  readonly #bytes: TokenBucket
  readonly #lines: TokenBucket
  readonly #waiting: (() => void)[] = []
  #timer: NodeJS.Timeout | undefined
  #isScheduled = false
  #isUnlimited = false

  constructor({ bytesPerSecond, linesPerSecond, burstS }: FlowLimits, clock: Clock = monotonicClock) {
    this.#clock = clock
    const bucket = (perSecond: number): TokenBucket =>
      new TokenBucket({ count: perSecond * burstS, windowMs: burstS * 1000 }, clock.now())
    this.#bytes = bucket(bytesPerSecond)
    this.#lines = bucket(linesPerSecond)
  }

  /** The last work may exceed the limits; the next one waits longer then. */
  countLines(count: number): void {
    this.#lines.take(this.#clock.now(), count)
  }

  countBytes(count: number): void {
    this.#bytes.take(this.#clock.now(), count)
  }

  countRead(bytes: number): void {
    this.countBytes(Math.max(bytes, READ_BYTES_MIN))
  }

  /** Milliseconds until the limits allow more work; 0 if they do now. */
  waitMs(): number {
    if (this.#isUnlimited) return 0
    const now = this.#clock.now()
    return Math.max(this.#bytes.waitMs(now), this.#lines.waitMs(now))
  }

  /** Whether a slice may be done at once: others are not waiting, and the limits allow it. */
  isFree(): boolean {
    return this.#waiting.length === 0 && this.waitMs() === 0
  }

  /** Does a slice of work in a later turn of the event loop, when the limits allow it; in order, one per turn. */
  later(work: () => void): void {
    this.#waiting.push(work)
    this.#schedule()
  }

  /** Work that waits and all further work is only divided into slices: the source has ended, so its rest is small. */
  finish(): void {
    this.#isUnlimited = true
    if (!this.#timer) return
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#isScheduled = false
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return
    this.#isScheduled = true
    const waitMs = this.waitMs()
    if (waitMs > 0) this.#timer = setTimeout(() => this.#run(), waitMs).unref()
    else setImmediate(() => this.#run())
  }

  #run(): void {
    this.#timer = undefined
    this.#isScheduled = false
    // A timer may be early by a millisecond.
    const work = this.waitMs() === 0 ? this.#waiting.shift() : undefined
    try {
      work?.()
    } finally {
      this.#schedule()
    }
  }
}
