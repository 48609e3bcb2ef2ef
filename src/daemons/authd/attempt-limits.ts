// Limits of attempts to sign in, per client address and per account, in the memory of this process. Each key has its own bucket,
// so that the attempts of one address never stop another.
import { isIPv4, isIPv6 } from 'node:net'
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

  /** Counts one attempt of the key, from `addressKey` or `accountKey`, or refuses it. */
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

/** An IPv6 client has a whole /64 at its disposal. Clients without an address share a key. */
export function addressKey(address: string | undefined): string {
  const [plain = ''] = (address ?? '').split('%', 1)
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(plain) ?? []
  const v4 = mapped ?? plain
  if (isIPv4(v4)) return `address ${v4}`
  return isIPv6(plain) ? `network ${networkOf(plain)}` : 'address unknown'
}

/** The first four groups. URL has the only parser of Node that returns the canonical form. */
function networkOf(address: string): string {
  const canonical = URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1) ?? ''
  const [head = '', tail] = canonical.split('::')
  const groups = head === '' ? [] : head.split(':')
  const rest = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : new Array<string>(8 - groups.length - rest.length).fill('0')
  return [...groups, ...zeros, ...rest].slice(0, 4).join(':')
}

/** One key per account, however it is written. */
export function accountKey(account: string): string {
  return `account ${account.normalize('NFKC').toLowerCase().normalize('NFKC')}`
}
