// Limits guesses of invite tokens per client address. Valid tokens are not counted.

import type { Clock } from '../../lib/clock.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { refuse } from '../../lib/refusal.ts'
import { TokenBucket } from '../../lib/token-bucket.ts'

export const GUESSES_PER_MINUTE = 20
const WINDOW_MS = 60_000
/** Bounds the memory: a full table forgets the addresses that have waited long enough. */
const ADDRESSES_MAX = 10_000

export class GuessLimit {
  readonly #clock: Clock
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Refuses an address that has guessed too often. */
  check(address: string | undefined): void {
    const waitMs = this.#buckets.get(clientNetwork(address))?.waitMs(this.#clock.now()) ?? 0
    if (waitMs > 0) refuse('rate_limited', 'too many invalid invites', `try again in ${Math.ceil(waitMs / 1000)} s`)
  }

  count(address: string | undefined): void {
    const [key, now] = [clientNetwork(address), this.#clock.now()]
    const bucket = this.#buckets.get(key) ?? new TokenBucket({ count: GUESSES_PER_MINUTE, windowMs: WINDOW_MS }, now)
    bucket.take(now)
    this.#buckets.set(key, bucket)
    if (this.#buckets.size <= ADDRESSES_MAX) return
    for (const [other, each] of this.#buckets) if (each.isFull(now)) this.#buckets.delete(other)
    if (this.#buckets.size > ADDRESSES_MAX) this.#buckets.clear()
  }
}
