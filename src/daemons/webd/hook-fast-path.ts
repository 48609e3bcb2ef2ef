// Handles simple hook posts (no signature, no key, a small body of known length) on the Node request, with one object and no
// promise for each: that takes 10 to 25 % less processor time per post at one link than `link-post.ts`, which handles all
// other posts. Every check is shared with it.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hashTokenToKey } from '../../core/links/link-token.ts'
import type { AppendResult } from '../../core/messages/link-inbound.ts'
import type { FaultHandler } from '../../lib/fault-boundary.ts'
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { TOKEN_LENGTH } from '../../lib/token-format.ts'
import type { Waiter } from '../../store/lanes/lane.ts'
import type { ConnectionOrigin, RawHandler } from '../http/raw-request.ts'
import { storableContentType } from './chat-body.ts'
import type { CachedLink } from './link-cache.ts'
import { countRefusal, createHookPost, type LinkPostContext, NO_LINK_RESPONSE, traceAccepted } from './link-post.ts'
import { chargeLink, refundLink } from './link-rate.ts'
import { LinkRequest, type LoggedRequest, type LogResponse, NO_CONTENT_HEAD, shortHash } from './link-request.ts'
import { NO_LINK } from './link-visitor.ts'

export interface HookFastPathContext extends LinkPostContext {
  readonly logResponse: LogResponse
  readonly nextId: () => string
  readonly refuse: (request: LinkRequest, error: unknown) => void
  readonly onFault: FaultHandler
  /** Handles requests that turn out not to be simple. */
  readonly slowPath: RawHandler
}

const TOKEN_AT = '/hook/'.length
const URL_LENGTH = TOKEN_AT + TOKEN_LENGTH
/** Larger bodies arrive in many chunks and count against the budget of all bodies. */
const SIMPLE_BODY_MAX = 65_536

export function openHookFastPath(context: HookFastPathContext): RawHandler {
  const { host, links, bodyMax } = context
  return (incoming, response, origin) => {
    const { url = '', method } = incoming
    if (method !== 'POST' || url.length !== URL_LENGTH || !url.startsWith('/hook/')) return false
    // The token needs no parsing: no link has the hash of a malformed one.
    const key = hashTokenToKey(url.slice(TOKEN_AT))
    const link = links.cached(key)
    if (link === undefined) {
      links.findWithWaiter(key, new UnknownLinkPost(context, key, { incoming, response, origin }))
      return true
    }
    if (link.source === undefined || link.verify || link.bucket.waitMs(host.clock.now()) > 0) return false
    const headers = readSimpleHeaders(incoming.rawHeaders, origin.isSocketAddress === true)
    if (!headers || headers.length > Math.min(SIMPLE_BODY_MAX, bodyMax())) return false
    new FastHookPost(context, link, { incoming, response, origin, ...headers }).read()
    return true
  }
}

interface RawExchange {
  readonly incoming: IncomingMessage
  readonly response: ServerResponse
  readonly origin: ConnectionOrigin
}

function createLinkRequest(
  { logResponse }: HookFastPathContext,
  { incoming, response, origin }: RawExchange,
  id: string,
  tokenHash: Uint8Array,
): LinkRequest {
  const token = (incoming.url ?? '').slice(TOKEN_AT)
  const path = { kind: 'hook', token, rest: undefined, query: '' } as const
  const request = new LinkRequest(incoming, response, { path, client: origin.client, id, logResponse })
  request.tokenHash = tokenHash
  return request
}

/** A post to a link that is not cached. Guessed tokens are refused here; a link that exists goes to the slow path. */
class UnknownLinkPost implements Waiter<CachedLink | undefined>, LoggedRequest {
  readonly incoming: IncomingMessage
  readonly client: string | undefined
  readonly caller = undefined
  readonly #context: HookFastPathContext
  readonly #key: string
  readonly #exchange: RawExchange
  id = ''
  started = 0

  constructor(context: HookFastPathContext, key: string, exchange: RawExchange) {
    this.#context = context
    this.#key = key
    this.#exchange = exchange
    this.incoming = exchange.incoming
    this.client = exchange.origin.client
  }

  get shownPath(): string {
    return `/hook/${shortHash(this.#key)}`
  }

  resolve(link: CachedLink | undefined): void {
    const { slowPath, logResponse } = this.#context
    const { incoming, response, origin } = this.#exchange
    if (link) {
      slowPath(incoming, response, origin)
      return
    }
    this.#begin()
    if (!isSimpleExchange(incoming, response)) return void this.#linkRequest().sendPrebuilt(NO_LINK_RESPONSE)
    const { head, body, status, refusal } = NO_LINK_RESPONSE
    head.write(response, this.id).end(body, 'latin1')
    logResponse(this, status, refusal.message)
  }

  reject(error: unknown): void {
    this.#begin()
    this.#context.refuse(this.#linkRequest(), error)
  }

