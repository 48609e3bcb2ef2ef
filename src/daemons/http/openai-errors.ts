// Errors in the shape that OpenAI clients read: {error: {message, type, param, code}}.
import type { Problem } from '../../lib/http/http.ts'
import { Refusal, type RefusalCode } from '../../lib/refusal.ts'

export interface OpenaiError {
  readonly message: string
  readonly type: string
  readonly param: string | null
  readonly code: string | null
}

/** A fault of one member of the request. */
export class ParamRefusal extends Refusal {
  readonly param: string
  /** Code that clients know, if it is not that of the refusal. */
  readonly openaiCode: string | undefined

  constructor(param: string, message: string, options: { code?: RefusalCode; openaiCode?: string } = {}) {
    super(options.code ?? 'invalid', message)
    this.param = param
    this.openaiCode = options.openaiCode
  }
}

export function refuseParam(param: string, message: string): never {
  throw new ParamRefusal(param, message)
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  429: 'rate_limit_error',
}
const CODES: Readonly<Record<string, string>> = {
  unauthenticated: 'invalid_api_key',
  rate_limited: 'rate_limit_exceeded',
}

export function openaiErrorOf(problem: Problem, refusal?: Refusal): { readonly error: OpenaiError } {
  const { status, detail, hint, code } = problem
  const param = refusal instanceof ParamRefusal ? refusal : undefined
  return {
    error: {
      message: hint === undefined ? detail : `${detail}; ${hint}`,
      type: TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
      param: param?.param ?? null,
      code: param?.openaiCode ?? CODES[code] ?? code,
    },
  }
}
