// What a line is: a request, a notification, nothing that concerns us, or a fault with the answer that it gets.
import { isUtf8 } from 'node:buffer'
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCNotification,
  type JSONRPCRequest,
  ProtocolErrorCode,
  type RequestId,
} from '@modelcontextprotocol/server'
import { jsonFault, tryJson } from '../lib/json.ts'

export type Incoming =
  | { readonly kind: 'request'; readonly request: JSONRPCRequest }
  | { readonly kind: 'notification'; readonly notification: JSONRPCNotification }
  | { readonly kind: 'nothing' }
  | { readonly kind: 'fault'; readonly fault: Fault }

export interface Fault {
  /** Nothing where it cannot be known whose it is. */
  readonly id: RequestId | null
  readonly code: number
  readonly message: string
}

const { ParseError, InvalidRequest, InvalidParams } = ProtocolErrorCode
const NOTHING: Incoming = { kind: 'nothing' }

/** Answers every line: the official package passes over in silence what it does not know. */
export function readIncoming(line: Buffer): Incoming {
  if (!isUtf8(line)) return fault(null, ParseError, 'parse error: the line is not UTF-8')
  const text = line.toString()
  if (text.trim() === '') return NOTHING
  const value = tryJson(text)
  if (value === undefined) return fault(null, ParseError, `parse error: the line ${jsonFault(text) ?? 'is not JSON'}`)
  if (Array.isArray(value)) return fault(null, InvalidRequest, 'invalid request: a line holds one message, not a batch')
  if (!isObject(value)) return fault(null, InvalidRequest, 'invalid request: a message is an object')
  return readMessage(value)
}

function readMessage(value: Record<string, unknown>): Incoming {
  const own = (name: string): unknown => (Object.hasOwn(value, name) ? value[name] : undefined)
  const [id, method, params] = [own('id'), own('method'), own('params')]
  const isRequest = Object.hasOwn(value, 'id')
  if (isRequest && !isRequestId(id))
    return fault(null, InvalidRequest, 'invalid request: id must be a text or a whole number')
  const whose = isRequestId(id) ? id : null
  if (own('jsonrpc') !== '2.0') return fault(whose, InvalidRequest, 'invalid request: jsonrpc must be "2.0"')
  // Nobody is asked anything here, so that an answer is nobody's.
  if (method === undefined && (Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error'))) return NOTHING
  if (typeof method !== 'string') return fault(whose, InvalidRequest, 'invalid request: method must be a text')
  const hasParams = Object.hasOwn(value, 'params')
  const message = { jsonrpc: '2.0' as const, method, ...(hasParams ? { params } : {}) }
  if (whose === null) return isJSONRPCNotification(message) ? { kind: 'notification', notification: message } : NOTHING
  if (hasParams && !isObject(params)) return fault(whose, InvalidParams, 'invalid params: params must be an object')
  const request = { ...message, id: whose }
  if (isJSONRPCRequest(request)) return { kind: 'request', request }
  return fault(whose, InvalidParams, 'invalid params: _meta is not as the protocol has it')
}

function fault(id: RequestId | null, code: number, message: string): Incoming {
  return { kind: 'fault', fault: { id, code, message } }
}

/** A number that JSON cannot give back as it came would be another request's. */
function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value)
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
