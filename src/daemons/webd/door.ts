// The URLs of links: /chat/<token>/… and /hook/<token> (document 000, section 4.2).
import type { IncomingMessage } from 'node:http'
import { beforeLatest, lastEvents } from '../../core/chats.ts'
import { oldReading } from '../../core/resolve.ts'
import { findRound, type Round } from '../../core/rounds.ts'
import { routeTokens } from '../../core/route-tokens.ts'
import { clientAddress, type Trusts } from '../../lib/client-address.ts'
import { openIds } from '../../lib/clock.ts'
import { EVENT_STREAM } from '../../lib/event-stream.ts'
import { prefersHtml } from '../../lib/http.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { chatPage } from '../../web/chat/page.ts'
import type { openWidgetScript } from '../../web/chat/widget-script.ts'
import type { Direct, Way } from '../direct.ts'
import { readTopic } from './chat-body.ts'
import { followChat, followRound } from './following.ts'
import { latin1, type TokenRow } from './link-book.ts'
import { linkPath } from './link-path.ts'
import type { LinkMcp } from './mcp.ts'
import { mustBeOwnPage } from './mcp-origin.ts'
import { openPlainHooks } from './plain-hook.ts'
import { mustBeLink, NO_LINK, type PostOffice, postChat, postHook, RateRefusal } from './post.ts'
import { pageOfRound, polledRound, readAfter, readQuery } from './round-view.ts'
import type { Streams } from './streams.ts'
import { type Record, Visit } from './visit.ts'

export interface Door extends PostOffice {
  readonly streams: Streams
  readonly mcp: LinkMcp
  readonly record: Record
  /** Whose word about a client is believed, of those who connect to webd itself. */
  readonly trusts: Trusts
  /** What the agents are called. */
  readonly name: string
  readonly widgetScript: ReturnType<typeof openWidgetScript>
  /** What nobody refused on purpose; the incident's name is in the answer. */
  readonly onIncident: (error: unknown, visit: Visit) => void
}

const STREAM_HEADERS = {
  'Content-Type': EVENT_STREAM,
  'Cache-Control': 'no-store',
  // A proxy that gathers before it sends would hold back every event.
  'X-Accel-Buffering': 'no',
}
const RETRY_MS = 2000
const LATEST = { initial: 100, max: 200 }

export function openDoor(door: Door): Direct {
  const { host, record } = door
  const nextId = openIds(host.clock, host.random)
  const long: Direct = (request, response, way) => {
    const path = linkPath(request.url ?? '')
    if (!path) return false
    void answer(
      door,
      new Visit(request, response, { path, client: clientOf(door, request, way), id: nextId(), record }),
    )
    return true
  }
  const plainHook = openPlainHooks({ ...door, nextId, long, refuse: (visit, error) => refuseAt(door, visit, error) })
  return (request, response, way) => plainHook(request, response, way) || long(request, response, way)
}

function clientOf({ trusts }: Door, { headers }: IncomingMessage, { client, isPeer }: Way): string | undefined {
  const forwarded = isPeer ? headers['x-forwarded-for'] : undefined
  return forwarded === undefined ? client : clientAddress(trusts, client, String(forwarded))
}

async function answer(door: Door, visit: Visit): Promise<void> {
  try {
    await dispatch(door, visit)
  } catch (error) {
    refuseAt(door, visit, error)
  }
}

function refuseAt({ onIncident }: Door, visit: Visit, error: unknown): void {
  if (error instanceof RateRefusal) visit.refuse(error, { ...error.headers })
  else if (error instanceof Refusal) visit.refuse(error, error.code === 'unavailable' ? { 'Retry-After': '1' } : {})
  else {
    onIncident(error, visit)
    visit.fail()
  }
}

function dispatch(door: Door, visit: Visit): Promise<void> | void {
  const { method, path } = { method: visit.request.method, path: visit.path }
  if (path.place === 'hook') {
    if (path.rest !== undefined && path.rest !== '') throw nothingHere()
    if (method === 'POST') return postHook(door, visit)
    return method === 'OPTIONS' ? visit.preflight('POST, OPTIONS') : notAllowed(door, visit, 'POST, OPTIONS')
  }
  if (method === 'POST' && (path.rest ?? '') === '') return postChat(door, visit)
  return chat(door, visit)
}

function nothingHere(): Refusal {
  return new Refusal('not_found', 'there is nothing at this path')
}

/** A bad token is told first. */
async function notAllowed(door: Door, visit: Visit, allow: string): Promise<void> {
  await withLink(door, visit, async () => {})
  visit.refuse(new Refusal('not_allowed', `this path takes ${allow}`), { Allow: allow })
}

/** One read: whether the link is there, and what is asked of it. */
async function withLink<T>({ host }: Door, visit: Visit, read: (tx: Tx, row: TokenRow) => Promise<T>): Promise<T> {
  const token_hash = mustBeLink(host, visit)
  return host.engine.read(async (tx) => {
    const row = await routeTokens.find(tx, { token_hash })
    if (!row) throw NO_LINK
    return read(tx, row)
  })
}

async function chat(door: Door, visit: Visit): Promise<void> {
  const { rest, token, query } = visit.path
  const { allow, take, isForOwnPages = false } = viewOf(rest ?? '')
  const { method = '' } = visit.request
  if (isForOwnPages) visit.readableBy(undefined)
  if (method === 'OPTIONS') {
    if (isForOwnPages) await mustBeOwnPage(door.host, visit)
    return visit.preflight(allow)
  }
  const isTaken = allow.split(', ').includes(method)
  if (!isTaken) return notAllowed(door, visit, allow)
  if (rest === undefined) {
    // The page's addresses are relative to its slash. What is no token is not repeated; and relative to here, so that no
    // host is named and none can be.
    mustBeLink(door.host, visit)
    return visit.empty(308, { Location: `./${token}/${query === '' ? '' : `?${query}`}` })
  }
  return take(door, visit)
}

