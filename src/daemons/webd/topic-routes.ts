// Topics of a link: /chat/<token>/topics, topics/<topic> and topics/<topic>/branches. See docs/decisions.md#topics-and-branches.
import { z } from 'zod'
import type { CallRateLimiters } from '../../core/access/call-rate-limit.ts'
import { type Caller, claimsOf } from '../../core/access/caller.ts'
import { checkAccess } from '../../core/access/policy.ts'
import { type ChatTopic, chatTopics, TopicTitle } from '../../core/chats/chat-topics.ts'
import { type FoundTopic, findListedTopic, listTopics, listVersions } from '../../core/chats/topic-list.ts'
import {
  beginTopicRemoval,
  finishTopicRemovals,
  isBeingRemoved,
  mustBeIdle,
  mustFindConversation,
} from '../../core/chats/topic-removal.ts'
import { findOutbound } from '../../core/delivery/outbox.ts'
import { isTokenProof } from '../../core/links/link-token.ts'
import { linkJidOf } from '../../core/links/visitor-chats.ts'
import { findInbound } from '../../core/messages/inbox.ts'
import { anonymousSender } from '../../core/messages/link-deliveries.ts'
import { isTaskPrompt, messages } from '../../core/messages/messages.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { type AuditedVerb, writeAudit } from '../../registry/audit.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { readTopic } from './chat-body.ts'
import { latin1, linkFolder, type TokenRow } from './link-cache.ts'
import type { LinkPostContext } from './link-post.ts'
import type { LinkRequest } from './link-request.ts'
import { findVisitor, type LinkVisitor } from './link-visitor.ts'
import { mustBeWithinLimit, parseLinkJson, readBody } from './request-body.ts'
import { readSequence, readUniqueQuery } from './round-view.ts'

export interface TopicPath {
  /** Undefined for the list of all topics. */
  readonly topic: string | undefined
  readonly isBranches: boolean
  readonly allow: string
}

/** Access to the store after the check of the link. */
export interface LinkStore {
  read<T>(work: (tx: Tx, row: TokenRow) => Promise<T>): Promise<T>
  write<T>(work: (tx: Tx, row: TokenRow) => Promise<T>): Promise<T>
}

interface TopicContext extends LinkPostContext {
  readonly topicCalls: CallRateLimiters
}

const LIST = { default: 30, max: 100 }
const QUERY_MAX = 200
const WORDS_MAX = 12
/** Characters of a search in the index; fewer find too many messages. */
const INDEXED_MIN = 3
/** Titles that a search compares: those of the latest topics. */
const TITLES_MAX = 500
const HITS_MAX = 50
const TITLE_BODY_MAX = 16 * 1024

export function parseTopicPath(rest: string): TopicPath | undefined {
  const [name, encoded, view, more] = rest.split('/')
  if (name !== 'topics' || more !== undefined || (view !== undefined && view !== 'branches')) return undefined
  if (encoded === undefined) return { topic: undefined, isBranches: false, allow: 'GET, HEAD, OPTIONS' }
  const isBranches = view !== undefined
  const allow = isBranches ? 'GET, HEAD, OPTIONS' : 'PATCH, DELETE, OPTIONS'
  return { topic: encoded, isBranches, allow }
}

export async function handleTopics(
  context: TopicContext,
  request: LinkRequest,
  { topic, isBranches }: TopicPath,
  store: LinkStore,
): Promise<void> {
  const { method } = request.incoming
  if (topic === undefined) return sendTopics(context, request, store)
  if (isBranches) return sendBranches(context, request, topic, store)
  return method === 'DELETE' ? deleteTopic(context, request, topic, store) : renameTopic(context, request, topic, store)
}

/** People who administer the folder, the operator, the person of a chat, and visitors whose chat is their own. */
export async function mayEditTopics(
  { policies }: InstanceHost,
  tx: Tx,
  row: TokenRow,
  request: LinkRequest,
  visitor: LinkVisitor | undefined,
): Promise<boolean> {
  if (row.person !== undefined || row.visitors === 'apart') return true
  if (isTokenProof(request.path.token) && !row.jid.startsWith('hook:')) return true
  if (!visitor) return false
  const subject = { principal: visitor.caller.sub, claims: claimsOf(visitor.caller) }
  return checkAccess(await policies.read(tx), subject, { action: 'admin', scope: linkFolder(row) ?? '' }).allow
}

