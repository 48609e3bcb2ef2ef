// Middleware of every daemon: request id, default response headers, metrics and one log line.
import { IncomingMessage } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { type Caller, principalOf } from '../../core/access/caller.ts'
import { uuidv7 } from '../../lib/clock.ts'
import type { TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { peerAddress } from '../../lib/http/http.ts'
import { type Log, logRequest } from '../../lib/log/log.ts'
import type { RequestMetrics } from '../../lib/log/metrics.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { formatSessionCookie, sessionCookieName } from './session-cookie.ts'
import { resolveClientAddress } from './trusted-proxies.ts'

declare module 'hono' {
  interface ContextVariableMap {
    requestId: string
    caller: Caller
    /** The new token of the caller's session. */
    renewedSession: string
    /** Another daemon of this process responds and logs, or it is one of the many requests of a line between daemons. */
    isUnlogged: boolean
  }
}

export const REQUEST_ID_HEADER = 'X-Request-Id'
const ALREADY_SENT = 'x-hono-already-sent'

export interface RequestMiddlewareOptions {
  readonly host: InstanceHost
  readonly log: Log
  readonly metrics: RequestMetrics
  /** Proxies whose X-Forwarded-For names the client: those of the operator, and proxyd in another container. */
  readonly isTrustedProxy?: TrustedProxyCheck | undefined
}

export function requestMiddleware(options: RequestMiddlewareOptions): MiddlewareHandler {
  const { host, log, metrics, isTrustedProxy } = options
  const defaults = defaultHeaders(host)
  const cookieStart = `${sessionCookieName(host)}=`
  return async (c, next) => {
    const started = performance.now()
    if (isTrustedProxy) findClientAddress(c, isTrustedProxy)
    const request = acceptRequestId(c.req.header(REQUEST_ID_HEADER), host)
    c.set('requestId', request)
    await next()
    const ms = performance.now() - started
    const { status, headers } = c.res
    if (!headers.has(ALREADY_SENT)) {
      for (const [name, value] of defaults) if (!headers.has(name)) headers.set(name, value)
      headers.set(REQUEST_ID_HEADER, request)
      // A response that sets the cookie itself starts or ends a session.
      const renewed = c.get('renewedSession')
      if (renewed !== undefined && !headers.getSetCookie().some((line) => line.startsWith(cookieStart)))
        headers.append('Set-Cookie', formatSessionCookie(host, renewed))
    }
    metrics.add(c.req.method, status, ms)
    if (c.get('isUnlogged')) return
    const [caller, reason] = [c.get('caller'), c.error instanceof Refusal ? c.error.message : undefined]
    logRequest(log, {
      method: c.req.method,
      path: pathOf(c.req.url),
      status,
      ms,
      request,
      caller: caller && principalOf(caller),
      remote: clientAddressOf(c),
      reason,
    })
  }
}

function defaultHeaders({ webBase }: InstanceHost): readonly (readonly [name: string, value: string])[] {
  const secure = webBase.startsWith('https:') ? [['Strict-Transport-Security', 'max-age=31536000'] as const] : []
  return [
    ['X-Content-Type-Options', 'nosniff'],
    ['Referrer-Policy', 'no-referrer'],
    ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
    ['Cross-Origin-Resource-Policy', 'same-origin'],
    ['Cache-Control', 'no-store'],
    ...secure,
  ]
}

/** The id from proxyd or the client, if it is short and plain; it appears in the audit row, the log and the response. */
export function acceptRequestId(given: string | undefined, host: InstanceHost): string {
  return given !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : uuidv7(host.clock, host.random)
}

/** The raw path; Hono's is partly decoded. */
export function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const end = url.search(/[?#]/)
  return url.slice(start, end < 0 ? undefined : end)
}

const clientAddresses = new WeakMap<IncomingMessage, string>()

/** Overrides the socket's address for a request that came through a trusted proxy. */
export function setClientAddress(incoming: IncomingMessage, client: string): void {
  clientAddresses.set(incoming, client)
}

/** Keeps the address that proxyd has found in this process. */
function findClientAddress(c: Context, isTrustedProxy: TrustedProxyCheck): void {
  const incoming = incomingOf(c)
  if (!incoming || clientAddresses.has(incoming)) return
  const client = resolveClientAddress(isTrustedProxy, incoming)
  if (client !== undefined) setClientAddress(incoming, client)
}

export function clientAddressOf(c: Context): string | undefined {
  const incoming = incomingOf(c)
  return incoming && (clientAddresses.get(incoming) ?? peerAddress(incoming))
}

export function incomingOf(c: Context): IncomingMessage | undefined {
  const env: unknown = c.env
  if (typeof env !== 'object' || env === null || !('incoming' in env)) return undefined
  return env.incoming instanceof IncomingMessage ? env.incoming : undefined
}

/**
 * Returned by a route that has written to the Node response, such as a forwarder. The constant of @hono/node-server does not
 * work when it is loaded after the first listener, and is one object for all requests.
 */
export function alreadySentResponse(status: number): Response {
  const response = new Response(null, { status, headers: { [ALREADY_SENT]: 'true' } })
  // Reading the body turns it into a plain Response, whose headers the listener checks.
  void response.body
  return response
}