interface View {
  readonly allow: string
  /** Pages of other sites are refused. */
  readonly isForOwnPages?: boolean
  take(door: Door, visit: Visit): Promise<void>
}

const READ = 'GET, HEAD, OPTIONS'

function viewOf(rest: string): View {
  switch (rest) {
    case '':
      return { allow: 'GET, HEAD, POST, OPTIONS', take: widgetPage }
    case 'widget.js':
      return { allow: READ, take: script }
    case 'events':
      return { allow: READ, take: chatStream }
    case 'mcp':
      return { allow: 'GET, POST, OPTIONS', isForOwnPages: true, take: (door, visit) => door.mcp(visit) }
  }
  const [id = '', view, more] = rest.split('/')
  if (!/^[0-9a-f-]{36}$/.test(id) || more !== undefined || (view !== undefined && view !== 'sse'))
    return {
      allow: READ,
      take: (door, visit) =>
        withLink(door, visit, async () => {
          throw nothingHere()
        }),
    }
  return { allow: READ, take: (door, visit) => (view === 'sse' ? roundStream(door, visit, id) : poll(door, visit, id)) }
}

async function widgetPage(door: Door, visit: Visit): Promise<void> {
  const folder = await withLink(door, visit, async (_, row) => folderOf(row))
  visit.page(chatPage({ name: door.name, folder, hasStream: true }))
}

async function script(door: Door, visit: Visit): Promise<void> {
  await withLink(door, visit, async () => {})
  const [acceptEncoding, ifNoneMatch] = [visit.header('accept-encoding'), visit.header('if-none-match')]
  const { status, headers, body } = await door.widgetScript({ acceptEncoding, ifNoneMatch })
  visit.bytes(status, headers, body)
}

/** Where a link delivers; a row from before that was recorded reads its JID the old way (decision L6). */
function folderOf({ target_folder, jid }: TokenRow): string {
  return target_folder ?? oldReading(jid) ?? ''
}

/** A round of this link's chat, and of its folder: the chat of a link that is gone may have become another folder's. */
async function mustFindRound(tx: Tx, row: TokenRow, id: string): Promise<Round> {
  const round = await findRound(tx, row.jid, id)
  if (round && (round.target_folder === undefined || round.target_folder === folderOf(row))) return round
  return refuse('not_found', 'there is no such round')
}

async function poll(door: Door, visit: Visit, id: string): Promise<void> {
  const isPage = prefersHtml(visit.header('accept'))
  const found = await withLink(door, visit, async (tx, row) => {
    const after = readAfter(readQuery(visit.path.query, ['after']).after, 'after') ?? 0
    const round = await mustFindRound(tx, row, id)
    return isPage ? { page: await pageOfRound(tx, round, door.name) } : { round: await polledRound(tx, round, after) }
  })
  if (found.page) visit.page(found.page)
  else visit.json(200, found.round)
}

/** What the client has: by the header that a browser sends when it comes again, else by the query. */
function lastSeen(visit: Visit, query: { readonly [name: string]: string | undefined }): number | undefined {
  return readAfter(visit.header('last-event-id'), 'Last-Event-Id') ?? readAfter(query.after, 'after')
}

async function roundStream(door: Door, visit: Visit, id: string): Promise<void> {
  const { round, token_hash, after } = await withLink(door, visit, async (tx, row) => ({
    after: lastSeen(visit, readQuery(visit.path.query, ['after'])) ?? 0,
    round: await mustFindRound(tx, row, id),
    token_hash: row.token_hash,
  }))
  // A browser that is told 204 does not come again.
  if (round.status !== 'pending' && after > round.last_seq) return visit.empty(204)
  // Nobody has what has not been said: beyond the end is the end.
  await stream(door, visit, { followed: followRound(id), after: Math.min(after, round.last_seq), token_hash })
}

async function chatStream(door: Door, visit: Visit): Promise<void> {
  const { topic, after, ...about } = await withLink(door, visit, async (tx, row) => {
    const { jid, token_hash } = row
    const query = readQuery(visit.path.query, ['after', 'topic', 'last'])
    const topic = query.topic === undefined ? undefined : (readTopic(query.topic) ?? '')
    const limit = Math.min(readAfter(query.last, 'last') ?? LATEST.initial, LATEST.max)
    const seen = lastSeen(visit, query) ?? (await beforeLatest(tx, { jid, topic, limit }))
    const head = (await lastEvents(tx, [jid])).get(jid) ?? 0
    return { token_hash, topic, followed: followChat(jid), folder: folderOf(row), after: Math.min(seen ?? head, head) }
  })
  await stream(door, visit, { ...about, after, topic })
}

interface Streamed {
  readonly followed: ReturnType<typeof followRound>
  readonly after: number
  readonly token_hash: Uint8Array
  readonly topic?: string | undefined
  readonly folder?: string
}

async function stream({ streams }: Door, visit: Visit, streamed: Streamed): Promise<void> {
  const { response, request } = visit
  const { followed, after, token_hash, topic, folder } = streamed
  const link = { key: latin1(token_hash), hash: token_hash }
  streams.mustHaveRoom(link.key)
  visit.open(STREAM_HEADERS)
  if (request.method === 'HEAD') return void response.end()
  await streams.follow(followed, { response, after, topic, folder, link, retryMs: RETRY_MS })
}
