// The methods that are no tools: taken before the protocol sees them, and shown in no list.
import { type JSONRPCRequest, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { Refusal } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'
import type { Reply } from './line-transport.ts'
import type { NamedTurn } from './naming.ts'
import { takeStatus } from './status.ts'
import { takeSubmission } from './submission.ts'

type Method = (
  host: Host,
  folder: string,
  named: NamedTurn | undefined,
  params: Readonly<Record<string, unknown>>,
) => Promise<void>

const METHODS: ReadonlyMap<string, Method> = new Map([
  ['submit_turn', takeSubmission],
  ['submit_status', takeStatus],
])

export interface Asked {
  readonly host: Host
  readonly folder: string
  readonly named: NamedTurn | undefined
  onError(error: unknown, what: string): void
}

/** The answer to a hidden method, or nothing where it is none. */
export function answerHidden({ method, params }: JSONRPCRequest, asked: Asked): Promise<Reply> | undefined {
  const take = METHODS.get(method)
  return take && answered(take(asked.host, asked.folder, asked.named, params ?? {}), method, asked)
}

async function answered(taking: Promise<void>, method: string, { onError }: Asked): Promise<Reply> {
  try {
    await taking
    return { result: { ok: true } }
  } catch (error) {
    if (!(error instanceof Refusal)) onError(error, method)
    return { error: faultOf(error) }
  }
}

export function faultOf(error: unknown): { readonly code: number; readonly message: string } {
  const { InvalidParams, InternalError } = ProtocolErrorCode
  if (!(error instanceof Refusal)) return { code: InternalError, message: 'internal error' }
  const { code, message } = error
  if (message === 'turn_id required') return { code: InvalidParams, message }
  if (code === 'invalid' || code === 'not_found') return { code: InvalidParams, message: `invalid params: ${message}` }
  return { code: InternalError, message }
}
