// One HTTP exchange at a link. Every response is sent here, so that each has its security headers, its metrics and its log
// line, and none contains the token.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CachedResponseHead } from '../../lib/http/cached-response-head.ts'
import { preferredLanguages } from '../../lib/http/content-negotiation.ts'
import { type Problem, prefersHtml, problemOf } from '../../lib/http/http.ts'
import { redactPath } from '../../lib/log/log.ts'
import { digestOf } from '../../lib/log/redact.ts'
import { publicRefusal, Refusal } from '../../lib/refusal.ts'
import { TOKEN_LENGTH } from '../../lib/token-format.ts'
import { type HtmlPage, linkProblemPage } from '../../web/chat/page.ts'
import type { Texts } from '../../web/texts/en.ts'
import { chooseTexts } from '../../web/texts/texts.ts'
import { joinedHeader } from '../http/trusted-proxies.ts'
import type { LinkPath } from './link-path.ts'

export type LoggedRequest = Pick<LinkRequest, 'incoming' | 'shownPath' | 'started' | 'id' | 'client' | 'caller'>

/** Called when the headers of a response are sent. */
export type LogResponse = (request: LoggedRequest, status: number, reason: string | undefined) => void

const ALLOWED_HEADERS =
  'Content-Type, Accept, Authorization, Last-Event-ID, Idempotency-Key, X-Visitor, Range, If-Range, If-None-Match, Mcp-Session-Id, MCP-Protocol-Version, Mcp-Method, Mcp-Name, webhook-id, webhook-timestamp, webhook-signature, svix-id, svix-timestamp, svix-signature'
const EXPOSED_HEADERS =
  'Retry-After, RateLimit, RateLimit-Policy, X-Request-Id, X-Visitor, X-Topic, X-Should-Retry, Content-Disposition, Content-Range, ETag, Mcp-Session-Id'

/** See docs/decisions.md#tokens-stay-secret. */
const SECURITY_HEADERS: Readonly<{ [name: string]: string }> = {
  'Cache-Control': 'no-store',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'X-Robots-Tag': 'noindex',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
}

const CORS_ANY_ORIGIN: Readonly<{ [name: string]: string }> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Expose-Headers': EXPOSED_HEADERS,
}

/** Sent for every accepted hook post, so Node builds it only once a second. */
export const NO_CONTENT_HEAD = new CachedResponseHead(204, ['Access-Control-Allow-Origin', '*'])

/** The body of an error. */
export type ProblemFormat = (problem: Problem, refusal?: Refusal) => object

/** A 401 at a link, whose title names the fault of the link instead of "Not signed in". */
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

/** A refusal that is sent often (to clients that guess tokens), serialized once. */
export interface PrebuiltResponse {
  readonly refusal: Refusal
  readonly status: number
  readonly head: CachedResponseHead
  /** ASCII, so that Node sends it in one write with the headers. */
  readonly body: string
}

export function prebuiltResponse(refusal: Refusal): PrebuiltResponse {
  const { problem, headers } = linkProblem(refusal)
  const body = JSON.stringify(problem)
  const allHeaders = {
    ...SECURITY_HEADERS,
    ...CORS_ANY_ORIGIN,
    ...headers,
    'Content-Type': 'application/problem+json',
    'Content-Length': String(body.length),
  }
  const { status } = problem
  return { refusal, status, head: new CachedResponseHead(status, Object.entries(allHeaders).flat()), body }
}

export class LinkRequest {
  readonly incoming: IncomingMessage
  readonly response: ServerResponse
  readonly path: LinkPath
  readonly client: string | undefined
  /** Request id, also the id of the message that the request appends. */
  readonly id: string
  readonly started = performance.now()
  readonly #log: LogResponse
  /** Unset while the URL is not known to contain a well-formed token. */
  tokenHash: Uint8Array | undefined
  /** Authenticated principal, for the log. */
  caller: string | undefined
  #corsHeaders = CORS_ANY_ORIGIN
  #formatProblem: ProblemFormat | undefined

  constructor(
    incoming: IncomingMessage,
    response: ServerResponse,
    options: { path: LinkPath; client: string | undefined; id: string; logResponse: LogResponse },
  ) {
    this.incoming = incoming
    this.response = response
    this.path = options.path
    this.client = options.client
    this.id = options.id
    this.#log = options.logResponse
  }

  get isAnswered(): boolean {
    return this.response.headersSent || this.response.destroyed
  }

  /** The path for the log, with a short hash instead of the token. */
  get shownPath(): string {
    const { kind, token, rest } = this.path
    if (kind === 'openai') return redactPath(`/openai/${rest}`)
    const shown = this.tokenHash ? shortHash(this.tokenHash) : token === '' ? '' : digestOf(token)
    if (rest === undefined) return `/${kind}/${shown}`
    // The rest may contain a token too, as in "/chat//<token>".
    return rest.length < TOKEN_LENGTH ? `/${kind}/${shown}/${rest}` : redactPath(`/${kind}/${token}/${rest}`)
  }

