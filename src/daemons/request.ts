// What every request of every daemon goes through: an id, the headers that no answer lacks, a count, and one log line.
import { IncomingMessage } from 'node:http'
import type { Context, MiddlewareHandler } from 'hono'
import { verifyBearer } from '../core/bearers.ts'
import { type Caller, principalOf } from '../core/caller.ts'
import type { Ask } from '../faces/rest.ts'
import { uuidv7 } from '../lib/clock.ts'
import { addressOf } from '../lib/http.ts'
import { type Log, logAnswer } from '../lib/log.ts'
import type { RequestMetrics } from '../lib/metrics.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Host } from '../registry/context.ts'

declare module 'hono' {
  interface ContextVariableMap {
    requestId: string
    caller: Caller
    /** Another daemon of this process answers, and writes the line. */
    isPassedOn: boolean
  }
}

export const REQUEST_ID = 'X-Request-Id'
const ALREADY_SENT = 'x-hono-already-sent'

export interface Framing {
  readonly host: Host
  readonly log: Log
  readonly metrics: RequestMetrics
}

export function framed({ host, log, metrics }: Framing): MiddlewareHandler {
  const always = headersOf(host)
  return async (c, next) => {
    const started = performance.now()
    const request = idOf(c, host)
    c.set('requestId', request)
    await next()
    const ms = performance.now() - started
    const { status, headers } = c.res
    if (!headers.has(ALREADY_SENT)) {
      for (const [name, value] of always) if (!headers.has(name)) headers.set(name, value)
      headers.set(REQUEST_ID, request)
    }
    metrics.add(c.req.method, status, ms)
    if (c.get('isPassedOn')) return
    const [caller, reason] = [c.get('caller'), c.error instanceof Refusal ? c.error.message : undefined]
    logAnswer(log, {
      method: c.req.method,
      path: pathOf(c.req.url),
      status,
      ms,
      request,
      caller: caller && principalOf(caller),
      remote: remoteOf(c),
      reason,
    })
  }
}

/** For what has no better answer: a page of ours says its own. */
function headersOf({ webBase }: Host): readonly (readonly [name: string, value: string])[] {
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

/** The front door's id, or the client's own if it is short and plain; it stands in the audit row, the log and the answer. */
function idOf(c: Context, host: Host): string {
  return requestId(c.req.header(REQUEST_ID), host)
}

export function requestId(given: string | undefined, host: Host): string {
  return given !== undefined && /^[A-Za-z0-9._-]{1,64}$/.test(given) ? given : uuidv7(host.clock, host.random)
}

/** Not Hono's, which is half decoded. */
export function pathOf(url: string): string {
  const start = url.indexOf('/', url.indexOf('://') + 3)
  const end = url.search(/[?#]/)
  return url.slice(start, end < 0 ? undefined : end)
}

const clients = new WeakMap<IncomingMessage, string>()

/** For the front door: behind proxies that are trusted, whoever is connected is not who asks. */
export function setClient(incoming: IncomingMessage, client: string): void {
  clients.set(incoming, client)
}

/** The address of whoever asks: who is connected to this process, unless the front door knows better. */
export function remoteOf(c: Context): string | undefined {
  const incoming = incomingOf(c)
  return incoming && (clients.get(incoming) ?? addressOf(incoming))
}

export function incomingOf(c: Context): IncomingMessage | undefined {
  const env: unknown = c.env
  if (typeof env !== 'object' || env === null || !('incoming' in env)) return undefined
  return env.incoming instanceof IncomingMessage ? env.incoming : undefined
}

/** Who asks, by the bearer. */
export function askWith(host: Host): Ask {
  return async (c) => {
    const caller = await verifyBearer(host, bearerOf(c.req.header('Authorization')))
    c.set('caller', caller)
    const sourceIp = remoteOf(c)
    return { host, caller, face: 'rest', requestId: c.get('requestId'), ...(sourceIp ? { sourceIp } : {}) }
  }
}

/** Two headers come as one with a comma, which no bearer holds. */
export function bearerOf(header: string | undefined): string {
  const [, bearer] = /^bearer +([\w-]+\.[\w-]+\.[\w-]+) *$/i.exec(header ?? '') ?? []
  return bearer ?? refuse('unauthenticated', 'a bearer is needed', 'send the header Authorization: Bearer <bearer>')
}

/** The caller of a valid bearer of this instance. Any other credential is another program's, and names no caller. */
export async function callerOf(host: Host, authorization: string | undefined): Promise<Caller | undefined> {
  if (authorization === undefined) return undefined
  try {
    return await verifyBearer(host, bearerOf(authorization))
  } catch (error) {
    if (error instanceof Refusal && error.code === 'unauthenticated') return undefined
    throw error
  }
}

/**
 * What a route returns that has written to the Node response itself, as streams and the proxy do. Not the constant of
 * @hono/node-server: loaded after the first listener it is taken for an ordinary answer, and it is one object for all.
 */
export function alreadySent(status: number): Response {
  const response = new Response(null, { status, headers: { [ALREADY_SENT]: 'true' } })
  // Reading the body makes it a plain Response, of which the listener looks at the header.
  void response.body
  return response
}