async function mustEditTopics(...args: Parameters<typeof mayEditTopics>): Promise<void> {
  if (!(await mayEditTopics(...args)))
    refuse('forbidden', 'only administrators of the folder may change topics of this link', 'sign in, or send a bearer')
}

/** Call after the check of the link: a guessed token uses up no other link's calls. Each visitor who is apart has a rate. */
function charge({ topicCalls }: TopicContext, { token_hash, jid, visitors }: TokenRow): void {
  const link = latin1(token_hash)
  topicCalls.take(visitors === 'apart' ? `${link} ${jid}` : link, 'requests for topics')
}

function chatOf(row: TokenRow): { readonly jid: string; readonly folder: string } {
  return { jid: row.jid, folder: linkFolder(row) ?? '' }
}

function decodeTopic(encoded: string): string {
  try {
    return readTopic(decodeURIComponent(encoded)) ?? ''
  } catch (error) {
    if (error instanceof Refusal) throw error
    return refuse('invalid', 'the topic in the path is not valid UTF-8')
  }
}

async function sendTopics(context: TopicContext, request: LinkRequest, { read }: LinkStore): Promise<void> {
  const { host } = context
  const visitor = await findVisitor(host, request)
  const { q = '', before, limit } = readUniqueQuery(request.path.query, ['q', 'before', 'limit'])
  const words = q.trim()
  if ([...words].length > QUERY_MAX) refuse('invalid', `q is longer than ${QUERY_MAX} characters`)
  if (words.split(/\s+/).length > WORDS_MAX) refuse('invalid', `q has more than ${WORDS_MAX} words`)
  const count = Math.min(Math.max(readSequence(limit, 'limit') ?? LIST.default, 1), LIST.max)
  const page = { before: readSequence(before, 'before'), limit: count + 1 }
  const { row, found, may_edit } = await read(async (tx, row) => {
    charge(context, row)
    const chat = chatOf(row)
    const found = await listTopics(tx, words === '' ? { ...chat, ...page } : { ...chat, limit: TITLES_MAX })
    return { row, found, may_edit: await mayEditTopics(host, tx, row, request, visitor) }
  })
  const listed = words === '' ? found : await searchTopics(host, chatOf(row), { words, found, ...page })
  const topics = listed
    .slice(0, count)
    .map(({ last_seq: _, ...topic }) => ({ ...topic, may_edit: may_edit && topic.topic !== '' }))
  const next = listed.length > count ? listed[count - 1]?.last_seq : undefined
  request.sendJson(200, { topics, ...(next === undefined ? {} : { next: String(next) }) })
}

interface TopicSearch {
  readonly words: string
  /** The latest topics. */
  readonly found: readonly FoundTopic[]
  readonly before: number | undefined
  readonly limit: number
}

/** By title among the latest topics, and by the text of messages. */
async function searchTopics(
  host: InstanceHost,
  { jid, folder }: ReturnType<typeof chatOf>,
  { words, found, before = Number.MAX_SAFE_INTEGER, limit }: TopicSearch,
): Promise<FoundTopic[]> {
  const wanted = words.toLowerCase()
  const byTopic = new Map<string, FoundTopic>()
  for (const each of found) if (each.title.toLowerCase().includes(wanted)) byTopic.set(each.topic, each)
  // A visitor without topics, whom anyone can be, does not search.
  const ids = found.length === 0 || [...words].length < INDEXED_MIN ? [] : await searchMessages(host, jid, words)
  await host.engine.read(async (tx) => {
    for (const id of ids) {
      const known = (await findInbound(tx, id, jid)) ?? (await findOutbound(tx, id, jid))
      const message = known && (await messages.find(tx, { seq: known.message_seq }))
      if (message?.jid !== jid || message.topic === undefined) continue
      if ((message.target_folder ?? folder) !== folder || isTaskPrompt(message)) continue
      for (const each of await findListedTopic(tx, jid, folder, message.topic)) byTopic.set(each.topic, each)
    }
  })
  const all = [...byTopic.values()].filter(({ last_seq }) => last_seq < before)
  return all.sort((a, b) => b.last_seq - a.last_seq).slice(0, limit)
}

/** Ids of messages with all of the words; none while there is no index. All searches at links of a JID wait in one queue. */
async function searchMessages(host: InstanceHost, jid: string, words: string): Promise<string[]> {
  const query = words
    .split(/\s+/)
    .map((word) => `"${word.replaceAll('"', '""')}"${[...word].length < INDEXED_MIN ? '' : '*'}`)
    .join(' ')
  try {
    const found = await host.search?.search({ query, jid, limit: HITS_MAX, requester: linkJidOf(jid) })
    return (found ?? []).map(({ id }) => id)
  } catch (error) {
    if (error instanceof Refusal) return []
    throw error
  }
}

