// One request at a link: who asks, and how it is answered. Every answer leaves through here, so that each has its
// headers, its count and its log line, and none holds the token.
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { prefersHtml, problemOf } from '../../lib/http.ts'
import { withoutTokens } from '../../lib/log.ts'
import { publicRefusal, Refusal } from '../../lib/refusal.ts'
import { type Page, problemPage } from '../../web/chat/page.ts'
import type { LinkPath } from './link-path.ts'

/** What is recorded of a request. */
export type Recorded = Pick<Visit, 'request' | 'shownPath' | 'started' | 'id' | 'client' | 'caller'>

/** Told of each answer when its head is out. */
export type Record = (visit: Recorded, status: number, reason: string | undefined) => void

const ALLOWED_HEADERS =
  'Content-Type, Accept, Authorization, Last-Event-ID, Idempotency-Key, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, webhook-id, webhook-timestamp, webhook-signature'
const TOKEN_LENGTH = 43
const EXPOSED_HEADERS = 'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, Mcp-Session-Id'

/** What an answer to a browser or a program at a link always says (decision L15). */
const GUARDED: Readonly<{ [name: string]: string }> = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Robots-Tag': 'noindex',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
}

/** Pages of every site may read an answer. */
const FOR_ALL_SITES: Readonly<{ [name: string]: string }> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': EXPOSED_HEADERS,
}

/** A link is no account: a 401 has a title that says what is wrong with the link. */
export class LinkRefusal extends Refusal {
  readonly title: string

  constructor(title: string, message: string, hint?: string) {
    super('unauthenticated', message, hint)
    this.title = title
  }
}

function linkProblem(refusal: Refusal): ReturnType<typeof problemOf> {
  const { problem, headers } = problemOf(refusal)
  return { problem: refusal instanceof LinkRefusal ? { ...problem, title: refusal.title } : problem, headers }
}

/** A refusal that strangers get by the thousand, put together once. */
export interface Standing {
  readonly refusal: Refusal
  readonly status: number
  readonly head: readonly string[]
  /** Of plain letters: Node sends it in one piece with the head. */
  readonly body: string
}

export function standing(refusal: Refusal): Standing {
  const { problem, headers } = linkProblem(refusal)
  const body = JSON.stringify(problem)
  const all = {
    ...GUARDED,
    ...FOR_ALL_SITES,
    ...headers,
    'Content-Type': 'application/problem+json',
    'Content-Length': String(body.length),
  }
  return { refusal, status: problem.status, head: Object.entries(all).flat(), body }
}

