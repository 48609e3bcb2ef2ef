// A relayed request and its error response.
import { type ErrorResponseOptions, formatErrorResponse, type ProxyErrorCode } from '../connection/error-responses.ts'
import type { BadHead, RequestHead } from '../http/head.ts'
import { headerValue } from '../http/header-field.ts'
import type { OriginTarget } from '../http/target.ts'
import type { CompiledSource } from '../policy/policy.ts'

export interface RelayRequest {
  readonly startedAt: number
  readonly head?: RequestHead
  readonly target?: OriginTarget
  readonly source?: CompiledSource | undefined
  readonly rule?: string | undefined
}

/** Error codes for a malformed head. */
export const HEAD_ERROR_CODES = {
  400: 'bad-request',
  414: 'uri-too-long',
  431: 'head-too-large',
  501: 'not-implemented',
  505: 'version-not-supported',
} as const satisfies Record<BadHead['status'], ProxyErrorCode>

export function formatRelayError(
  { head, target, source }: RelayRequest,
  code: ProxyErrorCode,
  options: Pick<ErrorResponseOptions, 'denyMessage' | 'keepAlive'> & { readonly detail: string | undefined },
): Buffer {
  const { detail, ...rest } = options
  const json = head !== undefined && (headerValue(head.fields, 'accept') ?? '').includes('application/json')
  const details = { host: target?.host.text, port: target?.port, id: source?.id, detail }
  return formatErrorResponse(code, details, { ...rest, json, bodiless: head?.method === 'HEAD' })
}
