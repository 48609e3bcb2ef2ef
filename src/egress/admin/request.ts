// Handles one admin request; checks in this order: path, method, origin, secret, content type, body.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { guard } from '../../lib/fault-boundary.ts'
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { BODY_MAX, contentType, type Problem, problemOf, utf8 } from '../../lib/http/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import { parseHostHeader } from '../address/host-port.ts'
import { hasValidBearer } from './bearer.ts'
import { findDuplicateKey } from './duplicate-key.ts'
import { ADMIN_ROUTES, type AdminContext, type AdminResponse, type AdminRoute } from './routes.ts'

/** Receives unexpected errors. */
export type OnInternalError = (incident: string, error: unknown) => void

/** Always answers, never throws. */
export async function handleAdminRequest(
  request: IncomingMessage,
  response: ServerResponse,
  context: AdminContext,
  onInternalError: OnInternalError,
): Promise<void> {
  try {
    const route = routeOf(request)
    send(response, await run(route, request, context))
  } catch (error) {
    if (error instanceof Refusal) return sendRefusal(response, error, allowOf(request))
    const incident = randomUUID()
    onInternalError(incident, error)
    const detail = `internal error; the log has the details under ${incident}`
    const title = 'Internal error'
    const problem = { type: 'urn:problem:internal', title, status: 500, detail, code: 'internal', incident } as const
    sendProblem(response, problem, {})
  }
}

function pathOf({ url = '' }: IncomingMessage): string {
  return url.split('?', 1)[0] ?? ''
}

/** The Allow header of a 405. */
function allowOf(request: IncomingMessage): string {
  return ADMIN_ROUTES.get(pathOf(request))?.method === 'POST' ? 'POST' : 'GET, HEAD'
}

function routeOf(request: IncomingMessage): AdminRoute {
  const route = ADMIN_ROUTES.get(pathOf(request)) ?? refuse('not_found', 'there is nothing at this path')
  const method = request.method === 'HEAD' ? 'GET' : request.method
  if (method !== route.method) refuse('not_allowed', `this path allows only ${allowOf(request)}`)
  return route
}

async function run(route: AdminRoute, request: IncomingMessage, context: AdminContext): Promise<AdminResponse> {
  // A web page in a browser on this machine must not reach the listener.
  if (request.headers.origin !== undefined)
    refuse('forbidden', 'requests with an Origin header, which web pages send, are refused')
  const hasSecret = context.secret ? hasValidBearer(request.rawHeaders, context.secret) : false
  if (!hasSecret) checkHost(request, context.hosts ?? [])
  if (route.method === 'GET') return route.answer(context)
  if (context.secret && !hasSecret) {
    refuse('unauthenticated', 'this needs the secret of the proxy', 'send Authorization: Bearer <secret>')
  }
  const { type, charset } = contentType(request.headers['content-type'] ?? '')
  if (type !== 'application/json' || charset !== 'utf-8') {
    refuse('wrong_type', 'the body must be JSON in UTF-8', 'send Content-Type: application/json')
  }
  return route.answer(context, bodyOf(utf8(await readBody(request))))
}

/** For names that the client chose. */
const SHOWN_MAX = 64

/**
 * With DNS rebinding the owner of a domain points its name at this machine; a web page from there reads the responses, and its
 * requests have no Origin. An address or a name without a dot cannot be rebound.
 */
function checkHost({ headers: { host: text } }: IncomingMessage, known: readonly string[]): void {
  if (text === undefined) return
  const host = parseHostHeader(text)?.host
  if (host?.kind === 'address') return
  if (host && (!host.text.includes('.') || host.text.endsWith('.localhost') || known.includes(host.text))) return
  refuse(
    'forbidden',
    `the admin listener does not accept the host ${JSON.stringify(text.slice(0, SHOWN_MAX))}`,
    'use an address or localhost, send the secret, or list the host name in EGRESS_ADMIN_HOSTS',
  )
}

function bodyOf(text: string): unknown {
  const body = parseJson(text)
  const name = findDuplicateKey(text)
  if (name === undefined) return body
  return refuse('invalid', `${JSON.stringify(name.slice(0, SHOWN_MAX))} is given twice`)
}

/** At most 1 MiB; Node discards the rest of a larger body until the request times out. */
async function readBody(request: IncomingMessage): Promise<Buffer> {
  const body = new GrowingBuffer()
  const tooLarge = new Refusal('too_large', `the body is larger than ${BODY_MAX} bytes`)
  if (Number(request.headers['content-length']) > BODY_MAX) throw tooLarge
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const take = (chunk: Buffer): void => {
    if (body.length + chunk.length <= BODY_MAX) body.append(chunk)
    else reject(tooLarge)
  }
  request.on('data', guard(reject, take))
  request.on('end', () => resolve(body.bytes))
  // The client is gone, but the promise must settle.
  request.on('close', () => reject(new Refusal('invalid', 'request body ended early')))
  return promise
}

const NO_STORE = { 'Cache-Control': 'no-store', 'X-Content-Type-Options': 'nosniff' }

function send(response: ServerResponse, { status, type = 'application/json', text }: AdminResponse): void {
  const headers = { ...NO_STORE, 'Content-Type': type, 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(status, headers).end(text)
}

function sendRefusal(response: ServerResponse, refusal: Refusal, allow: string): void {
  const { problem, headers } = problemOf(refusal)
  sendProblem(response, problem, refusal.code === 'not_allowed' ? { ...headers, Allow: allow } : headers)
}

function sendProblem(response: ServerResponse, problem: Problem, headers: Record<string, string>): void {
  const text = `${JSON.stringify(problem)}\n`
  const base = { ...NO_STORE, 'Content-Type': 'application/problem+json', 'Content-Length': Buffer.byteLength(text) }
  response.writeHead(problem.status, { ...base, ...headers }).end(text)
}
