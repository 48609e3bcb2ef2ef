// HTTP errors as problem documents (RFC 9457), and request bodies with a size limit.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Context, ErrorHandler, Hono, NotFoundHandler } from 'hono'
import { z } from 'zod'
import { GrowingBuffer } from '../growing-buffer.ts'
import { publicRefusal, REFUSALS, Refusal, type RefusalCode, RetryLaterRefusal, refuse } from '../refusal.ts'
import { parseJson } from '../text/json.ts'

export const BODY_MAX = 1_048_576
/** How much of a body above the limit is still read and discarded. */
const DROPPED_MAX = 16 * BODY_MAX
const DETAIL_MAX = 2_000

// Object.keys loses the key type; REFUSALS is ours, so its keys are exactly the codes.
const CODES = Object.keys(REFUSALS) as RefusalCode[]

/** The body of every error response. `type` is urn:problem:<code>, so the list of types is the list of codes. */
export const Problem = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string().describe('What is wrong, in a sentence'),
  code: z.enum([...CODES, 'internal']),
  hint: z.string().optional().describe('What to do about it'),
  incident: z.string().optional().describe('With code internal: what to quote when you report it'),
})
export type Problem = z.output<typeof Problem>

/** Default Retry-After for refusals that set none. */
const RETRY_AFTER_S: Partial<Record<RefusalCode, number>> = { rate_limited: 1, unavailable: 5 }

export function problemOf(refusal: Refusal): { problem: Problem; headers: Record<string, string> } {
  const { code, message, hint } = refusal
  const { http, title } = REFUSALS[code]
  const retry = refusal instanceof RetryLaterRefusal ? refusal.retryAfterS : RETRY_AFTER_S[code]
  // A refusal lists every unknown member, and a body may have a hundred thousand of them.
  const detail = message.length > DETAIL_MAX ? `${message.slice(0, DETAIL_MAX)}…` : message
  return {
    problem: {
      type: `urn:problem:${code}`,
      title,
      status: http,
      detail,
      code,
      ...(hint === undefined ? {} : { hint }),
    },
    headers: {
      ...(retry === undefined ? {} : { 'Retry-After': String(retry) }),
      ...(code === 'unauthenticated' ? { 'WWW-Authenticate': 'Bearer' } : {}),
    },
  }
}

/** `headers` adds what only the caller knows, such as the exact Retry-After. */
export function problemResponse(refusal: Refusal, headers: Record<string, string> = {}): Response {
  const { problem, headers: own } = problemOf(refusal)
  return respond(problem, { ...own, ...headers })
}

function respond(body: Problem, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
  })
}

/** Whether the client is a browser that shows a page, judging by Accept. */
export function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined || !accept.includes('text/html')) return false
  const weights = new Map(
    accept.split(',').map((part) => {
      const [type = '', ...parameters] = part.split(';').map((text) => text.trim().toLowerCase())
      const weight = parameters.find((text) => text.startsWith('q='))?.slice(2)
      return [type, weight === undefined ? 1 : Number(weight)] as const
    }),
  )
  const html = weights.get('text/html') ?? 0
  return html > 0 && html >= (weights.get('application/json') ?? 0)
}

/** Receives unexpected errors. It gets no path, which may contain a token. */
export type LogIncident = (id: string, error: unknown, c: Context) => void

/** For `app.onError`: returns refusals as they are, except to strangers. Other errors become an incident; the log has the details. */
export function createErrorHandler(log: LogIncident, isStranger: (c: Context) => boolean = () => false): ErrorHandler {
  return (error, c) => {
    if (error instanceof Refusal) return problemResponse(isStranger(c) ? publicRefusal(error) : error)
    const incident = randomUUID()
    log(incident, error, c)
    const detail = `internal error; the log has the details under ${incident}`
    const title = 'Internal error'
    return respond({ type: 'urn:problem:internal', title, status: 500, detail, code: 'internal', incident }, {})
  }
}

export function peerAddress({ socket }: IncomingMessage): string | undefined {
  const address = socket.remoteAddress
  return address?.startsWith('::ffff:') ? address.slice(7) : address
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** For `app.notFound`: 404, or 405 with the methods that the path allows. */
export function createNotFoundHandler(app: Hono): NotFoundHandler {
  return (c) => {
    // Middleware is registered under ALL; only a handler of this method makes a path known.
    const routes = METHODS.flatMap((method) =>
      app.router.match(method, c.req.path)[0].flatMap(([[, route]]) => (route.method === method ? [route] : [])),
    )
    // A literal path takes precedence over a parameter, as in API descriptions.
    const exact = routes.filter(({ path }) => path === c.req.path)
    const allow = [...new Set((exact.length > 0 ? exact : routes).map(({ method }) => method))].join(', ')
    if (allow === '') return problemResponse(new Refusal('not_found', 'there is nothing at this path'))
    return problemResponse(new Refusal('not_allowed', `this path allows only ${allow}`), { Allow: allow })
  }
}

/** Reads at most `max` bytes: checks the declared length before reading and counts the bytes in any case. */
export async function readBodyBytes(request: Request, max: number = BODY_MAX): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length')) > max) tooLarge(max)
  const reader = request.body?.getReader()
  const collected = new GrowingBuffer()
  let length = 0
  while (reader) {
    const { done, value } = await reader.read().catch(refuseIncompleteBody)
    if (done) break
    length += value.byteLength
    if (length <= max) collected.append(value)
    // Keep reading beyond the limit: closing early would reset the connection before the client reads the response.
    if (length > max + DROPPED_MAX) await reader.cancel().catch(() => {})
  }
  if (length > max) tooLarge(max)
  return collected.bytes
}

function refuseIncompleteBody(): never {
  refuse('invalid', 'request body ended early')
}

function tooLarge(max: number): never {
  refuse('too_large', `the body is larger than ${max} bytes`)
}

/**
 * Parses the body as JSON; undefined if it is empty. A byte order mark is refused. Of duplicate members the last counts,
 * as everywhere in JavaScript; no other parser reads this body.
 */
async function readJson(request: Request, max: number = BODY_MAX): Promise<unknown> {
  const bytes = await readBodyBytes(request, max)
  if (bytes.byteLength === 0) return undefined
  const fault = typeFault(request.headers.get('content-type'))
  if (fault) refuse('wrong_type', fault, 'send Content-Type: application/json')
  return parseJson(utf8(bytes))
}

/** Like `readJson`, for a body that must be an object; an empty body is an empty object. */
export async function readJsonObject(request: Request, max: number = BODY_MAX): Promise<Record<string, unknown>> {
  const value = await readJson(request, max)
  if (value === undefined) return {}
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse('invalid', 'the body must be a JSON object')
  return Object.fromEntries(Object.entries(value))
}

function typeFault(header: string | null): string | undefined {
  const { type, charset } = contentType(header ?? '')
  if (type !== 'application/json') return 'the body must be JSON'
  return charset === 'utf-8' ? undefined : `the body must be in UTF-8, not in ${charset}`
}

/** Media type and charset of a Content-Type, in lower case. */
export function contentType(header: string): { readonly type: string; readonly charset: string } {
  const [type = '', ...parameters] = header.toLowerCase().split(';')
  const charset = parameters.map((text) => /^charset\s*=\s*"?([^"\s]*)"?$/.exec(text.trim())?.[1]).find(Boolean)
  return { type: type.trim(), charset: charset === undefined || charset === 'utf8' ? 'utf-8' : charset }
}

/** Refuses bytes that are not UTF-8. */
export function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return refuse('invalid', 'the body is not UTF-8')
  }
}
