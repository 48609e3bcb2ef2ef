// A POST at a link: checked, read, appended, and only then acknowledged (decisions L5 to L11).
import { hash } from 'node:crypto'
import { principalOf } from '../../core/caller.ts'
import { knownKey, type Post, type PostKey, type Verdict } from '../../core/ingest.ts'
import { hashOfLink, isProof } from '../../core/link-token.ts'
import { textOf } from '../../core/messages.ts'
import { signatureFault } from '../../core/signatures.ts'
import type { StorageQuotas } from '../../core/storage-use.ts'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { prefersHtml } from '../../lib/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Lane } from '../../store/lane.ts'
import { callerOf } from '../request.ts'
import { type Budget, declaredFault, readBody } from './body.ts'
import { keptType, readChatBody, type Spoken } from './chat-body.ts'
import { type Link, type LinkBook, latin1 } from './link-book.ts'
import { LinkRefusal, standing, type Visit } from './visit.ts'

export interface PostOffice {
  readonly host: Host
  readonly book: LinkBook
  readonly lane: Lane<Post, Verdict>
  readonly quotas: StorageQuotas
  readonly budget: Budget
  readonly bodyMax: number
}

/** A refusal with what its answer must say besides. */
export class RateRefusal extends Refusal {
  readonly headers: Readonly<Record<string, string>>

  constructor({ isHook, bucket: { rate } }: Link, waitMs: number) {
    const seconds = Math.max(1, Math.ceil(waitMs / 1000))
    super('rate_limited', 'too many messages through this link', `try again in ${seconds} s`)
    const policy = isHook ? 'hook' : 'web'
    this.headers = {
      'Retry-After': String(seconds),
      'RateLimit-Policy': `"${policy}";q=${rate.count};w=${rate.windowMs / 1000}`,
      RateLimit: `"${policy}";r=0;t=${seconds}`,
    }
  }
}

/** Made once: strangers get it by the thousand, and where it was made tells nothing. */
export const NO_LINK = new LinkRefusal(
  'This link does not work',
  'there is no such link, or it was revoked',
  'ask for a new one where you got it',
)

export const TURNED_AWAY = standing(NO_LINK)

/** What stands where the token stands, as the store knows it; refused when it is nothing that was ever handed out. */
export function mustBeLink(host: Host, visit: Visit): Uint8Array {
  const hash = hashOfLink(visit.path.token, host.keyring)
  if (!hash) throw NO_LINK
  visit.link = hash
  return hash
}

export async function postHook(office: PostOffice, visit: Visit): Promise<void> {
  const link = await foundLink(office, visit)
  if (!link) return visit.turnAway(TURNED_AWAY)
  let held = 0
  try {
    const body = await admitted(office, visit, link)
    held = body.byteLength
    const type = visit.request.headers['content-type']
    const spoken = { content: body, topic: null, content_type: type === undefined ? null : keptType(type) }
    await append(office, visit, link, { spoken, body, hasRound: false })
    visit.acknowledge()
    office.book.accepted(link)
  } catch (error) {
    throw await noted(office, link, error)
  } finally {
    office.budget.give(held)
  }
}

export async function postChat(office: PostOffice, visit: Visit): Promise<void> {
  const link = await foundLink(office, visit)
  if (!link) return visit.turnAway(TURNED_AWAY)
  let held = 0
  try {
    const body = await admitted(office, visit, link)
    held = body.byteLength
    const spoken = readChatBody(body, visit.header('content-type'), link.isHook)
    const { id, created_at } = await append(office, visit, link, { spoken, body, hasRound: true })
    office.book.accepted(link)
    const { token, rest } = visit.path
    const round = rest === undefined ? `./${token}/${id}` : `./${id}`
    if (prefersHtml(visit.header('accept'))) return visit.empty(303, { Location: round })
    const content = textOf(spoken.content)
    visit.json(200, { user: { id, content, created_at }, turn_id: id, status: 'pending' })
  } catch (error) {
    throw await noted(office, link, error)
  } finally {
    office.budget.give(held)
  }
}

