// Forwards a request to another server. Bodies are streamed both ways with back-pressure; only headers are changed.
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as requestPlain,
  type ServerResponse,
} from 'node:http'
import { request as requestSecure, Agent as SecureAgent } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { guard } from '../../lib/fault-boundary.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { withoutHopByHopHeaders } from '../../lib/http/hop-by-hop-headers.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'

export interface UpstreamRequest {
  /** The server, for error messages. */
  readonly name: string
  readonly url: URL
  readonly method: string
  /** Raw path and query, never resolved against `url`: "//evil/" would become a host. */
  readonly target: string
  /** Raw headers (names and values in turn), without hop-by-hop headers. */
  readonly headers: readonly string[]
  /** Timeout of the response headers after the request; default a minute. The bodies may take as long as they need. */
  readonly headMs?: number | undefined
  /** Changes the raw headers of the response. */
  rewriteResponse?(rawHeaders: string[]): string[]
}

export interface Forwarder {
  /** Resolves with the status when the response headers are sent; rejects with a refusal when nothing was sent. */
  forward(incoming: IncomingMessage, outgoing: ServerResponse, upstream: UpstreamRequest): Promise<number>
  close(): void
}

const CONNECT_MS = 5000
const HEAD_MS = 60_000

export function openForwarder(): Forwarder {
  const plain = new Agent({ keepAlive: true })
  const secure = new SecureAgent({ keepAlive: true })
  return {
    forward: (incoming, outgoing, upstream) => {
      const options = {
        method: upstream.method,
        path: `${upstream.url.pathname.replace(/\/$/, '')}${upstream.target}`,
        headers: upstreamRequestHeaders(upstream, incoming),
      }
      const sent =
        upstream.url.protocol === 'https:'
          ? requestSecure(upstream.url, { ...options, agent: secure })
          : requestPlain(upstream.url, { ...options, agent: plain })
      return relay(incoming, outgoing, sent, upstream)
    },
    close: () => {
      plain.destroy()
      secure.destroy()
    },
  }
}

async function relay(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  sent: ClientRequest,
  { name, headMs = HEAD_MS, rewriteResponse = (headers) => headers }: UpstreamRequest,
): Promise<number> {
  const responded = waitForResponse(sent, name, headMs)
  // A handler may refuse a request before its body; here the client just has to send it.
  if (incoming.headers.expect !== undefined) outgoing.writeContinue()
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) sent.destroy()
  })
  // A destroyed response emits no further 'close'.
  if (outgoing.destroyed) sent.destroy(new Error('the client has disconnected'))
  if (hasBody(incoming)) incoming.pipe(sent)
  else sent.end()
  const upstreamResponse = await responded
  const status = upstreamResponse.statusCode ?? 0
  if (status < 200 || status > 599) {
    sent.destroy()
    refuse('unavailable', `${name} does not speak HTTP`)
  }
  const headers = rewriteResponse(withoutHopByHopHeaders(upstreamResponse.rawHeaders))
  outgoing.writeHead(status, headers).flushHeaders()
  // If either side fails, both are destroyed: a truncated response must not look complete.
  pipeline(upstreamResponse, outgoing).catch(() => {})
  upstreamResponse.once('end', () => discardBody(incoming, sent))
  return status
}

/** A response may come before the request body ends. Node then stops reading it and would block the next request. */
function discardBody(incoming: IncomingMessage, sent: ClientRequest): void {
  if (sent.writableEnded) return
  incoming.unpipe(sent).resume()
  sent.destroy()
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Keeps the framing of the body: by default Node would send the body of a DELETE without any. */
function upstreamRequestHeaders({ url, headers }: UpstreamRequest, incoming: IncomingMessage): string[] {
  const withoutHost = headers.filter((_, at) => headers[at - (at % 2)]?.toLowerCase() !== 'host')
  const framing = incoming.headers['transfer-encoding'] === undefined ? [] : ['Transfer-Encoding', 'chunked']
  return ['Host', url.host, ...withoutHost, ...framing]
}

function waitForResponse(sent: ClientRequest, name: string, headMs: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    let headTimer: NodeJS.Timeout | undefined
    sent.once('finish', () => {
      headTimer = setTimeout(() => sent.destroy(new Error('timeout')), headMs)
    })
    let connectTimer: NodeJS.Timeout | undefined
    sent.once('socket', (socket) => {
      if (!socket.connecting) return
      connectTimer = setTimeout(() => sent.destroy(new Error('timeout')), CONNECT_MS)
      socket.once('connect', () => clearTimeout(connectTimer))
    })
    const clearTimers = (): void => {
      clearTimeout(headTimer)
      clearTimeout(connectTimer)
    }
    sent.once('response', (response) => {
      clearTimers()
      resolve(response)
    })
    // Not `once`: later errors reach the caller through the response, but an unhandled one would end the process.
    const fail = (error: Error): void => {
      clearTimers()
      reject(new Refusal('unavailable', `${name} cannot be reached (${errnoCode(error) ?? 'timeout'})`))
    }
    sent.on('error', guard(reject, fail))
  })
}
