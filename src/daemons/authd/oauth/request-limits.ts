// Limits of requests that strangers can send to the OAuth endpoints, per client address, in the memory of this process.
import type { Context } from 'hono'
import type { Clock } from '../../../lib/clock.ts'
import { clientNetwork } from '../../../lib/http/client-network.ts'
import { AttemptLimiter } from '../../http/attempt-limiter.ts'
import { clientAddressOf } from '../../http/request-middleware.ts'

const MINUTE_MS = 60_000

export interface OauthLimits {
  readonly tokens: AttemptLimiter
  readonly registrations: AttemptLimiter
  readonly devices: AttemptLimiter
  /** User codes that one address or one person has typed. */
  readonly userCodes: AttemptLimiter
  /** Requests of one person that may fetch a document from another server. */
  readonly documents: AttemptLimiter
}

export function openOauthLimits(clock: Clock): OauthLimits {
  return {
    tokens: new AttemptLimiter({ count: 300, windowMs: MINUTE_MS }, clock),
    registrations: new AttemptLimiter({ count: 20, windowMs: 60 * MINUTE_MS }, clock),
    devices: new AttemptLimiter({ count: 20, windowMs: 10 * MINUTE_MS }, clock),
    userCodes: new AttemptLimiter({ count: 20, windowMs: 10 * MINUTE_MS }, clock),
    documents: new AttemptLimiter({ count: 60, windowMs: 10 * MINUTE_MS }, clock),
  }
}

export function limitAddress(limiter: AttemptLimiter, c: Context): void {
  limiter.take(clientNetwork(clientAddressOf(c)))
}
