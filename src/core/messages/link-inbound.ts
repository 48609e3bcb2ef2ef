// Appends posts of links as messages, in the transaction that checks that the link still exists. See docs/decisions.md#token-check-and-append.
import { timestamp } from '../../lib/clock.ts'
import type { Dialect, Tx, Value } from '../../store/engine.ts'
import type { DeferredResult, LaneHandler } from '../../store/lanes/lane.ts'
import { MultiRowStatement } from '../../store/multi-row-statement.ts'
import { execute, query, text } from '../../store/statement.ts'
import type { Reach } from '../access/reach.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import { chatTopics } from '../chats/chat-topics.ts'
import { type BranchResult, createBranch, type NewBranch } from '../chats/topic-branches.ts'
import { addChatFiles, type MessageFiles } from '../files/chat-files.ts'
import {
  deleteIdempotencyKeys,
  IDEMPOTENCY_TTL_MS,
  type IdempotencyKey,
  idempotencyKeys,
} from '../links/idempotency-keys.ts'
import { rounds } from '../turns/rounds.ts'
import { lockMessageNumbers, lockMessageOrder } from './messages.ts'

export interface LinkPost {
  readonly id: string
  /** Hash of the token as a latin1 string, which is faster to compare than bytes. */
  readonly link: string
  /** Target of a link that was minted before targets were recorded. */
  readonly old_target: string | null
  readonly sender: string
  readonly topic: string | null
  readonly content: Uint8Array
  readonly content_type: string | null
  readonly created_at: string
  /** End of the JID of the visitor's chat, at a link that keeps visitors apart. */
  readonly visitor: string | null
  /** Whether a client waits for an answer. */
  readonly hasRound: boolean
  /** Overrides the reach of the link. */
  readonly reach: Reach | null
  /** Event name that a verified sender gave in a header. */
  readonly event: string | null
  readonly key?: LinkPostKey | undefined
  /** Set if its topic is a new branch. */
  readonly branch?: NewBranch | undefined
  readonly files?: MessageFiles | undefined
  /** A `ClientContext` as JSON. */
  readonly client_context?: string | undefined
}

export interface LinkPostKey {
  readonly text: string
  /** Digest of the body and the target. */
  readonly digest: Uint8Array
  /** Whether the same key with another body is refused; otherwise that is another message. */
  readonly isStrict: boolean
  /** How long it counts; afterwards only until its round ends. Default: a day. */
  readonly ttlMs?: number
}

/**
 * Result of a post, returned after the commit and so safe to acknowledge. `repeated` names the existing message.
 */
export type AppendResult =
  | 'appended'
  | 'unknown'
  | 'differs'
  | Exclude<BranchResult, 'created'>
  | { readonly repeated: { readonly id: string; readonly created_at: string } }

const POST_COLUMNS = {
  id: 'text',
  token_hash: 'bytea',
  old_target: 'text',
  sender: 'text',
  topic: 'text',
  turn_id: 'text',
  content: 'bytea',
  content_type: 'text',
  idempotency_key: 'text',
  created_at: 'text',
  reach: 'text',
  event: 'text',
  client_context: 'text',
} as const

const appendSql = (jid: string): string =>
  `insert into messages (id, jid, target_folder, direction, kind, sender, topic, turn_id, link_context, content,
     content_type, idempotency_key, created_at, reach, event, client_context)
   select v.id, ${jid}, coalesce(t.target_folder, v.old_target), 'in', 'message', v.sender, v.topic, v.turn_id, t.context,
     v.content, v.content_type, v.idempotency_key, v.created_at, coalesce(v.reach, t.tools), v.event,
     v.client_context
   from {rows} route_tokens t where t.token_hash = v.token_hash {in order}`

const APPEND = new MultiRowStatement(POST_COLUMNS, appendSql('t.jid'))
/** For batches with visitors of their own chats. Webhooks come in larger numbers and have none. */
const APPEND_OF_VISITORS = new MultiRowStatement(
  { ...POST_COLUMNS, visitor: 'text' },
  appendSql("t.jid || coalesce(v.visitor, '')"),
)

const OPEN_ROUND = new MultiRowStatement(
  { message_seq: 'bigint' },
  `insert into rounds (id, jid, topic, target_folder, message_seq, status, last_seq, created_at)
   select m.id, m.jid, m.topic, m.target_folder, m.seq, 'pending', 0, m.created_at
   from {rows} messages m where m.seq = v.message_seq`,
)

function tokenHashOf({ link }: Pick<LinkPost, 'link'>): Uint8Array {
  return Buffer.from(link, 'latin1')
}

function appendRow(post: LinkPost): Value[] {
  return [
    post.id,
    tokenHashOf(post),
    post.old_target,
    post.sender,
    post.topic,
    post.hasRound ? post.id : null,
    post.content,
    post.content_type,
    post.key?.text ?? null,
    post.created_at,
    post.reach,
    post.event,
    post.client_context ?? null,
  ]
}

