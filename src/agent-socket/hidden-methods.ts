// JSON-RPC methods that are not tools. They are handled before the MCP package sees them, and no list shows them.
import { type JSONRPCRequest, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { REFUSALS, Refusal, TransientRefusal } from '../lib/refusal.ts'
import type { InstanceHost } from '../registry/context.ts'
import type { RpcReply } from './line-transport.ts'
import { handleSubmitStatus } from './submit-status.ts'
import { handleSubmitTurn } from './submit-turn.ts'
import type { TurnMeta } from './turn-meta.ts'

type Method = (
  host: InstanceHost,
  folder: string,
  turn: TurnMeta | undefined,
  params: Readonly<Record<string, unknown>>,
) => Promise<void>

const METHODS: ReadonlyMap<string, Method> = new Map([
  ['submit_turn', handleSubmitTurn],
  ['submit_status', handleSubmitStatus],
])

export interface HiddenMethodContext {
  readonly host: InstanceHost
  readonly folder: string
  readonly turn: TurnMeta | undefined
  onError(error: unknown, what: string): void
}

export function isHiddenMethod(method: string): boolean {
  return METHODS.has(method)
}

/** Undefined if the method is not a hidden one. */
export function answerHiddenMethod(
  { method, params }: JSONRPCRequest,
  context: HiddenMethodContext,
): Promise<RpcReply> | undefined {
  const { host, folder, turn } = context
  const handle = METHODS.get(method)
  return handle && toReply(handle(host, folder, turn, params ?? {}), method, context)
}

async function toReply(handling: Promise<void>, method: string, { onError }: HiddenMethodContext): Promise<RpcReply> {
  try {
    await handling
    return { result: { ok: true } }
  } catch (error) {
    if (!(error instanceof Refusal)) onError(error, method)
    return { error: toRpcError(error) }
  }
}

export function toRpcError(error: unknown): { readonly code: number; readonly message: string } {
  const { InvalidParams, InternalError } = ProtocolErrorCode
  if (!(error instanceof Refusal)) return { code: InternalError, message: 'internal error' }
  const { code, message } = error
  if (error instanceof TransientRefusal) return { code: REFUSALS.unavailable.rpc, message }
  if (message === 'turn_id required') return { code: InvalidParams, message }
  if (code === 'invalid' || code === 'not_found') return { code: InvalidParams, message: `invalid params: ${message}` }
  return { code: InternalError, message }
}
