// What is to become of a request: one answer for each, before anything is looked up or dialled for it.
import type { AnswerCode } from '../answers.ts'
import type { Gate } from '../gate.ts'
import { decide } from '../match.ts'
import type { Asked } from './asked.ts'
import { answerLastForward, findForwardsFault } from './forwards.ts'
import { hasBody } from './framing.ts'
import type { RequestHead } from './head.ts'
import { hasPassedHere } from './head-text.ts'
import type { Target, TargetOf } from './target.ts'

export type Judged =
  | { readonly kind: 'serve'; readonly asked: Asked; readonly target: Target; readonly isEndpoint: boolean }
  /** With `stays`, another request may follow. */
  | {
      readonly kind: 'refuse'
      readonly asked: Asked
      readonly code: AnswerCode
      readonly why: string | undefined
      readonly stays: boolean
    }
  /** We are the last that it may reach. */
  | { readonly kind: 'answer'; readonly asked: Asked; readonly bytes: Buffer; readonly stays: boolean }

export function judgeRequest(gate: Gate, from: string, head: RequestHead, targetOf: TargetOf): Judged {
  const startedAt = gate.wires.now()
  const target = targetOf(head)
  if ('code' in target) return refuse({ startedAt, head }, target.code, target.why)
  const source = gate.find(from)
  const { allow, reason, rule, isEndpoint = false } = decide(source, target.host, target.port)
  const asked = { startedAt, head, target, source, rule }
  // Behind a body that nobody reads no other request is looked for.
  const stays = head.keepAlive && !hasBody(head.framing) && !gate.isStopping
  if (!allow) return refuse(asked, reason === 'allowed' ? 'internal-error' : reason, undefined, stays)
  if (gate.isStopping) return refuse(asked, 'shutting-down')
  if (hasPassedHere(head.fields, gate.via)) return refuse(asked, 'proxy-loop', undefined, stays)
  if (head.expectsMore) return refuse(asked, 'expectation-failed', undefined, stays)
  const fault = findForwardsFault(head)
  if (fault !== undefined) return refuse(asked, 'bad-request', fault)
  const bytes = answerLastForward(head, !stays, gate.via)
  return bytes ? { kind: 'answer', asked, bytes, stays } : { kind: 'serve', asked, target, isEndpoint }
}

function refuse(asked: Asked, code: AnswerCode, why?: string, stays = false): Judged {
  return { kind: 'refuse', asked, code, why, stays }
}
