// The rate of messages through a link, and the storage that they take.
import { Refusal } from '../../lib/refusal.ts'
import type { CachedLink } from './link-cache.ts'

export class RateLimitRefusal extends Refusal {
  readonly headers: Readonly<Record<string, string>>

  constructor({ isHook, bucket: { rate } }: CachedLink, waitMs: number) {
    const seconds = Math.max(1, Math.ceil(waitMs / 1000))
    super('rate_limited', 'too many messages through this link', `try again in ${seconds} s`)
    const policy = isHook ? 'hook' : 'web'
    this.headers = {
      'Retry-After': String(seconds),
      'RateLimit-Policy': `"${policy}";q=${rate.count};w=${rate.windowMs / 1000}`,
      RateLimit: `"${policy}";r=0;t=${seconds}`,
    }
  }
}

export function mustBeInRate(link: CachedLink, now: number): void {
  const waitMs = link.bucket.waitMs(now)
  if (waitMs > 0) throw new RateLimitRefusal(link, waitMs)
}

/** Charges a message to the rate of its link, or refuses it. */
export function chargeRate(link: CachedLink, now: number): void {
  mustBeInRate(link, now)
  link.bucket.take(now)
}

/** Charges a message to the rate and the storage of its link, or refuses it. */
export function chargeLink(link: CachedLink, contentBytes: number, now: number): void {
  mustBeInRate(link, now)
  link.storage.reserve(contentBytes)
  link.bucket.take(now)
}

export function refundLink(link: CachedLink, contentBytes: number): void {
  link.bucket.refund()
  link.storage.release(contentBytes)
}
