// Parses one line: a request, a notification, something to ignore, or an error with the response to send.
import { isUtf8 } from 'node:buffer'
import {
  isJSONRPCNotification,
  isJSONRPCRequest,
  type JSONRPCNotification,
  type JSONRPCRequest,
  ProtocolErrorCode,
  type RequestId,
} from '@modelcontextprotocol/server'
import { findJsonError, isObject, tryParseJson } from '../lib/text/json.ts'

export type RpcLine =
  | { readonly kind: 'request'; readonly request: JSONRPCRequest }
  | { readonly kind: 'notification'; readonly notification: JSONRPCNotification }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'fault'; readonly fault: RpcError }

export interface RpcError {
  /** Null if the id of the request is unknown. */
  readonly id: RequestId | null
  readonly code: number
  readonly message: string
}

const { ParseError, InvalidRequest, InvalidParams } = ProtocolErrorCode
const IGNORED: RpcLine = { kind: 'ignored' }

/** Unlike the official package, it does not silently ignore malformed lines. */
export function parseRpcLine(line: Buffer): RpcLine {
  if (!isUtf8(line)) return fault(null, ParseError, 'parse error: line is not UTF-8')
  const text = line.toString()
  if (text.trim() === '') return IGNORED
  const value = tryParseJson(text)
  if (value === undefined) return fault(null, ParseError, `parse error: line ${findJsonError(text) ?? 'is not JSON'}`)
  if (Array.isArray(value))
    return fault(null, InvalidRequest, 'invalid request: batches are not supported; send one message per line')
  if (!isObject(value)) return fault(null, InvalidRequest, 'invalid request: message must be an object')
  return readMessage(value)
}

function readMessage(value: Record<string, unknown>): RpcLine {
  const own = (name: string): unknown => (Object.hasOwn(value, name) ? value[name] : undefined)
  const [id, method, params] = [own('id'), own('method'), own('params')]
  const hasId = Object.hasOwn(value, 'id')
  if (hasId && !isRequestId(id))
    return fault(null, InvalidRequest, 'invalid request: id must be a string or an integer')
  const requestId = isRequestId(id) ? id : null
  if (own('jsonrpc') !== '2.0') return fault(requestId, InvalidRequest, 'invalid request: jsonrpc must be "2.0"')
  // The server sends no requests, so responses are ignored.
  if (method === undefined && (Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error'))) return IGNORED
  if (typeof method !== 'string') return fault(requestId, InvalidRequest, 'invalid request: method must be a string')
  const hasParams = Object.hasOwn(value, 'params')
  const message = { jsonrpc: '2.0' as const, method, ...(hasParams ? { params } : {}) }
  if (requestId === null)
    return isJSONRPCNotification(message) ? { kind: 'notification', notification: message } : IGNORED
  if (hasParams && !isObject(params)) return fault(requestId, InvalidParams, 'invalid params: params must be an object')
  const request = { ...message, id: requestId }
  if (isRequest(request)) return { kind: 'request', request }
  return fault(requestId, InvalidParams, 'invalid params: _meta does not match the protocol')
}

/** Everything except `_meta` is checked above. */
function isRequest(request: { readonly params?: unknown }): request is JSONRPCRequest {
  return (isObject(request.params) ? request.params._meta : undefined) === undefined || isJSONRPCRequest(request)
}

function fault(id: RequestId | null, code: number, message: string): RpcLine {
  return { kind: 'fault', fault: { id, code, message } }
}

/** An integer that JSON cannot represent exactly would change in the response. */
function isRequestId(value: unknown): value is RequestId {
  return typeof value === 'string' || Number.isSafeInteger(value)
}
