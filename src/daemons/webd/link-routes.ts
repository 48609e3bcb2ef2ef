// Routes of links: /chat/<token>/… and /hook/<token>.
import type { IncomingMessage } from 'node:http'
import type { CallRateLimiters } from '../../core/access/call-rate-limit.ts'
import { lastEventNumbers } from '../../core/chats/chat-events.ts'
import { conversationCursorBeforeLatest } from '../../core/chats/topic-branches.ts'
import { chatFiles } from '../../core/files/chat-files.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { lockMessageOrder } from '../../core/messages/messages.ts'
import { findRound, type Round, writeContextOf } from '../../core/turns/rounds.ts'
import { stopRound } from '../../core/turns/stop-round.ts'
import { createIdGenerator } from '../../lib/clock.ts'
import type { FaultHandler } from '../../lib/fault-boundary.ts'
import { clientAddress, type TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { prefersHtml } from '../../lib/http/http.ts'
import { SSE_CONTENT_TYPE } from '../../lib/http/sse-writer.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { type AgentLinkFiles, isAgentFile, OFFLINE_SCRIPT } from '../../web/chat/files.ts'
import { chatPage } from '../../web/chat/page.ts'
import type { ScriptHandler } from '../../web/chat/script-response.ts'
import type { ConnectionOrigin, RawHandler } from '../http/raw-request.ts'
import { PICTURE_PATH, readAgent, readAgentProfile, sendPicture } from './agent-face.ts'
import { readTopic } from './chat-body.ts'
import { refuseMissingFile, sendChatFile } from './chat-file-response.ts'
import { chatFeed, roundFeed } from './event-feeds.ts'
import { openHookFastPath } from './hook-fast-path.ts'
import { latin1, linkFolder, type TokenRow } from './link-cache.ts'
import { parseLinkPath } from './link-path.ts'
import { type LinkPostContext, mustBeLink, postToLink } from './link-post.ts'
import { RateLimitRefusal } from './link-rate.ts'
import { LinkRequest, type LogResponse } from './link-request.ts'
import {
  chatOwnerOf,
  dashboardPath,
  findCallReader,
  findChatVisitor,
  findVisitor,
  type LinkOwnership,
  mustBeOwner,
  NO_LINK,
  SIGN_IN_NEEDED,
} from './link-visitor.ts'
import type { LinkMcp } from './mcp/link-endpoint.ts'
import { mustBeOwnPage } from './mcp/origin-check.ts'
import { isOpenaiPath } from './openai/routes.ts'
import { pollRound, readFlag, readSequence, readUniqueQuery, renderRoundPage } from './round-view.ts'
import type { StreamGuard, Streams } from './streams.ts'
import { handleTopics, parseTopicPath, type TopicPath } from './topic-routes.ts'
import { fileLimits } from './upload-slots.ts'
import { ofVisitor } from './visitor-key.ts'

export interface LinkRoutesOptions extends LinkPostContext {
  readonly streams: Streams
  readonly mcp: LinkMcp
  readonly openai: (request: LinkRequest) => Promise<void>
  readonly logResponse: LogResponse
  /** Whether to believe X-Forwarded-For of a peer with this address. */
  readonly isTrustedProxy: TrustedProxyCheck
  /** Files that are the same at every chat link, by their path below it. */
  readonly staticFiles: ReadonlyMap<string, ScriptHandler>
  readonly agentFiles: AgentLinkFiles
  /** Limits listings of topics, by link. */
  readonly topicCalls: CallRateLimiters
  /** Called for unexpected errors; the response contains the request id. */
  readonly onIncident: (error: unknown, request: LinkRequest) => void
  /** Called for errors after which the connection is closed. */
  readonly onFault: FaultHandler
}

const STREAM_HEADERS = {
  'Content-Type': SSE_CONTENT_TYPE,
  'Cache-Control': 'no-store',
  // Keeps nginx from buffering events.
  'X-Accel-Buffering': 'no',
}
const RETRY_MS = 2000
const LATEST = { initial: 100, max: 200 }

export function openLinkRoutes(context: LinkRoutesOptions): RawHandler {
  const { host, logResponse } = context
  const nextId = createIdGenerator(host.clock, host.random)
  const slowPath: RawHandler = (incoming, response, origin) => {
    const path = parseLinkPath(incoming.url ?? '')
    if (!path) return false
    const client = clientOf(context, incoming, origin)
    const request = new LinkRequest(incoming, response, { path, client, id: nextId(), logResponse })
    respond(context, request).catch((error) => {
      context.onFault(error)
      response.destroy()
    })
    return true
  }
  const refuse = (request: LinkRequest, error: unknown): void => sendError(context, request, error)
  const fastPath = openHookFastPath({ ...context, nextId, slowPath, refuse })
  return (incoming, response, origin) => fastPath(incoming, response, origin) || slowPath(incoming, response, origin)
}

function clientOf(
  { isTrustedProxy }: LinkRoutesOptions,
  { headers }: IncomingMessage,
  { client, isSocketAddress }: ConnectionOrigin,
): string | undefined {
  const forwarded = isSocketAddress ? headers['x-forwarded-for'] : undefined
  return forwarded === undefined ? client : clientAddress(isTrustedProxy, client, String(forwarded))
}

async function respond(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  try {
    await dispatch(context, request)
  } catch (error) {
    sendError(context, request, error)
  }
}

function sendError({ onIncident }: LinkRoutesOptions, request: LinkRequest, error: unknown): void {
  if (error === SIGN_IN_NEEDED && isPageRequest(request)) sendToSignIn(request)
  else if (error instanceof RateLimitRefusal) request.refuse(error, { ...error.headers })
  else if (error instanceof Refusal) request.refuse(error, error.code === 'unavailable' ? { 'Retry-After': '1' } : {})
  else {
    onIncident(error, request)
    request.sendInternalError()
  }
}

function isPageRequest({ incoming: { method, headers } }: LinkRequest): boolean {
  return method === 'GET' && prefersHtml(headers.accept)
}

/** The proof in the path is worth nothing without the session. */
function sendToSignIn(request: LinkRequest): void {
  const { kind, token, rest } = request.path
  const path = `/${kind}/${token}${rest === undefined ? '' : `/${rest}`}`
  request.sendEmpty(303, { Location: `/auth/sign-in?next=${encodeURIComponent(path)}` })
}

function dispatch(context: LinkRoutesOptions, request: LinkRequest): Promise<void> | void {
  const { method } = request.incoming
  const { kind, rest = '' } = request.path
  if (isOpenaiPath(request.path)) return context.openai(request)
  if (method === 'POST' && rest === '') return postToLink(context, request)
  if (kind === 'chat') return dispatchChat(context, request)
  if (rest !== '') throw nothingHere()
  return method === 'OPTIONS' ? request.sendPreflight('POST, OPTIONS') : refuseMethod(context, request, 'POST, OPTIONS')
}

function nothingHere(): Refusal {
  return new Refusal('not_found', 'there is nothing at this path')
}

/** Checks the token first: a bad one gets 401, not 405. */
async function refuseMethod(context: LinkRoutesOptions, request: LinkRequest, allow: string): Promise<void> {
  await withLink(context, request, async () => {})
  request.refuse(new Refusal('not_allowed', `this path allows only ${allow}`), { Allow: allow })
}

type LinkWork<T> = (tx: Tx, row: TokenRow, guard: StreamGuard | undefined) => Promise<T>

/** Looks the link up and reads from the same snapshot. */
function withLink<T>(context: LinkRoutesOptions, request: LinkRequest, read: LinkWork<T>): Promise<T> {
  return useLink(context, request, read, (work) => context.host.engine.read(work))
}

async function useLink<T>(
  { host }: LinkRoutesOptions,
  request: LinkRequest,
  work: LinkWork<T>,
  run: (work: (tx: Tx) => Promise<T>) => Promise<T>,
): Promise<T> {
  const token_hash = mustBeLink(host, request)
  const visitor = await findChatVisitor(host, request)
  return run(async (tx) => {
    const row = await routeTokens.find(tx, { token_hash })
    if (!row) throw NO_LINK
    const owner = chatOwnerOf(row)
    await mustBeOwner(host, tx, owner, visitor)
    return work(tx, ofVisitor(host, request, row), owner && visitor && { owner, visitor })
  })
}

async function dispatchChat(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  const { rest, token, query } = request.path
  const { allow, handle, isForOwnPages = false } = viewOf(context, rest ?? '')
  const { method = '' } = request.incoming
  if (isForOwnPages) request.allowOrigin(undefined)
  if (method === 'OPTIONS') {
    if (isForOwnPages) await mustBeOwnPage(context.host, request)
    return request.sendPreflight(allow)
  }
  if (!allow.split(', ').includes(method)) return refuseMethod(context, request, allow)
  if (rest === undefined) {
    // The page's URLs are relative to its trailing slash. A relative Location cannot be turned to another host by a forged
    // Host header, and a malformed token is never echoed.
    mustBeLink(context.host, request)
    return request.sendEmpty(308, { Location: `./${token}/${query === '' ? '' : `?${query}`}` })
  }
  return handle(context, request)
}

interface LinkView {
  readonly allow: string
  /** Refuses pages of other sites. */
  readonly isForOwnPages?: boolean
  handle(context: LinkRoutesOptions, request: LinkRequest): Promise<void>
}

const READ = 'GET, HEAD, OPTIONS'

function viewOf({ staticFiles }: LinkRoutesOptions, rest: string): LinkView {
  switch (rest) {
    case '':
      return { allow: 'GET, HEAD, POST, OPTIONS', handle: sendWidgetPage }
    case 'events':
      return { allow: READ, handle: streamChat }
    case PICTURE_PATH:
      return { allow: READ, handle: sendAgentPicture }
    case 'mcp':
      return { allow: 'GET, POST, OPTIONS', isForOwnPages: true, handle: (context, request) => context.mcp(request) }
  }
  const topics = parseTopicPath(rest)
  if (topics) return { allow: topics.allow, handle: (context, request) => sendTopicView(context, request, topics) }
  if (rest.startsWith('files/')) return { allow: READ, handle: sendFile }
  const file = staticFiles.get(rest)
  if (file) return { allow: READ, handle: (context, request) => sendStatic(context, request, file) }
  if (isAgentFile(rest)) return { allow: READ, handle: (context, request) => sendAgentFile(context, request, rest) }
  const [id = '', view, more] = rest.split('/')
  if (!/^[0-9a-f-]{36}$/.test(id) || more !== undefined || (view !== undefined && !['sse', 'stop'].includes(view)))
    return {
      allow: READ,
      handle: (context, request) =>
        withLink(context, request, async () => {
          throw nothingHere()
        }),
    }
  if (view === 'stop') return { allow: 'POST, OPTIONS', handle: (context, request) => stopAnswer(context, request, id) }
  return {
    allow: READ,
    handle: (context, request) =>
      view === 'sse' ? streamRound(context, request, id) : sendRound(context, request, id),
  }
}

function sendTopicView(context: LinkRoutesOptions, request: LinkRequest, path: TopicPath): Promise<void> {
  const { engine } = context.host
  return handleTopics(context, request, path, {
    read: (work) => withLink(context, request, work),
    write: (work) => useLink(context, request, work, (run) => engine.transaction(run)),
  })
}

async function sendWidgetPage(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  const visitor = await findVisitor(context.host, request)
  const shown = await withLink(context, request, async (tx, row) => {
    const folder = linkFolder(row) ?? ''
    const agent = await readAgentProfile(context.host, tx, row)
    const dashboard = visitor && (await dashboardPath(context.host, tx, visitor, folder))
    // Others see the name only.
    return { agent, folder: dashboard === undefined ? '' : folder, dashboard }
  })
  request.sendPage(chatPage({ ...shown, texts: request.texts, limits: fileLimits(context.attachmentMax()) }))
}

async function sendAgentPicture(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  const shown = await withLink(context, request, async (tx, row) => {
    const { picture } = await readAgent(context.host, tx, row)
    return { folder: linkFolder(row) ?? '', picture }
  })
  await sendPicture(context.host, request, shown)
}

async function sendAgentFile(context: LinkRoutesOptions, request: LinkRequest, path: string): Promise<void> {
  const agent = await withLink(context, request, (tx, row) => readAgentProfile(context.host, tx, row))
  const file = context.agentFiles.get(path, agent, fileLimits(context.attachmentMax()))
  if (!file) throw nothingHere()
  await sendScript(request, file)
}

async function sendStatic(context: LinkRoutesOptions, request: LinkRequest, file: ScriptHandler): Promise<void> {
  await withLink(context, request, async (_, row) => {
    if (request.path.rest === OFFLINE_SCRIPT && chatOwnerOf(row)) throw nothingHere()
  })
  await sendScript(request, file)
}

async function sendScript(request: LinkRequest, file: ScriptHandler): Promise<void> {
  const [acceptEncoding, ifNoneMatch] = [request.header('accept-encoding'), request.header('if-none-match')]
  const { status, headers, body } = await file({ acceptEncoding, ifNoneMatch })
  request.sendBytes(status, headers, body)
}

/** Checks the folder as well: another folder may have taken over the chat of a revoked link. */
async function mustFindRound(tx: Tx, row: TokenRow, id: string): Promise<Round> {
  const round = await findRound(tx, id, row.jid)
  if (round && (round.target_folder === undefined || round.target_folder === (linkFolder(row) ?? ''))) return round
  return refuse('not_found', 'there is no such round')
}

async function sendRound(context: LinkRoutesOptions, request: LinkRequest, id: string): Promise<void> {
  const isPage = prefersHtml(request.header('accept'))
  const limits = fileLimits(context.attachmentMax())
  const found = await withLink(context, request, async (tx, row) => {
    const after = readSequence(readUniqueQuery(request.path.query, ['after']).after, 'after') ?? 0
    const round = await mustFindRound(tx, row, id)
    if (!isPage) return { round: await pollRound(tx, round, after) }
    const agent = await readAgentProfile(context.host, tx, row)
    return { page: await renderRoundPage(tx, round, { agent, limits, texts: request.texts }) }
  })
  if (found.page) request.sendPage(found.page)
  else request.sendJson(200, found.round)
}

/** Also checks the chat: the id of a file must be no way into another one. */
async function sendFile(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  const [, id = ''] = /^files\/([0-9a-f-]{36})$/.exec(request.path.rest ?? '') ?? []
  const file = await withLink(context, request, (tx, row) =>
    chatFiles.find(tx, { id, jid: row.jid, folder: linkFolder(row) ?? '' }),
  )
  await sendChatFile(context.host.layout, request, file ?? refuseMissingFile())
}

/** The page without script sends a form, and shows the round again. */
async function stopAnswer(context: LinkRoutesOptions, request: LinkRequest, id: string): Promise<void> {
  const { engine, signals } = context.host
  // Takes no lock for an answer that has ended, however often it is stopped.
  const { status } = await withLink(context, request, (tx, row) => mustFindRound(tx, row, id))
  if (status !== 'pending') refuse('conflict', 'the answer has ended')
  const stop: LinkWork<void> = async (tx, row) => {
    await lockMessageOrder(tx, engine.dialect)
    const keys = await stopRound(tx, writeContextOf(context.host), await mustFindRound(tx, row, id))
    tx.onCommit(() => signals.emit(keys, ['turns']))
  }
  await useLink(context, request, stop, (work) => engine.transaction(work))
  if (prefersHtml(request.header('accept'))) request.sendEmpty(303, { Location: `../${id}` })
  else request.sendJson(202, { turn_id: id })
}

/** The last event that the client has: Last-Event-ID, which browsers send when they reconnect, or the query. */
function lastSeen(request: LinkRequest, query: { readonly [name: string]: string | undefined }): number | undefined {
  return readSequence(request.header('last-event-id'), 'Last-Event-Id') ?? readSequence(query.after, 'after')
}

async function streamRound(context: LinkRoutesOptions, request: LinkRequest, id: string): Promise<void> {
  const { round, after, ...options } = await withLink(context, request, async (tx, row, guard) => {
    const query = readUniqueQuery(request.path.query, ['after', 'deltas'])
    return {
      after: lastSeen(request, query) ?? 0,
      hasDrafts: readFlag(query.deltas, 'deltas'),
      round: await mustFindRound(tx, row, id),
      ...linkOf(row),
      guard,
    }
  })
  // 204 keeps a browser from reconnecting.
  if (round.status !== 'pending' && after > round.last_seq) return request.sendEmpty(204)
  await stream(context, request, { feed: roundFeed(id), after: Math.min(after, round.last_seq), ...options })
}

async function streamChat(context: LinkRoutesOptions, request: LinkRequest): Promise<void> {
  const { topic, after, ...options } = await withLink(context, request, async (tx, row, guard) => {
    const { jid } = row
    const query = readUniqueQuery(request.path.query, ['after', 'topic', 'last', 'deltas'])
    const topic = query.topic === undefined ? undefined : (readTopic(query.topic) ?? '')
    const limit = Math.min(readSequence(query.last, 'last') ?? LATEST.initial, LATEST.max)
    const seen = lastSeen(request, query) ?? (await conversationCursorBeforeLatest(tx, { jid, topic, limit }))
    const head = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
    return {
      ...linkOf(row),
      guard,
      hasDrafts: readFlag(query.deltas, 'deltas'),
      topic,
      feed: chatFeed(jid),
      folder: linkFolder(row) ?? '',
      after: Math.min(seen ?? head, head),
    }
  })
  await stream(context, request, { ...options, after, topic })
}

interface StreamOptions {
  readonly feed: ReturnType<typeof roundFeed>
  readonly after: number
  readonly token_hash: Uint8Array
  readonly topic?: string | undefined
  readonly folder?: string
  readonly hasDrafts: boolean
  readonly owned: LinkOwnership
  readonly isApart: boolean
  readonly guard: StreamGuard | undefined
}

function linkOf(row: TokenRow): Pick<StreamOptions, 'token_hash' | 'owned' | 'isApart'> {
  const { token_hash, person, visitors } = row
  return { token_hash, owned: { person, target_folder: linkFolder(row) }, isApart: visitors === 'apart' }
}

/** Says to pages that each request for a file needs the key. */
function visitorHeader(request: LinkRequest): { [name: string]: string } {
  const key = request.header('x-visitor')
  return key === undefined ? {} : { 'X-Visitor': key }
}

async function stream(
  { host, streams }: LinkRoutesOptions,
  request: LinkRequest,
  options: StreamOptions,
): Promise<void> {
  const { response, incoming } = request
  const { feed, token_hash, owned, isApart, ...subscription } = options
  const link = { key: latin1(token_hash), hash: token_hash }
  const network = clientNetwork(request.client)
  streams.mustHaveCapacity(link.key, network)
  const callReader = options.hasDrafts ? await findCallReader(host, request, owned) : undefined
  request.startStream(isApart ? { ...STREAM_HEADERS, ...visitorHeader(request) } : STREAM_HEADERS)
  if (incoming.method === 'HEAD') return void response.end()
  await streams.subscribe(feed, { ...subscription, callReader, response, link, network, retryMs: RETRY_MS })
}
