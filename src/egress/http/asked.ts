// The request at hand, as its refusal and its log line speak of it.
import { type AnswerCode, answerBytes } from '../answers.ts'
import type { Exchange } from '../exchange.ts'
import type { Source } from '../match.ts'
import type { TunnelEnd } from '../tunnel.ts'
import { findField } from './field.ts'
import type { BadHead, RequestHead } from './head.ts'
import type { Target } from './target.ts'
import type { Turn } from './turn.ts'

export interface Asked {
  readonly startedAt: number
  readonly head?: RequestHead
  readonly target?: Target
  readonly source?: Source | undefined
  readonly rule?: string | undefined
}

/** How a head that cannot be read is answered. */
export const BAD_HEADS = {
  400: 'bad-request',
  414: 'uri-too-long',
  431: 'head-too-large',
  501: 'not-implemented',
  505: 'version-not-supported',
} as const satisfies Record<BadHead['status'], AnswerCode>

export interface RefusalManner {
  readonly detail: string | undefined
  readonly keepAlive: boolean
  readonly denyMessage: string | undefined
}

export function writeRefusal(asked: Asked, code: AnswerCode, manner: RefusalManner): Buffer {
  const { head, target, source } = asked
  const { detail, keepAlive, denyMessage } = manner
  const json = head !== undefined && (findField(head.fields, 'accept') ?? '').includes('application/json')
  const about = { host: target?.host.text, port: target?.port, id: source?.id, detail }
  return answerBytes(code, about, { denyMessage, json, bodiless: head?.method === 'HEAD', keepAlive })
}

/** What became of it. */
export interface Ending extends TunnelEnd {
  readonly status: number | undefined
  readonly mode: Exchange['mode']
  readonly from: string
  readonly now: number
}

export function recordOf(asked: Asked, turn: Turn | undefined, ending: Ending): Exchange {
  const { startedAt, target, source, rule } = asked
  const { verdict, reason, sni, status, mode, from, now } = ending
  return {
    mode,
    source: from,
    id: source?.id,
    host: target?.host.text,
    port: target?.port,
    sni,
    address: turn?.address,
    verdict,
    reason,
    rule,
    status,
    bytesUp: turn?.bytesUp ?? 0,
    bytesDown: turn?.bytesDown ?? 0,
    ms: now - startedAt,
    dialMs: turn?.dialMs,
  }
}