/** One that was used lately is not looked for: the append finds out whether it is still there. */
function foundLink({ host, book }: PostOffice, visit: Visit): Link | Promise<Link | undefined> | undefined {
  const hash = hashOfLink(visit.path.token, host.keyring)
  if (!hash) return undefined
  visit.link = hash
  const key = latin1(hash)
  return book.known(key) ?? book.find(hash, key)
}

/** The body of a post that may be appended as far as can be told before. */
async function admitted({ host, budget, bodyMax }: PostOffice, visit: Visit, link: Link): Promise<Uint8Array> {
  const declared = declaredFault(visit.request, bodyMax)
  if (declared) throw declared
  // A repeat is answered whatever the rate, and only the body can tell that it is one.
  if (!hasKey(visit, link)) mustBeInRate(link, host.clock.now())
  const body = await readBody(visit, bodyMax, budget)
  if (!link.verify) return body
  try {
    mustBeSigned(host, visit, link.verify, body)
  } catch (error) {
    budget.give(body.byteLength)
    throw error
  }
  return body
}

/**
 * Counts why a post was refused, and says what to tell: what was refused without an append has not asked whether the link
 * is still there. That it is gone is counted nowhere: there is nothing left to count it at.
 */
export async function noted({ book }: PostOffice, link: Link, error: unknown): Promise<unknown> {
  if (!(error instanceof Refusal) || error === NO_LINK) return error
  const isThere = error.code === 'unavailable' || (await book.find(link.hash, link.key)) !== undefined
  if (!isThere) return NO_LINK
  book.refused(link, error instanceof BadSignature ? 'signature' : error.code)
  return error
}

class BadSignature extends LinkRefusal {}

function mustBeSigned(
  host: Host,
  visit: Visit,
  { scheme, secret }: NonNullable<Link['verify']>,
  body: Uint8Array,
): void {
  const fault = signatureFault(scheme, secret, (name) => visit.header(name), body, host.clock.now())
  if (fault !== undefined) throw new BadSignature('Not signed as this link asks', fault)
}

/** What a tool at a link says: appended like a post and under the same rate, but a call has no key and no signature. */
export async function postSpoken(
  office: PostOffice,
  visit: Visit,
  link: Link,
  spoken: Spoken,
): Promise<{ id: string; created_at: string }> {
  const { host, book } = office
  try {
    if (link.verify) refuse('forbidden', 'this link takes signed posts alone')
    const id = uuidv7(host.clock, host.random)
    const appended = await append(office, visit, link, { spoken, id, hasRound: true })
    book.accepted(link)
    return appended
  } catch (error) {
    throw await noted(office, link, error)
  }
}

interface Said {
  readonly spoken: Spoken
  readonly hasRound: boolean
  /** As it came, to know it again by its key. */
  readonly body?: Uint8Array
  /** The message's, where one request may say several things. */
  readonly id?: string
}

async function append(
  office: PostOffice,
  visit: Visit,
  link: Link,
  said: Said,
): Promise<{ id: string; created_at: string }> {
  const { host, lane, book } = office
  const { bucket, room } = link
  const post: Post = {
    id: said.id ?? visit.id,
    link: link.key,
    old_target: link.oldTarget,
    sender: link.source ?? (await senderOf(host, visit, link)),
    ...said.spoken,
    created_at: timestamp(host.clock.now()),
    hasRound: said.hasRound,
    // Only the operator can make a proof; one of a webhook's is handed on to the system that reports.
    reach: isProof(visit.path.token) && !link.isHook ? 'all' : null,
    event: said.body ? eventOf(visit, link) : null,
    key: said.body && keyOfPost(visit, link, said.body),
  }
  const now = host.clock.now()
  const { byteLength } = post.content
  try {
    // Others of this link may have been read meanwhile.
    mustBeInRate(link, now)
    room.take(byteLength)
  } catch (error) {
    // What is stored already is not refused when it is sent again.
    const repeated = await findRepeated(host, post)
    if (!repeated) throw error
    return repeated
  }
  bucket.take(now)
  let verdict: Verdict | undefined
  try {
    verdict = await lane.push(post)
  } finally {
    if (verdict !== 'appended') {
      bucket.giveBack()
      room.giveBack(byteLength)
    }
  }
  if (verdict === 'appended') return post
  if (typeof verdict === 'object') return verdict.repeated
  if (verdict === 'differs')
    refuse('unprocessable', 'this Idempotency-Key came with another body before', 'a new message needs a new key')
  book.forget(link.key)
  throw NO_LINK
}

