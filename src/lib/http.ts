// The border to HTTP: every "no" as one problem document (RFC 9457), and bodies that are read under a cap.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Context, ErrorHandler, Hono, NotFoundHandler } from 'hono'
import { z } from 'zod'
import { parseJson } from './json.ts'
import { publicRefusal, REFUSALS, Refusal, type RefusalCode, refuse } from './refusal.ts'

export const BODY_MAX = 1_048_576
/** How much of a body that is too large is read all the same, and dropped. */
const DROPPED_MAX = 16 * BODY_MAX
const DETAIL_MAX = 2_000

// From a table of our own, so the keys are exactly the codes; Object.keys forgets that.
const CODES = Object.keys(REFUSALS) as RefusalCode[]

/** What an error says, on every path. `type` is urn:problem:<code>, so the list of types is the list of codes. */
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

/** How long to stay away when the one who refuses does not say. */
const RETRY_AFTER_S: Partial<Record<RefusalCode, number>> = { rate_limited: 1, unavailable: 5 }

/** A refusal as what an answer says. */
export function problemOf(refusal: Refusal): { problem: Problem; headers: Record<string, string> } {
  const { code, message, hint } = refusal
  const { http, title } = REFUSALS[code]
  const retry = RETRY_AFTER_S[code]
  // A refusal names every unknown member, and a body may hold a hundred thousand of them.
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

/** A refusal as an answer. `headers` are for what only the caller knows, such as the true Retry-After. */
export function problem(refusal: Refusal, headers: Record<string, string> = {}): Response {
  const { problem, headers: own } = problemOf(refusal)
  return respond(problem, { ...own, ...headers })
}

function respond(body: Problem, headers: Record<string, string>): Response {
  return new Response(JSON.stringify(body), {
    status: body.status,
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store', ...headers },
  })
}

/** Whether whoever asks is a browser that shows a page, by its Accept. */
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

/** Told of what nobody refused on purpose. The path is not passed: it may hold a token. */
export type LogIncident = (id: string, error: unknown, c: Context) => void

/**
 * For `app.onError`: refusals as they are, except to strangers, and anything else as an incident that only the log knows
 * more of.
 */
export function answerErrors(log: LogIncident, isStranger: (c: Context) => boolean = () => false): ErrorHandler {
  return (error, c) => {
    if (error instanceof Refusal) return problem(isStranger(c) ? publicRefusal(error) : error)
    const incident = randomUUID()
    log(incident, error, c)
    const detail = `something went wrong here; the log knows it as ${incident}`
    const title = 'Internal error'
    return respond({ type: 'urn:problem:internal', title, status: 500, detail, code: 'internal', incident }, {})
  }
}

/** The address of whoever is connected. */
export function addressOf({ socket }: IncomingMessage): string | undefined {
  const address = socket.remoteAddress
  return address?.startsWith('::ffff:') ? address.slice(7) : address
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** For `app.notFound`: 404, or 405 with what the path does allow. */
export function answerNotFound(app: Hono): NotFoundHandler {
  return (c) => {
    // Middleware stands under ALL; only a handler of this very method makes a path known.
    const routes = METHODS.flatMap((method) =>
      app.router.match(method, c.req.path)[0].flatMap(([[, route]]) => (route.method === method ? [route] : [])),
    )
    // A path that is named itself is no value of a parameter beside it: API descriptions read it so.
    const exact = routes.filter(({ path }) => path === c.req.path)
    const allow = [...new Set((exact.length > 0 ? exact : routes).map(({ method }) => method))].join(', ')
    if (allow === '') return problem(new Refusal('not_found', 'there is nothing at this path'))
    return problem(new Refusal('not_allowed', `this path takes ${allow}`), { Allow: allow })
  }
}

/** The body, at most `max` bytes: judged by its declared length before a byte is read, and by its bytes in any case. */
export async function readBytes(request: Request, max: number = BODY_MAX): Promise<Uint8Array> {
  const declared = request.headers.get('content-length')
  if (Number(declared) > max) tooLarge(max)
  // A server's parser holds a body to its declared length, so it is read in one go.
  const bytes = declared === null ? await readStream(request, max) : new Uint8Array(await whole(request))
  return bytes.byteLength > max ? tooLarge(max) : bytes
}

function whole(request: Request): Promise<ArrayBuffer> {
  return request.arrayBuffer().catch(brokeOff)
}

async function readStream(request: Request, max: number): Promise<Uint8Array> {
  const reader = request.body?.getReader()
  const chunks: Uint8Array[] = []
  let length = 0
  while (reader) {
    const { done, value } = await reader.read().catch(brokeOff)
    if (done) break
    length += value.byteLength
    if (length <= max) chunks.push(value)
    // Cut off at the cap, whoever is still sending would get a reset instead of the answer.
    if (length > max + DROPPED_MAX) await reader.cancel().catch(() => {})
  }
  if (length > max) tooLarge(max)
  return Buffer.concat(chunks, length)
}

function brokeOff(): never {
  refuse('invalid', 'the body broke off')
}

function tooLarge(max: number): never {
  refuse('too_large', `the body is larger than ${max} bytes`)
}

/**
 * The body as JSON; nothing when there is none. A byte order mark is no JSON. Of a member that is written twice the last
 * one counts, as everywhere in JavaScript; there is no second reader who could see the first.
 */
export async function readJson(request: Request, max: number = BODY_MAX): Promise<unknown> {
  const bytes = await readBytes(request, max)
  if (bytes.byteLength === 0) return undefined
  const fault = typeFault(request.headers.get('content-type'))
  if (fault) refuse('wrong_type', fault, 'send Content-Type: application/json')
  return parseJson(utf8(bytes))
}

/** `readJson` for what must be an object; no body is an empty one. */
export async function readMembers(request: Request, max: number = BODY_MAX): Promise<Record<string, unknown>> {
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

/** What a Content-Type says, in lower case. */
export function contentType(header: string): { readonly type: string; readonly charset: string } {
  const [type = '', ...parameters] = header.toLowerCase().split(';')
  const charset = parameters.map((text) => /^\s*charset\s*=\s*"?([^"\s]*)"?\s*$/.exec(text)?.[1]).find(Boolean)
  return { type: type.trim(), charset: charset === undefined || charset === 'utf8' ? 'utf-8' : charset }
}

/** Bytes as text; refused when they are no UTF-8. */
export function utf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return refuse('invalid', 'the body is not UTF-8')
  }
}