  /** Sends errors as another protocol has them. */
  formatProblems(format: ProblemFormat): void {
    this.#formatProblem = format
  }

  /** Restricts responses to pages of this origin; undefined allows none. */
  allowOrigin(origin: string | undefined): void {
    this.#corsHeaders = {
      ...(origin === undefined ? {} : { ...CORS_ANY_ORIGIN, 'Access-Control-Allow-Origin': origin }),
      Vary: 'Origin',
    }
  }

  header(name: string): string | undefined {
    return joinedHeader(this.incoming, name)
  }

  /** For the page: in the language that the URL names, or else in one that the browser prefers. */
  get texts(): Texts {
    const named = new URLSearchParams(this.path.query).getAll('lang')
    return chooseTexts([...named, ...preferredLanguages(this.header('accept-language'))])
  }

  acknowledge(): void {
    NO_CONTENT_HEAD.write(this.response, this.id).end()
    this.#log(this, 204, undefined)
  }

  sendJson(status: number, body: unknown, headers: { [name: string]: string } = {}): void {
    this.#send(status, { 'Content-Type': 'application/json', ...headers }, JSON.stringify(body))
  }

  sendPage({ status, headers, body }: HtmlPage): void {
    this.#send(status, headers, body)
  }

  sendBytes(status: number, headers: Readonly<{ [name: string]: string }>, body: Uint8Array | undefined): void {
    this.#send(status, headers, body)
  }

  sendEmpty(status: number, headers: { [name: string]: string } = {}): void {
    this.#send(status, headers, undefined)
  }

  /** `headers`: all that a client asks for, instead of those that links know. */
  sendPreflight(methods: string, headers = ALLOWED_HEADERS): void {
    this.sendEmpty(204, {
      'Access-Control-Allow-Methods': methods,
      'Access-Control-Allow-Headers': headers,
      'Access-Control-Max-Age': '86400',
    })
  }

  /** Sends the headers; the caller writes the body. */
  startStream(headers: { [name: string]: string }, status = 200): void {
    this.response.writeHead(status, { ...SECURITY_HEADERS, ...this.#corsHeaders, 'X-Request-Id': this.id, ...headers })
    this.response.flushHeaders()
    this.#log(this, status, undefined)
  }

  /** For a response that was not sent through this object. */
  logResponse(status: number): void {
    this.#log(this, status, undefined)
  }

  refuse(refusal: Refusal, headers: { [name: string]: string } = {}): void {
    if (this.isAnswered) return
    const { problem, headers: problemHeaders } = linkProblem(publicRefusal(refusal))
    const all = { ...problemHeaders, ...headers }
    // The rest of the body may be large or slow: do not wait for it.
    if (!this.incoming.complete) all.Connection = 'close'
    if (this.#formatProblem) {
      const type = { 'Content-Type': 'application/json' }
      const body = JSON.stringify(this.#formatProblem(problem, refusal))
      this.#send(problem.status, { ...type, ...all }, body, refusal.message)
    } else if (prefersHtml(this.header('accept'))) {
      const retryAfter = all['Retry-After'] === undefined ? undefined : Number(all['Retry-After'])
      const page = linkProblemPage({ ...problem, retryAfter, texts: this.texts })
      this.#send(page.status, { ...all, ...page.headers }, page.body, refusal.message)
    } else
      this.#send(
        problem.status,
        { 'Content-Type': 'application/problem+json', ...all },
        JSON.stringify(problem),
        refusal.message,
      )
  }

  sendPrebuilt({ refusal, status, head, body }: PrebuiltResponse): void {
    const { incoming, response } = this
    if (!incoming.complete || this.isAnswered || this.#formatProblem || prefersHtml(incoming.headers.accept))
      return void this.refuse(refusal)
    head.write(response, this.id).end(incoming.method === 'HEAD' ? undefined : body, 'latin1')
    this.#log(this, status, refusal.message)
  }

  sendInternalError(): void {
    if (this.isAnswered) return void this.response.destroy()
    const problem: Problem = {
      type: 'urn:problem:internal',
      title: 'Internal error',
      status: 500,
      detail: `internal error; report it with this id: ${this.id}`,
      code: 'internal',
      incident: this.id,
    }
    if (this.#formatProblem) this.sendJson(500, this.#formatProblem(problem))
    else this.#send(500, { 'Content-Type': 'application/problem+json' }, JSON.stringify(problem))
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
    response.writeHead(status, {
      ...SECURITY_HEADERS,
      ...this.#corsHeaders,
      'X-Request-Id': this.id,
      ...headers,
      ...length,
    })
    response.end(this.incoming.method === 'HEAD' ? undefined : body)
    this.#log(this, status, reason)
  }
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** The first 8 hex digits of a token's hash (bytes or latin1): identifies a link in logs, where its token must not appear. */
export function shortHash(hash: Uint8Array | string): string {
  let digits = ''
  for (let at = 0; at < 4; at++) digits += HEX[typeof hash === 'string' ? hash.charCodeAt(at) : (hash[at] ?? 0)]
  return digits
}
