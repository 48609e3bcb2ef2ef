// One exchange of the Model Context Protocol over HTTP: a request in, its answer out, and nothing kept between the two.
// Which generation a request speaks is decided by the official package.
import { createMcpHandler, type Server } from '@modelcontextprotocol/server'
import { toolCallFault } from '../../faces/mcp.ts'
import { contentType } from '../../lib/http.ts'
import { Refusal } from '../../lib/refusal.ts'
import { linkJson } from './body.ts'

export interface Posted {
  header(name: string): string | undefined
  readonly body: Uint8Array
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: AbortSignal
}

export type Exchange<A> = (posted: Posted, asking: A) => Promise<Response>

export interface Exchanges<A> {
  readonly exchange: Exchange<A>
  close(): Promise<void>
}

/** What the protocol reads; the rest of a request is not its business, least of all the address, which may hold a token. */
const HEADERS = ['content-type', 'accept', 'mcp-protocol-version', 'mcp-method', 'mcp-name']
const ADDRESS = 'http://localhost/mcp'
/** The oldest clients may send several messages as one; an answer holds as many results. */
const BATCH_MAX = 16

export function openExchanges<A>(serverFor: (asking: A) => Server): Exchanges<A> {
  const askings = new WeakMap<Request, A>()
  const handler = createMcpHandler(({ requestInfo }) => {
    const asking = requestInfo && askings.get(requestInfo)
    if (asking === undefined) throw new Error('a request came by another way')
    return serverFor(asking)
  })
  return {
    exchange: async ({ header, body, signal }, asking) => {
      const headers = HEADERS.flatMap((name): [string, string][] => {
        const value = header(name)
        return value === undefined ? [] : [[name, value]]
      })
      const request = new Request(ADDRESS, { method: 'POST', headers, signal })
      askings.set(request, asking)
      // What is no JSON is not read at all.
      if (contentType(header('content-type') ?? '').type !== 'application/json') return handler.fetch(request)
      const read = readMessage(body)
      if (read instanceof Refusal) return unreadable(read)
      return noCall(read.message) ?? handler.fetch(request, { parsedBody: read.message })
    },
    close: () => handler.close(),
  }
}

function readMessage(body: Uint8Array): { readonly message: unknown } | Refusal {
  try {
    const message = linkJson(body)
    if (Array.isArray(message) && message.length > BATCH_MAX)
      return new Refusal('unprocessable', `a batch holds at most ${BATCH_MAX} messages`)
    return { message }
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/** In the protocol's own shape: a parse error, or a message that is none. */
function unreadable({ code, message }: Refusal): Response {
  const error = { code: code === 'unprocessable' ? -32600 : -32700, message }
  return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 400 })
}

/** The answer to a message that is no call of a tool though it says so, or nothing. A batch is left to the package. */
function noCall(message: unknown): Response | undefined {
  const fault = toolCallFault(message)
  if (fault === undefined) return undefined
  const said = typeof message === 'object' && message !== null && 'id' in message ? message.id : null
  const id = typeof said === 'string' || typeof said === 'number' ? said : null
  return Response.json({ jsonrpc: '2.0', error: { code: -32602, message: `invalid params: ${fault}` }, id })
}

/** The header by which a session would be named. There are none, so that none can be taken for a credential. */
export const SESSION = 'mcp-session-id'

export function noSession(): Refusal {
  return new Refusal(
    'not_found',
    'there is no such session',
    'leave out Mcp-Session-Id: nothing is kept between requests',
  )
}
