// One request of the admin listener, judged in this order: path, method, where it comes from, secret, kind of body, body.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { BODY_MAX, contentType, type Problem, problemOf, utf8 } from '../../lib/http.ts'
import { parseJson } from '../../lib/json.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parseHostHeader } from '../host-port.ts'
import { showsSecret } from './bearer.ts'
import { repeatedMember } from './repeated-member.ts'
import { type AdminParts, type Answer, ROUTES, type Route } from './routes.ts'

/** Told of what nobody refused on purpose. */
export type OnFault = (incident: string, error: unknown) => void

/** Answers in any case, and never throws. */
export async function answerRequest(
  request: IncomingMessage,
  response: ServerResponse,
  parts: AdminParts,
  onFault: OnFault,
): Promise<void> {
  try {
    const route = routeOf(request)
    send(response, await run(route, request, parts))
  } catch (error) {
    if (error instanceof Refusal) return sendRefusal(response, error, allowOf(request))
    const incident = randomUUID()
    onFault(incident, error)
    const detail = `something went wrong here; the log knows it as ${incident}`
    const title = 'Internal error'
    const problem = { type: 'urn:problem:internal', title, status: 500, detail, code: 'internal', incident } as const
    sendProblem(response, problem, {})
  }
}

function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? ''
}

/** What a path takes, as a 405 says it. */
function allowOf(request: IncomingMessage): string {
  return ROUTES.get(pathOf(request))?.method === 'POST' ? 'POST' : 'GET, HEAD'
}

function routeOf(request: IncomingMessage): Route {
  const route = ROUTES.get(pathOf(request)) ?? refuse('not_found', 'there is nothing at this path')
  const method = request.method === 'HEAD' ? 'GET' : request.method
  if (method !== route.method) refuse('not_allowed', `this path takes ${allowOf(request)}`)
  return route
}

async function run(route: Route, request: IncomingMessage, parts: AdminParts): Promise<Answer> {
  // A page in some browser must not reach what only this machine is meant to.
  if (request.headers.origin !== undefined) refuse('forbidden', 'this is not for web pages: the request has an Origin')
  const isKnown = parts.secret ? showsSecret(request.rawHeaders, parts.secret) : false
  if (!isKnown) mustBeAskedHere(request, parts.hosts ?? [])
  if (route.method === 'GET') return route.answer(parts)
  if (parts.secret && !isKnown) {
    refuse('unauthenticated', 'this needs the secret of the proxy', 'send Authorization: Bearer <secret>')
  }
  const { type, charset } = contentType(request.headers['content-type'] ?? '')
  if (type !== 'application/json' || charset !== 'utf-8') {
    refuse('wrong_type', 'the body must be JSON in UTF-8', 'send Content-Type: application/json')
  }
  return route.answer(parts, bodyOf(utf8(await readBody(request))))
}

/** Of a name that somebody else chose. */
const SHOWN_MAX = 64

/**
 * The owner of a domain can let its name resolve to this machine (DNS rebinding). A web page from that domain then reads the
 * answers, and its requests have no Origin. No stranger owns an address, or a name without a dot.
 */
function mustBeAskedHere({ headers: { host: text } }: IncomingMessage, known: readonly string[]): void {
  if (text === undefined) return
  const host = parseHostHeader(text)?.host
  if (host?.kind === 'address') return
  if (host && (!host.text.includes('.') || host.text.endsWith('.localhost') || known.includes(host.text))) return
  refuse(
    'forbidden',
    `the admin listener is not asked by the host ${JSON.stringify(text.slice(0, SHOWN_MAX))}`,
    'ask it by an address or localhost, show the secret, or list the host name in EGRESS_ADMIN_HOSTS',
  )
}

function bodyOf(text: string): unknown {
  const body = parseJson(text)
  const name = repeatedMember(text)
  if (name === undefined) return body
  return refuse('invalid', `${JSON.stringify(name.slice(0, SHOWN_MAX))} is given twice`)
}

/** At most a mebibyte; the rest of a larger one is left to Node, which drops it until the time of the request is over. */
async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  const tooLarge = new Refusal('too_large', `the body is larger than ${BODY_MAX} bytes`)
  if (Number(request.headers['content-length']) > BODY_MAX) throw tooLarge
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  request.on('data', (chunk: Buffer) => {
    length += chunk.length
    if (length <= BODY_MAX) chunks.push(chunk)
    else reject(tooLarge)
  })
  request.on('end', () => resolve(Buffer.concat(chunks)))
  // Nobody is there any more to read the answer, but the wait has to end.
  request.on('close', () => reject(new Refusal('invalid', 'the body broke off')))
  return promise
}

const NO_STORE = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

function send(response: ServerResponse, { status, type = 'application/json', text }: Answer): void {
  const headers = { ...NO_STORE, 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, headers).end(text)
}

function sendRefusal(response: ServerResponse, refusal: Refusal, allow: string): void {
  const { problem, headers } = problemOf(refusal)
  sendProblem(response, problem, refusal.code === 'not_allowed' ? { ...headers, Allow: allow } : headers)
}

function sendProblem(response: ServerResponse, problem: Problem, headers: Record<string, string>): void {
  const text = `${JSON.stringify(problem)}\n`
  const own = { ...NO_STORE, 'Content-Type': 'application/problem+json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(problem.status, { ...own, ...headers }).end(text)
}
