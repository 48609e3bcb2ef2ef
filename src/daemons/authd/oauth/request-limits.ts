// Limits of requests that strangers can send to the OAuth endpoints, per client address, in the memory of this process.
import type { Context } from 'hono'
import type { Clock } from '../../../lib/clock.ts'
import { refuse } from '../../../lib/refusal.ts'
import { type Rate, TokenBucket } from '../../../lib/token-bucket.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'

/** Memory is bounded: above this, the bucket that was used least recently is dropped. */
const KEYS_MAX = 10_000

export class RequestLimiter {
  readonly #buckets = new Map<string, TokenBucket>()
  readonly #rate: Rate
  readonly #clock: Clock

  constructor(rate: Rate, clock: Clock) {
    this.#rate = rate
    this.#clock = clock
  }

  take(key: string): void {
    const now = this.#clock.now()
    const bucket = this.#buckets.get(key) ?? new TokenBucket(this.#rate, now)
    // Maps keep the order of insertion.
    this.#buckets.delete(key)
    this.#buckets.set(key, bucket)
    const [oldest] = this.#buckets.keys()
    if (this.#buckets.size > KEYS_MAX && oldest !== undefined) this.#buckets.delete(oldest)
    if (bucket.waitMs(now) > 0) refuse('rate_limited', 'too many requests', 'try again in a minute')
    bucket.take(now)
  }
}

const MINUTE_MS = 60_000

export interface OauthLimits {
  readonly tokens: RequestLimiter
  readonly registrations: RequestLimiter
  readonly devices: RequestLimiter
  /** User codes that one address or one person has typed. */
  readonly userCodes: RequestLimiter
  /** Requests of one person that may fetch a document from another server. */
  readonly documents: RequestLimiter
}

export function openOauthLimits(clock: Clock): OauthLimits {
  return {
    tokens: new RequestLimiter({ count: 300, windowMs: MINUTE_MS }, clock),
    registrations: new RequestLimiter({ count: 20, windowMs: 60 * MINUTE_MS }, clock),
    devices: new RequestLimiter({ count: 20, windowMs: 10 * MINUTE_MS }, clock),
    userCodes: new RequestLimiter({ count: 20, windowMs: 10 * MINUTE_MS }, clock),
    documents: new RequestLimiter({ count: 60, windowMs: 10 * MINUTE_MS }, clock),
  }
}

export function limitAddress(limiter: RequestLimiter, c: Context): void {
  limiter.take(`address ${clientAddressOf(c) ?? ''}`)
}
