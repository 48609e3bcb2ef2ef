// Limits of attempts to sign in, per client address and per account, in the memory of this process. Each key has its own bucket,
// so that the attempts of one address never stop another.
import type { Clock } from '../../lib/clock.ts'
import { RetryLaterRefusal } from '../../lib/refusal.ts'
import { type Rate, TokenBucket } from '../../lib/token-bucket.ts'

/** Memory is bounded: above this, the bucket that was used least recently is dropped. */
const KEYS_MAX = 10_000

export class AttemptLimiter {
  readonly #buckets = new Map<string, TokenBucket>()
  readonly #rate: Rate
  readonly #clock: Clock

  constructor(rate: Rate, clock: Clock) {
    this.#rate = rate
    this.#clock = clock
  }

  get size(): number {
    return this.#buckets.size
  }

  /** Counts one attempt of the key, from `clientNetwork` or `accountKey`, or refuses it. */
  take(key: string): void {
    const now = this.#clock.now()
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#rate, now)
    // Maps keep the order of insertion.
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    const [oldest] = this.#buckets.keys()
    if (this.#buckets.size > KEYS_MAX && oldest !== undefined) this.#buckets.delete(oldest)
    const waitMs = bucket.waitMs(now)
    if (waitMs > 0) throw new RetryLaterRefusal('too many attempts', Math.ceil(waitMs / 1000))
    bucket.take(now)
  }
}

export interface AttemptLimits {
  /** Attempts of one address that fail, or that make this server call a provider. */
  readonly byAddress: AttemptLimiter
  /** Sessions that one account starts. */
  readonly byAccount: AttemptLimiter
}

export function openAttemptLimits(clock: Clock): AttemptLimits {
  return {
    byAddress: new AttemptLimiter({ count: 60, windowMs: 60_000 }, clock),
    byAccount: new AttemptLimiter({ count: 30, windowMs: 60_000 }, clock),
  }
}

/** One key per account, however it is written. */
export function accountKey(account: string): string {
  return `account ${account.normalize('NFKC').toLowerCase().normalize('NFKC')}`
}
