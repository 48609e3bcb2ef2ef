// A rate limit per key, such as a client network or an account, in the memory of this process. Each key has its own bucket, so
// that one never stops another.
import type { Clock } from '../../lib/clock.ts'
import { RetryLaterRefusal } from '../../lib/refusal.ts'
import { type Rate, TokenBucket } from '../../lib/token-bucket.ts'

/** Memory is bounded: above this, the bucket that was used least recently is dropped. */
const KEYS_MAX = 10_000

export class AttemptLimiter {
  readonly #buckets = new Map<string, TokenBucket>()
  readonly #rate: Rate
  readonly #clock: Clock
  readonly #message: string

  /** `message` is the error. */
  constructor(rate: Rate, clock: Clock, message = 'too many attempts') {
    this.#rate = rate
    this.#clock = clock
    this.#message = message
  }

  get size(): number {
    return this.#buckets.size
  }

  /** Counts one attempt of the key, or refuses it. */
  take(key: string): void {
    const now = this.#clock.now()
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#rate, now)
    // Maps keep the order of insertion.
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    const [oldest] = this.#buckets.keys()
    if (this.#buckets.size > KEYS_MAX && oldest !== undefined) this.#buckets.delete(oldest)
    const waitMs = bucket.waitMs(now)
    if (waitMs > 0) throw new RetryLaterRefusal(this.#message, Math.ceil(waitMs / 1000))
    bucket.take(now)
  }
}
