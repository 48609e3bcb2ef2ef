// Expected errors and their form on each face. Any other thrown error is a bug.
import { redact } from './log/redact.ts'

export const REFUSALS = {
  invalid: { http: 400, rpc: -32602, title: 'Invalid input' },
  unauthenticated: { http: 401, rpc: -32001, title: 'Not signed in' },
  forbidden: { http: 403, rpc: -32003, title: 'Not permitted' },
  not_found: { http: 404, rpc: -32004, title: 'Not found' },
  not_allowed: { http: 405, rpc: -32005, title: 'Method not allowed' },
  conflict: { http: 409, rpc: -32009, title: 'Conflict' },
  too_large: { http: 413, rpc: -32013, title: 'Too large' },
  wrong_type: { http: 415, rpc: -32014, title: 'Wrong content type' },
  unprocessable: { http: 422, rpc: -32022, title: 'Unprocessable' },
  rate_limited: { http: 429, rpc: -32029, title: 'Too many requests' },
  unsupported: { http: 501, rpc: -32015, title: 'Not supported' },
  unavailable: { http: 503, rpc: -32053, title: 'Unavailable' },
  storage_full: { http: 507, rpc: -32057, title: 'Storage full' },
} as const

export type RefusalCode = keyof typeof REFUSALS

export class Refusal extends Error {
  readonly code: RefusalCode
  readonly hint: string | undefined

  constructor(code: RefusalCode, message: string, hint?: string) {
    // The message may quote its input, which may be a credential in the wrong place.
    super(redact(message))
    this.name = 'Refusal'
    this.code = code
    this.hint = hint === undefined ? undefined : redact(hint)
  }
}

/** The store cannot serve this call now. The call is valid, and a retry may succeed. */
export class TransientRefusal extends Refusal {
  /** The connection broke during the commit, so the change may have been made. */
  readonly isOutcomeUnknown: boolean

  constructor(message: string, hint?: string, isUnclear = false) {
    super('unavailable', message, hint)
    this.isOutcomeUnknown = isUnclear
  }
}

/** The same request succeeds after this time. */
export class RetryLaterRefusal extends Refusal {
  readonly retryAfterS: number

  constructor(message: string, retryAfterS: number) {
    super('rate_limited', message, `try again in ${retryAfterS} ${retryAfterS === 1 ? 'second' : 'seconds'}`)
    this.retryAfterS = retryAfterS
  }
}

/** Also usable as an expression: `find(...) ?? refuse('not_found', ...)`. */
export function refuse(code: RefusalCode, message: string, hint?: string): never {
  throw new Refusal(code, message, hint)
}

const UNAVAILABLE = new Refusal('unavailable', 'the service is not available at the moment', 'try again in a moment')

/** A refusal for strangers. Details of an outage name paths, hosts and settings, so only the log has them. */
export function publicRefusal(refusal: Refusal): Refusal {
  return refusal.code === 'unavailable' ? UNAVAILABLE : refusal
}