async function sendBranches(
  context: TopicContext,
  request: LinkRequest,
  encoded: string,
  { read }: LinkStore,
): Promise<void> {
  const branches = await read((tx, row) => {
    charge(context, row)
    const { jid, folder } = chatOf(row)
    return listVersions(tx, jid, folder, decodeTopic(encoded))
  })
  request.sendJson(200, { branches })
}

const Rename = z.object({ title: TopicTitle })
const TopicKey = z.object({ jid: z.string(), topic: z.string() })

async function renameTopic(
  context: TopicContext,
  request: LinkRequest,
  encoded: string,
  { read, write }: LinkStore,
): Promise<void> {
  const { host, budget } = context
  const visitor = await findVisitor(host, request)
  const find = async (tx: Tx, row: TokenRow): Promise<string> => {
    await mustEditTopics(host, tx, row, request, visitor)
    return (await mustFindConversation(tx, chatOf(row), decodeTopic(encoded))).topic
  }
  await read(async (tx, row) => {
    charge(context, row)
    await find(tx, row)
  })
  mustBeWithinLimit(request.incoming, TITLE_BODY_MAX)
  const body = await readBody(request, TITLE_BODY_MAX, budget)
  try {
    const { title } = parse(Rename, parseLinkJson(body))
    const topic = await write(async (tx, row) => {
      const [{ jid }, topic] = [row, await find(tx, row)]
      await chatTopics.update(tx, { jid, topic }, { title })
      await audit(tx, { host, request, row, visitor }, 'rename', { jid, topic, title })
      return topic
    })
    request.sendJson(200, { topic, title })
  } finally {
    budget.release(body.byteLength)
  }
}

/** A second request continues what a first one has left. */
async function deleteTopic(
  context: TopicContext,
  request: LinkRequest,
  encoded: string,
  { read, write }: LinkStore,
): Promise<void> {
  const { host } = context
  const visitor = await findVisitor(host, request)
  const find = async (tx: Tx, row: TokenRow): Promise<ChatTopic | undefined> => {
    await mustEditTopics(host, tx, row, request, visitor)
    const [chat, topic] = [chatOf(row), decodeTopic(encoded)]
    return (await isBeingRemoved(tx, chat, topic)) ? undefined : mustFindConversation(tx, chat, topic)
  }
  const { jid, isNew } = await read(async (tx, row) => {
    charge(context, row)
    const conversation = await find(tx, row)
    if (conversation) await mustBeIdle(tx, chatOf(row).folder, conversation)
    return { jid: row.jid, isNew: conversation !== undefined }
  })
  const begin = async (tx: Tx, row: TokenRow): Promise<void> => {
    const conversation = await find(tx, row)
    if (!conversation) return
    await beginTopicRemoval(tx, host.engine.dialect, { ...chatOf(row), conversation, now: host.clock.now() })
    await audit(tx, { host, request, row, visitor }, 'delete', { jid, topic: conversation.root })
  }
  if (isNew) await write(begin)
  await finishTopicRemovals(host, jid)
  request.sendEmpty(204)
}

interface TopicChange {
  readonly host: InstanceHost
  readonly request: LinkRequest
  readonly row: TokenRow
  readonly visitor: LinkVisitor | undefined
}

async function audit(
  tx: Tx,
  { host, request, row, visitor }: TopicChange,
  verb: 'rename' | 'delete',
  input: { readonly jid: string; readonly topic: string; readonly title?: string },
): Promise<void> {
  const folder = linkFolder(row)
  const sub = anonymousSender(latin1(row.token_hash), request.client ?? '')
  const caller: Caller = visitor?.caller ?? { kind: 'person', sub }
  const verbInfo: AuditedVerb = { id: `topics.${verb}`, resource: 'topics', key: ['jid', 'topic'], input: TopicKey }
  const { id: requestId, client: sourceIp, started } = request
  const origin = { host, caller, face: 'rest', requestId, ...(sourceIp === undefined ? {} : { sourceIp }) } as const
  const durationMs = Math.round(performance.now() - started)
  await writeAudit(tx, origin, verbInfo, { input, folder }, { result: 'ok', durationMs })
}
