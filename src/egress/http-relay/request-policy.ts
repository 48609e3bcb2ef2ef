// Decides about a request before anything is looked up or dialled.

import type { EgressContext } from '../connection/egress-context.ts'
import type { ProxyErrorCode } from '../connection/error-responses.ts'
import { hasBody } from '../http/framing.ts'
import type { RequestHead } from '../http/head.ts'
import { hasViaLoop } from '../http/head-writer.ts'
import { lastHopResponse, maxForwardsError } from '../http/max-forwards.ts'
import type { OriginTarget, TargetReader } from '../http/target.ts'
import { evaluatePolicy } from '../policy/policy.ts'
import type { RelayRequest } from './relay-request.ts'

export type RelayDecision =
  | {
      readonly kind: 'serve'
      readonly request: RelayRequest
      readonly target: OriginTarget
      readonly isEndpoint: boolean
    }
  | {
      readonly kind: 'refuse'
      readonly request: RelayRequest
      readonly code: ProxyErrorCode
      readonly why: string | undefined
      readonly keepAlive: boolean
    }
  /** This proxy is the last hop (Max-Forwards). */
  | { readonly kind: 'answer'; readonly request: RelayRequest; readonly bytes: Buffer; readonly keepAlive: boolean }

export function decideRelay(
  context: EgressContext,
  from: string,
  head: RequestHead,
  readTarget: TargetReader,
): RelayDecision {
  const startedAt = context.transport.now()
  const target = readTarget(head)
  if ('code' in target) return refuse({ startedAt, head }, target.code, target.why)
  const source = context.findSource(from)
  const { allow, reason, rule, isEndpoint = false } = evaluatePolicy(source, target.host, target.port)
  const request = { startedAt, head, target, source, rule }
  // An unread body would be parsed as the next request.
  const keepAlive = head.keepAlive && !hasBody(head.framing) && !context.isStopping
  if (!allow) return refuse(request, reason === 'allowed' ? 'internal-error' : reason, undefined, keepAlive)
  if (context.isStopping) return refuse(request, 'shutting-down')
  if (hasViaLoop(head.fields, context.via)) return refuse(request, 'proxy-loop', undefined, keepAlive)
  if (head.hasUnknownExpect) return refuse(request, 'expectation-failed', undefined, keepAlive)
  const detail = maxForwardsError(head)
  if (detail !== undefined) return refuse(request, 'bad-request', detail)
  const bytes = lastHopResponse(head, !keepAlive, context.via)
  return bytes ? { kind: 'answer', request, bytes, keepAlive } : { kind: 'serve', request, target, isEndpoint }
}

function refuse(request: RelayRequest, code: ProxyErrorCode, why?: string, keepAlive = false): RelayDecision {
  return { kind: 'refuse', request, code, why, keepAlive }
}
