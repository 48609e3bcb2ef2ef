// Stateless MCP over HTTP: one request, one response. The official package detects the protocol version of a request.
import { createMcpHandler, type Server } from '@modelcontextprotocol/server'
import { toolCallFault } from '../../../faces/mcp.ts'
import { contentType } from '../../../lib/http/http.ts'
import { Refusal } from '../../../lib/refusal.ts'
import { parseLinkJson } from '../request-body.ts'

export interface McpPost {
  header(name: string): string | undefined
  readonly body: Uint8Array
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
}

export type McpExchange<C> = (post: McpPost, call: C) => Promise<Response>

export interface McpExchanges<C> {
  readonly exchange: McpExchange<C>
  close(): Promise<void>
}

/** The package gets only the headers it reads, and a fixed URL: the real one may contain a token. */
const HEADERS = ['content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name']
const URL_WITHOUT_TOKEN = 'http://localhost/mcp'
/** The oldest clients may send several messages in one body. */
const BATCH_MAX = 16

export function openMcpExchanges<C>(serverFor: (call: C) => Server): McpExchanges<C> {
  const calls = new WeakMap<Request, C>()
  const handler = createMcpHandler(({ requestInfo }) => {
    const call = requestInfo && calls.get(requestInfo)
    if (call === undefined) throw new Error('the MCP package created a request without a caller')
    return serverFor(call)
  })
  return {
    exchange: async ({ header, body, signal }, call) => {
      const headers = HEADERS.flatMap((name): [string, string][] => {
        const value = header(name)
        return value === undefined ? [] : [[name, value]]
      })
      const request = new Request(URL_WITHOUT_TOKEN, { method: 'POST', headers, signal })
      calls.set(request, call)
      // The package refuses other content types without reading the body.
      if (contentType(header('content-type') ?? '').type !== 'application/json') return handler.fetch(request)
      const parsed = parseMessage(body)
      if (parsed instanceof Refusal) return parseErrorResponse(parsed)
      return toolCallError(parsed.message) ?? handler.fetch(request, { parsedBody: parsed.message })
    },
    close: () => handler.close(),
  }
}

function parseMessage(body: Uint8Array): { readonly message: unknown } | Refusal {
  try {
    const message = parseLinkJson(body)
    if (Array.isArray(message) && message.length > BATCH_MAX)
      return new Refusal('unprocessable', `a batch may contain at most ${BATCH_MAX} messages`)
    return { message }
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** JSON-RPC: -32700 is a parse error, -32600 an invalid request. */
function parseErrorResponse({ code, message }: Refusal): Response {
  const error = { code: code === 'unprocessable' ? -32600 : -32700, message }
  return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 400 })
}

/** The response to a malformed tool call; undefined for all other messages. The package checks batches. */
function toolCallError(message: unknown): Response | undefined {
  const fault = toolCallFault(message)
  if (fault === undefined) return undefined
  const sentId = typeof message === 'object' && message !== null && 'id' in message ? message.id : null
  const id = typeof sentId === 'string' || typeof sentId === 'number' ? sentId : null
  return Response.json({ jsonrpc: '2.0', error: { code: -32602, message: `invalid params: ${fault}` }, id })
}

/** There are no sessions, so that no session id can be mistaken for a credential. */
export const SESSION_HEADER = 'mcp-session-id'

export function noSession(): Refusal {
  return new Refusal('not_found', 'there is no such session', 'omit Mcp-Session-Id: this endpoint is stateless')
}