export class Visit {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: LinkPath
  readonly client: string | undefined
  /** Of the request; also of the message that it appends. */
  readonly id: string
  readonly started = performance.now()
  readonly #record: Record
  /** The hash of the token, where there is one that could be. */
  link: Uint8Array | undefined
  /** Who the sender proved to be, for the log. */
  caller: string | undefined
  #readers = FOR_ALL_SITES

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    about: { path: LinkPath; client: string | undefined; id: string; record: Record },
  ) {
    this.request = request
    this.response = response
    this.path = about.path
    this.client = about.client
    this.id = about.id
    this.#record = about.record
  }

  get isAnswered(): boolean {
    return this.response.headersSent || this.response.destroyed
  }

  /** The path as it may be written down (decision L15). */
  get shownPath(): string {
    const { place, token, rest } = this.path
    const shown = this.link ? hex8(this.link) : token === '' ? '' : hash('sha256', token, 'hex').slice(0, 8)
    if (rest === undefined) return `/${place}/${shown}`
    // A token may stand where none belongs, as in "/chat//<token>".
    return rest.length < TOKEN_LENGTH ? `/${place}/${shown}/${rest}` : withoutTokens(`/${place}/${token}/${rest}`)
  }

  /** From now on, answers are for pages of this origin, or for none. */
  readableBy(origin: string | undefined): void {
    this.#readers = {
      ...(origin === undefined ? {} : { ...FOR_ALL_SITES, 'Access-Control-Allow-Origin': origin }),
      Vary: 'Origin',
    }
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name]
    return typeof value === 'string' ? value : value?.join(', ')
  }

  /** An acknowledgement without a body, which machines read by the thousand. */
  acknowledge(): void {
    this.response.writeHead(204, ['Access-Control-Allow-Origin', '*', 'X-Request-Id', this.id]).end()
    this.#record(this, 204, undefined)
  }

  json(status: number, body: unknown, headers: { [name: string]: string } = {}): void {
    this.#send(status, { 'Content-Type': 'application/json', ...headers }, JSON.stringify(body))
  }

  page({ status, headers, body }: Page): void {
    this.#send(status, headers, body)
  }

  bytes(status: number, headers: Readonly<{ [name: string]: string }>, body: Uint8Array | undefined): void {
    this.#send(status, headers, body)
  }

  empty(status: number, headers: { [name: string]: string } = {}): void {
    this.#send(status, headers, undefined)
  }

  preflight(methods: string): void {
    this.empty(204, {
      'Access-Control-Allow-Methods': methods,
      'Access-Control-Allow-Headers': ALLOWED_HEADERS,
      'Access-Control-Max-Age': '86400',
    })
  }

  /** The head of an answer that goes on; the caller writes the rest. */
  open(headers: { [name: string]: string }, status = 200): void {
    this.response.writeHead(status, { ...GUARDED, ...this.#readers, 'X-Request-Id': this.id, ...headers })
    this.response.flushHeaders()
    this.#record(this, status, undefined)
  }

  /** For whoever has written the head himself. */
  noted(status: number): void {
    this.#record(this, status, undefined)
  }

  refuse(refusal: Refusal, headers: { [name: string]: string } = {}): void {
    if (this.isAnswered) return
    const { problem, headers: own } = linkProblem(publicRefusal(refusal))
    const all = { ...own, ...headers }
    // What is left of a body is not worth waiting for when it is large or slow.
    if (!this.request.complete) all.Connection = 'close'
    if (prefersHtml(this.header('accept'))) {
      const retryAfter = all['Retry-After'] === undefined ? undefined : Number(all['Retry-After'])
      const page = problemPage({ ...problem, retryAfter })
      this.#send(page.status, { ...all, ...page.headers }, page.body, refusal.message)
    } else
      this.#send(
        problem.status,
        { 'Content-Type': 'application/problem+json', ...all },
        JSON.stringify(problem),
        refusal.message,
      )
  }

  turnAway({ refusal, status, head, body }: Standing): void {
    const { request, response } = this
    const { accept } = request.headers
    if (!request.complete || this.isAnswered || (accept !== undefined && prefersHtml(accept)))
      return void this.refuse(refusal)
    response.writeHead(status, [...head, 'X-Request-Id', this.id])
    response.end(request.method === 'HEAD' ? undefined : body, 'latin1')
    this.#record(this, status, refusal.message)
  }

  /** Something went wrong here; the log knows it by the id of the request. */
  fail(): void {
    if (this.isAnswered) return void this.response.destroy()
    const detail = `something went wrong here; the log knows it as ${this.id}`
    const problem = {
      type: 'urn:problem:internal',
      title: 'Internal error',
      status: 500,
      detail,
      code: 'internal',
      incident: this.id,
    }
    this.#send(500, { 'Content-Type': 'application/problem+json' }, JSON.stringify(problem))
  }

  #send(
    status: number,
    headers: Readonly<{ [name: string]: string }>,
    body: string | Uint8Array | undefined,
    reason?: string,
  ): void {
    const { response } = this
    if (this.isAnswered) return
    const length: { [name: string]: string } =
      body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
    response.writeHead(status, { ...GUARDED, ...this.#readers, 'X-Request-Id': this.id, ...headers, ...length })
    response.end(this.request.method === 'HEAD' ? undefined : body)
    this.#record(this, status, reason)
  }
}

/** The first 8 hex digits of a token's hash: what a link is called where its token must not stand. */
export function hex8(bytes: Uint8Array): string {
  const start = ((bytes[0] ?? 0) << 24) | ((bytes[1] ?? 0) << 16) | ((bytes[2] ?? 0) << 8) | (bytes[3] ?? 0)
  return (start >>> 0).toString(16).padStart(8, '0')
}
