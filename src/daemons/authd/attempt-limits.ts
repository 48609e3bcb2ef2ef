// Limits of attempts to sign in, per client address and per account, in the memory of this process. Each key has its own bucket,
// so that the attempts of one address never stop another.
import type { Clock } from '../../lib/clock.ts'
import { AttemptLimiter } from '../http/attempt-limiter.ts'

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
