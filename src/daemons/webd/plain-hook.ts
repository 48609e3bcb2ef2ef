// The plain hook post, which machines send by the thousand: no promise, and next to nothing is made for it. Whatever is not
// plain about a request is left to `post.ts`, which does the same in more words.
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Post, Verdict } from '../../core/ingest.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Waiter } from '../../store/lane.ts'
import type { Direct, Way } from '../direct.ts'
import { keptType } from './chat-body.ts'
import type { Link } from './link-book.ts'
import { NO_LINK, noted, type PostOffice, RateRefusal, TURNED_AWAY } from './post.ts'
import { type Record, type Recorded, Visit } from './visit.ts'

export interface HookOffice extends PostOffice {
  readonly record: Record
  readonly nextId: () => string
  readonly refuse: (visit: Visit, error: unknown) => void
  /** The long way, for what turns out not to be plain. */
  readonly long: Direct
}

const TOKEN_AT = '/hook/'.length
const URL_LENGTH = TOKEN_AT + 43
/** More comes in pieces, and is counted against the budget of all bodies. */
const PLAIN_MAX = 65_536

export function openPlainHooks(office: HookOffice): Direct {
  const { host, book, bodyMax } = office
  const most = Math.min(PLAIN_MAX, bodyMax)
  return (request, response, way) => {
    const { url = '', method } = request
    const { client, isPeer } = way
    if (method !== 'POST' || url.length !== URL_LENGTH || !url.startsWith('/hook/')) return false
    // A text that is no token is no link's.
    const key = hash('sha256', url.slice(TOKEN_AT), 'latin1')
    const link = book.known(key)
    if (link === undefined) {
      void lookUp(office, key, { request, response, way })
      return true
    }
    if (link.source === undefined || link.verify || link.bucket.waitMs(host.clock.now()) > 0) return false
    const head = plainHead(request.rawHeaders, isPeer === true)
    if (!head || head.length > most) return false
    new PlainHook(office, { request, response, link, client, ...head }).read()
    return true
  }
}

interface Visited {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly client: string | undefined
  readonly id: string
  readonly hash: Uint8Array
}

function visitOf({ record }: HookOffice, { request, response, client, id, hash }: Visited): Visit {
  const token = (request.url ?? '').slice(TOKEN_AT)
  const visit = new Visit(request, response, {
    path: { place: 'hook', token, rest: undefined, query: '' },
    client,
    id,
    record,
  })
  visit.link = hash
  return visit
}

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly way: Way
}

/** Strangers try tokens by the thousand; a link that is there goes on, and is known from then on. */
async function lookUp(office: HookOffice, key: string, { request, response, way }: Asked): Promise<void> {
  const { book, nextId, refuse, long } = office
  const token_hash = Buffer.from(key, 'latin1')
  const visit = (): Visit => visitOf(office, { request, response, client: way.client, id: nextId(), hash: token_hash })
  try {
    if (await book.find(token_hash, key)) long(request, response, way)
    else visit().turnAway(TURNED_AWAY)
  } catch (error) {
    refuse(visit(), error)
  }
}

interface Head {
  readonly length: number
  readonly type: string | null
}

/** The length and the type of a body; nothing where a header asks for more than to take it. */
function plainHead(rawHeaders: readonly string[], isPeer: boolean): Head | undefined {
  let length = -1
  let type: string | null = null
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    switch (name.length) {
      case 6: // Expect
      case 17: // Transfer-Encoding
      case 10: // webhook-id
        if (/^(expect|transfer-encoding|webhook-id)$/i.test(name)) return undefined
        break
      case 15: // Idempotency-Key, X-Forwarded-For
        if (/^idempotency-key$/i.test(name) || (isPeer && /^x-forwarded-for$/i.test(name))) return undefined
        break
      case 14:
        if (/^content-length$/i.test(name)) length = Number(rawHeaders[at + 1])
        break
      case 12:
        if (type === null && /^content-type$/i.test(name)) type = keptType(rawHeaders[at + 1])
    }
  }
  return length >= 0 ? { length, type } : undefined
}

interface About extends Head {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly link: Link
  readonly client: string | undefined
}

/** One such post, from its head to its answer. */
class PlainHook implements Waiter<Verdict>, Recorded {
  readonly request: IncomingMessage
  readonly client: string | undefined
  readonly id: string
  readonly started = performance.now()
  readonly caller = undefined
  readonly #office: HookOffice
  readonly #about: About
  #body: Buffer | undefined
  #isTaken = false
  #isOver = false

  constructor(office: HookOffice, about: About) {
    this.#office = office
    this.#about = about
    this.request = about.request
    this.client = about.client
    this.id = office.nextId()
  }

  get shownPath(): string {
    return this.#about.link.hookPath
  }

  read(): void {
    const { request } = this
    if (this.#about.length === 0) {
      request.resume()
      return void this.#append(NOTHING)
    }
    // A body that breaks off is never whole, and nobody is there to be told.
    request.on('data', (chunk: Buffer) => {
      this.#body = this.#body === undefined ? chunk : Buffer.concat([this.#body, chunk])
      if (this.#body.length === this.#about.length) this.#append(this.#body)
    })
  }

  #append(content: Uint8Array): void {
    const { host, lane } = this.#office
    const { link, type } = this.#about
    const now = host.clock.now()
    // Others of this link may have been read meanwhile.
    const waitMs = link.bucket.waitMs(now)
    if (waitMs > 0) return void this.reject(new RateRefusal(link, waitMs))
    try {
      link.room.take(content.byteLength)
    } catch (error) {
      return void this.reject(error)
    }
    link.bucket.take(now)
    this.#isTaken = true
    const post: Post = {
      id: this.id,
      link: link.key,
      old_target: link.oldTarget,
      sender: link.source ?? '',
      topic: null,
      content,
      content_type: type,
      created_at: timestamp(now),
      hasRound: false,
      reach: null,
      event: null,
      key: undefined,
    }
    lane.pushFor(post, this)
  }

  resolve(verdict: Verdict): void {
    const { book, record } = this.#office
    const { response, link } = this.#about
    if (verdict !== 'appended') return void this.reject(NO_LINK)
    this.#isTaken = false
    book.accepted(link)
    // Whoever was told that it takes too long has his answer.
    if (this.#isOver || response.destroyed) return
    this.#isOver = true
    response.writeHead(204, ['Access-Control-Allow-Origin', '*', 'X-Request-Id', this.id]).end()
    record(this, 204, undefined)
  }

  reject(error: unknown): void {
    const { book, refuse } = this.#office
    const { link } = this.#about
    if (this.#isOver) return
    this.#isOver = true
    if (this.#isTaken) {
      link.bucket.giveBack()
      link.room.giveBack(this.#about.length)
    }
    this.#isTaken = false
    if (error === NO_LINK) book.forget(link.key)
    void noted(this.#office, link, error).then((told) => refuse(this.#visit(), told))
  }

  #visit(): Visit {
    const { request, response, client, link } = this.#about
    return visitOf(this.#office, { request, response, client, id: this.id, hash: link.hash })
  }
}

const NOTHING = new Uint8Array()