function mustBeInRate(link: Link, now: number): void {
  const waitMs = link.bucket.waitMs(now)
  if (waitMs > 0) throw new RateRefusal(link, waitMs)
}

async function findRepeated({ engine }: Host, post: Post): Promise<{ id: string; created_at: string } | undefined> {
  if (!post.key) return undefined
  const key = await engine.read((tx) => knownKey(tx, post))
  if (!key || !Buffer.from(key.digest).equals(post.key.digest)) return undefined
  return { id: key.message_id, created_at: key.created_at }
}

/** Of a chat link: the person who is signed in, else who can be told apart but not known (decision L7). */
export async function senderOf(host: Host, visit: Visit, link: Link): Promise<string> {
  const caller = await callerOf(host, visit.request.headers.authorization)
  if (caller?.kind === 'person') {
    visit.caller = principalOf(caller)
    return caller.sub
  }
  return `anon:${hash('sha256', `${link.key}\n${visit.client ?? ''}`, 'hex').slice(0, 12)}`
}

const KEY = /^[\x21-\x7e]{1,255}$/

/** Whether a post says by what it is known when it is sent again. */
function hasKey(visit: Visit, link: Link): boolean {
  return visit.request.headers['idempotency-key'] !== undefined || deliveryOf(visit, link).id !== undefined
}

/** What a sender calls a delivery, the same when it is sent again. GitHub's name for it counts where GitHub has signed. */
function deliveryOf({ request: { headers } }: Visit, { verify }: Link): { kind: string; id: unknown } {
  const github = verify?.scheme.kind === 'github' ? headers['x-github-delivery'] : undefined
  return github === undefined ? { kind: 'webhook', id: headers['webhook-id'] } : { kind: 'github', id: github }
}

/** GitHub says what happened in a header alone; the agent is told, because the body often does not say it. */
function eventOf({ request: { headers } }: Visit, { verify }: Link): string | null {
  const event = verify?.scheme.kind === 'github' ? headers['x-github-event'] : undefined
  return typeof event === 'string' && /^[a-z0-9_.-]{1,64}$/i.test(event) ? event : null
}

function keyOfPost(visit: Visit, link: Link, body: Uint8Array): PostKey | undefined {
  const {
    request: { headers, rawHeaders },
    path: { place },
  } = visit
  const given = headers['idempotency-key']
  if (given !== undefined) {
    const isTwice = rawHeaders.filter((name, at) => at % 2 === 0 && name.toLowerCase() === 'idempotency-key').length > 1
    if (isTwice || typeof given !== 'string' || !KEY.test(given))
      refuse('invalid', 'Idempotency-Key must be one value of 1 to 255 printable characters without spaces')
    return { text: `key ${given}`, digest: digestOf(place, body), isStrict: true }
  }
  const { kind, id } = deliveryOf(visit, link)
  if (typeof id !== 'string' || !KEY.test(id)) return undefined
  // A different body is another message, whose own repeats are known too.
  const digest = digestOf(place, body)
  return { text: `${kind} ${Buffer.from(digest).toString('hex')} ${id}`, digest, isStrict: false }
}

function digestOf(place: string, body: Uint8Array): Uint8Array {
  const digest = hash('sha256', body, 'buffer')
  // The same body at the other URL has another answer.
  return place === 'hook' ? digest : hash('sha256', digest, 'buffer')
}