  #begin(): void {
    this.id = this.#context.nextId()
    this.started = performance.now()
  }

  #linkRequest(): LinkRequest {
    return createLinkRequest(this.#context, this.#exchange, this.id, Buffer.from(this.#key, 'latin1'))
  }
}

/** Whether the request is complete and unanswered and does not ask for HTML. */
function isSimpleExchange(
  { complete, rawHeaders }: IncomingMessage,
  { headersSent, destroyed }: ServerResponse,
): boolean {
  if (!complete || headersSent || destroyed) return false
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (name.length === 6 && /^accept$/i.test(name) && rawHeaders[at + 1] !== '*/*') return false
  }
  return true
}

interface SimpleHeaders {
  readonly length: number
  readonly contentType: string | null
}

/** The Content-Length and Content-Type; undefined where a header needs the slow path. Names are compared by length first. */
function readSimpleHeaders(rawHeaders: readonly string[], isSocketAddress: boolean): SimpleHeaders | undefined {
  let length = -1
  let contentType: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    switch (name.length) {
      case 6:
      case 7:
      case 10:
      case 17:
        if (/^(expect|svix-id|webhook-id|transfer-encoding)$/i.test(name)) return undefined
        break
      case 15:
        if (/^idempotency-key$/i.test(name) || (isSocketAddress && /^x-forwarded-for$/i.test(name))) return undefined
        break
      case 14:
        if (/^content-length$/i.test(name)) length = Number(rawHeaders[at + 1])
        break
      case 12:
        if (contentType === null && /^content-type$/i.test(name)) contentType = storableContentType(rawHeaders[at + 1])
    }
  }
  return length >= 0 ? { length, contentType } : undefined
}

/** One simple hook post, from its headers to its response. */
class FastHookPost implements Waiter<AppendResult>, LoggedRequest {
  readonly incoming: IncomingMessage
  readonly client: string | undefined
  readonly id: string
  readonly started = performance.now()
  readonly caller = undefined
  readonly #context: HookFastPathContext
  readonly #link: CachedLink
  readonly #exchange: RawExchange & SimpleHeaders
  /** Of a body that arrives in several chunks. */
  #body: GrowingBuffer | undefined
  #isCharged = false
  #isAnswered = false

  constructor(context: HookFastPathContext, link: CachedLink, exchange: RawExchange & SimpleHeaders) {
    this.#context = context
    this.#link = link
    this.#exchange = exchange
    this.incoming = exchange.incoming
    this.client = exchange.origin.client
    this.id = context.nextId()
  }

  get shownPath(): string {
    return this.#link.hookPath
  }

  read(): void {
    const { incoming } = this
    const { length } = this.#exchange
    if (length === 0) {
      incoming.resume()
      return void this.#append(EMPTY_BODY)
    }
    // A body that ends early needs no handling: its client has disconnected.
    incoming.on('data', (chunk: Buffer) => {
      try {
        if (chunk.length === length) return this.#append(chunk)
        this.#body ??= new GrowingBuffer()
        this.#body.append(chunk)
        if (this.#body.length === length) this.#append(this.#body.bytes)
      } catch (error) {
        this.#fail(error)
      }
    })
  }

  #append(content: Uint8Array): void {
    const { host, lane } = this.#context
    const now = host.clock.now()
    try {
      chargeLink(this.#link, content.byteLength, now)
    } catch (error) {
      return void this.reject(error)
    }
    this.#isCharged = true
    const message = { content, topic: null, content_type: this.#exchange.contentType }
    lane.pushFor(createHookPost(this.#link, this.id, message, now), this)
  }

  resolve(result: AppendResult): void {
    const { host, links, logResponse } = this.#context
    const { response } = this.#exchange
    if (result !== 'appended') return void this.reject(NO_LINK)
    this.#isCharged = false
    links.countAccepted(this.#link)
    if (host.tracer) traceAccepted(host, { started: this.started, path: HOOK_PATH }, this.#link, this.id)
    // The lane may have timed out and rejected before.
    if (this.#isAnswered || response.destroyed) return
    this.#isAnswered = true
    NO_CONTENT_HEAD.write(response, this.id).end()
    logResponse(this, 204, undefined)
  }

  reject(error: unknown): void {
    if (this.#isAnswered) return
    this.#isAnswered = true
    if (this.#isCharged) refundLink(this.#link, this.#exchange.length)
    this.#isCharged = false
    const request = createLinkRequest(this.#context, this.#exchange, this.id, this.#link.hash)
    countRefusal(this.#context, this.#link, error)
      .then((reported) => this.#context.refuse(request, reported))
      .catch((next) => this.#fail(next))
  }

  #fail(error: unknown): void {
    this.#context.onFault(error)
    this.#exchange.response.destroy()
  }
}

const EMPTY_BODY = new Uint8Array()
const HOOK_PATH = { kind: 'hook' } as const
