// Limits the REST calls of each person, so that a loop of one does not take the store from the others. Services have no limit.
import { isOperator } from '../../core/access/policy.ts'
import type { RequestAuthenticator } from '../../faces/rest.ts'
import { RetryLaterRefusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { AttemptLimiter } from './attempt-limiter.ts'

/** A burst may use this many seconds' worth of calls. */
const WINDOW_S = 10
/** Scripts of operators read and change whole instances. */
const OPERATOR_FACTOR = 10

export function limitCalls(
  host: InstanceHost,
  perSecond: () => number,
  authenticate: RequestAuthenticator,
): RequestAuthenticator {
  const limiter = (factor: number): AttemptLimiter => {
    const rate = {
      get count() {
        return perSecond() * factor * WINDOW_S
      },
      windowMs: WINDOW_S * 1000,
    }
    return new AttemptLimiter(rate, host.clock, 'too many calls')
  }
  const [people, operators] = [limiter(1), limiter(OPERATOR_FACTOR - 1)]
  return async (c) => {
    const request = await authenticate(c)
    const { caller } = request
    if (caller.kind !== 'person') return request
    try {
      people.take(caller.sub)
    } catch (error) {
      if (!(error instanceof RetryLaterRefusal)) throw error
      // Rights are read only for callers who are over the common limit.
      const policy = await host.engine.read((tx) => host.policies.read(tx))
      if (!isOperator(policy, caller.sub)) throw error
      operators.take(caller.sub)
    }
    return request
  }
}