/** Returns whether each post was appended. `isAll`: the transaction does nothing else. */
async function append(
  tx: Tx,
  dialect: Dialect,
  posts: readonly LinkPost[],
  isAll = false,
): Promise<readonly boolean[]> {
  const isLast = isAll && !posts.some(({ hasRound }) => hasRound)
  const [statement, rowOf] = posts.some(({ visitor }) => visitor !== null)
    ? [APPEND_OF_VISITORS, (post: LinkPost) => [...appendRow(post), post.visitor]]
    : [APPEND, appendRow]
  const options = { key: 'id', counter: 'seq', isLast }
  const seqs = await statement.insertReturningIds(tx, dialect, posts.map(rowOf), options)
  const opened: number[][] = []
  for (const [at, seq] of seqs.entries()) if (seq !== undefined && posts[at]?.hasRound) opened.push([seq])
  await OPEN_ROUND.run(tx, dialect, opened)
  for (const [at, { files, created_at }] of posts.entries()) {
    const message_seq = seqs[at]
    if (files && message_seq !== undefined) await addChatFiles(tx, files, { message_seq, created_at })
  }
  return seqs.map((seq) => seq !== undefined)
}

/** Finds the unexpired earlier use of a post's key. */
export async function findUsedKey(tx: Tx, post: LinkPost): Promise<IdempotencyKey | undefined> {
  if (!post.key) return undefined
  const { text: key, ttlMs } = post.key
  const known = await idempotencyKeys.find(tx, { token_hash: tokenHashOf(post), key })
  const isWithin = (ms: number): boolean =>
    known !== undefined && known.created_at > timestamp(Date.parse(post.created_at) - ms)
  if (!isWithin(IDEMPOTENCY_TTL_MS)) return undefined
  if (ttlMs === undefined || isWithin(ttlMs)) return known
  return (await rounds.find(tx, { id: known?.message_id ?? '' }))?.status === 'pending' ? known : undefined
}

/** Records the first post with a key; repeats within a day get its result. See docs/decisions.md#idempotency-keys. */
async function appendSingly(tx: Tx, dialect: Dialect, post: LinkPost): Promise<AppendResult> {
  const { id, created_at, key, branch } = post
  const known = await findUsedKey(tx, post)
  if (known && key && Buffer.from(known.digest).equals(key.digest))
    return { repeated: { id: known.message_id, created_at: known.created_at } }
  if (known && key?.isStrict) return 'differs'
  const created = branch && (await createBranch(tx, branch, created_at))
  if (created !== undefined && created !== 'created') return created
  const [isStored] = await append(tx, dialect, [post])
  if (!isStored) {
    if (branch) await chatTopics.remove(tx, { jid: branch.jid, topic: branch.topic })
    return 'unknown'
  }
  if (key && !known) {
    const { text, digest } = key
    await idempotencyKeys.upsert(tx, { token_hash: tokenHashOf(post), key: text, digest, message_id: id, created_at })
  }
  return 'appended'
}

/**
 * Appends one post in a transaction of its own that also adds it to its chat. Returns the keys to signal after the commit;
 * undefined if there is no such link.
 */
export async function appendLinkPost(tx: Tx, dialect: Dialect, post: LinkPost): Promise<readonly string[] | undefined> {
  await lockMessageOrder(tx, dialect)
  const [isStored] = await append(tx, dialect, [post])
  if (!isStored) return undefined
  return (await addMessagesToChats(tx)).keys ?? []
}

const NOTIFIED_KEYS_MAX = 10

/** Names a few chats; `null` wakes every reader. */
export function notificationPayload({ keys }: DeferredResult): string {
  return JSON.stringify(keys === undefined || keys.length > NOTIFIED_KEYS_MAX ? null : keys)
}

/** Minimum interval between two sweeps of expired keys. */
const SWEEP_MS = 10 * 60_000

/** Uses the time of the latest message, because lane handlers have no clock. */
function openKeySweeper(): (tx: Tx) => Promise<void> {
  const sql = 'select created_at from messages where seq = (select last_seq from filing where id = 1)'
  let sweptAt = 0
  return async (tx) => {
    const [last] = await query(tx, { created_at: text }, sql)
    const now = Date.parse(last?.created_at ?? '')
    if (Number.isNaN(now) || Math.abs(now - sweptAt) < SWEEP_MS) return
    await deleteIdempotencyKeys(tx, timestamp(now - IDEMPOTENCY_TTL_MS))
    sweptAt = now
  }
}

/** Each handler remembers when it last swept the keys of its store. */
export function createLinkPostHandler(): LaneHandler<LinkPost, AppendResult> {
  const sweepKeys = openKeySweeper()
  return {
    byteSize: ({ content, client_context = '' }) => content.byteLength + client_context.length + 512,
    source: ({ link }) => link,
    isUrgent: ({ hasRound }) => hasRound,

    run: async (tx, dialect, posts, isAlone = false) => {
      await (isAlone ? lockMessageNumbers(tx, dialect) : lockMessageOrder(tx, dialect))
      const isPlain = ({ key, branch }: LinkPost): boolean => key === undefined && branch === undefined
      const plainPosts = posts.filter(isPlain)
      const stored = await append(tx, dialect, plainPosts, isAlone && plainPosts.length === posts.length)
      const results: AppendResult[] = []
      let plain = 0
      for (const post of posts) {
        if (!isPlain(post)) results.push(await appendSingly(tx, dialect, post))
        else results.push(stored[plain++] ? 'appended' : 'unknown')
      }
      return results
    },

    runDeferred: async (tx, dialect) => {
      await lockMessageOrder(tx, dialect)
      const added = await addMessagesToChats(tx)
      // Wakes streams and runners in other processes.
      if (dialect.notifySql !== undefined && added.keys?.length !== 0)
        await execute(tx, dialect.notifySql, [notificationPayload(added)])
      await sweepKeys(tx)
      return added
    },
  }
}
