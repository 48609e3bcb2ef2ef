// The append: what arrives by a link becomes a message, in one transaction with the check that the link is still there
// (decisions L5, L10, L11). Loaded by the writer's thread as well.

import { timestamp } from '../../lib/clock.ts'
import type { Dialect, Tx, Value } from '../../store/engine.ts'
import type { DeferredResult, LaneHandler } from '../../store/lanes/lane.ts'
import { MultiRowStatement } from '../../store/multi-row-statement.ts'
import { execute, query, text } from '../../store/statement.ts'
import type { Reach } from '../access/reach.ts'
import { addMessagesToChats } from '../chats/chat-events.ts'
import {
  deleteIdempotencyKeys,
  IDEMPOTENCY_TTL_MS,
  type IdempotencyKey,
  idempotencyKeys,
} from '../links/idempotency-keys.ts'
import { lockMessageNumbers, lockMessageOrder } from './messages.ts'

/** A message that came by a link. */
export interface LinkPost {
  readonly id: string
  /** The hash of the token, a letter for each byte: text is quicker to hand on and to compare. */
  readonly link: string
  /** Where a link from before targets were recorded delivers. */
  readonly old_target: string | null
  readonly sender: string
  readonly topic: string | null
  readonly content: Uint8Array
  readonly content_type: string | null
  readonly created_at: string
  /** Whether somebody waits for an answer. */
  readonly hasRound: boolean
  /** Where it may ask for more or less than its link says. */
  readonly reach: Reach | null
  /** What happened, where the sender is verified and says it outside of the body. */
  readonly event: string | null
  readonly key?: LinkPostKey | undefined
}

export interface LinkPostKey {
  readonly text: string
  /** Of the body, and of where it was sent to. */
  readonly digest: Uint8Array
  /** Whether the same key with another body is refused; else that is another message. */
  readonly isStrict: boolean
}

/**
 * What became of a post; given back only after the commit, so it is what an acknowledgement is written from. `repeated`
 * names the message that was there already.
 */
export type AppendResult =
  | 'appended'
  | 'unknown'
  | 'differs'
  | { readonly repeated: { readonly id: string; readonly created_at: string } }

const APPEND = new MultiRowStatement(
  {
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
  },
  `insert into messages (id, jid, target_folder, direction, kind, sender, topic, turn_id, link_context, content,
     content_type, idempotency_key, created_at, reach, event)
   select v.id, t.jid, coalesce(t.target_folder, v.old_target), 'in', 'message', v.sender, v.topic, v.turn_id, t.context,
     v.content, v.content_type, v.idempotency_key, v.created_at, coalesce(v.reach, t.tools), v.event
   from {rows} route_tokens t where t.token_hash = v.token_hash {in order}`,
)

const OPEN_ROUND = new MultiRowStatement(
  { message_seq: 'bigint' },
  `insert into rounds (id, jid, topic, target_folder, message_seq, status, last_seq, created_at)
   select m.id, m.jid, m.topic, m.target_folder, m.seq, 'pending', 0, m.created_at
   from {rows} messages m where m.seq = v.message_seq`,
)

function hashOf({ link }: Pick<LinkPost, 'link'>): Uint8Array {
  return Buffer.from(link, 'latin1')
}

function appendRow(post: LinkPost): Value[] {
  return [
    post.id,
    hashOf(post),
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
  ]
}

/** Whether each was appended. `isAll`: nothing else is done in this transaction. */
async function append(
  tx: Tx,
  dialect: Dialect,
  posts: readonly LinkPost[],
  isAll = false,
): Promise<readonly boolean[]> {
  const isLast = isAll && !posts.some(({ hasRound }) => hasRound)
  const numbers = await APPEND.insertReturningIds(tx, dialect, posts.map(appendRow), {
    key: 'id',
    counter: 'seq',
    isLast,
  })
  const opened: number[][] = []
  for (const [at, seq] of numbers.entries()) if (seq !== undefined && posts[at]?.hasRound) opened.push([seq])
  await OPEN_ROUND.run(tx, dialect, opened)
  return numbers.map((seq) => seq !== undefined)
}

/** What a post's key was used for within the last day. */
export async function knownKey(tx: Tx, post: LinkPost): Promise<IdempotencyKey | undefined> {
  if (!post.key) return undefined
  const oldest = timestamp(Date.parse(post.created_at) - IDEMPOTENCY_TTL_MS)
  const known = await idempotencyKeys.find(tx, { token_hash: hashOf(post), key: post.key.text })
  return known && known.created_at > oldest ? known : undefined
}

/** The first of a key is recorded; the next ones within a day get its answer. */
async function appendKeyed(tx: Tx, dialect: Dialect, post: LinkPost, key: LinkPostKey): Promise<AppendResult> {
  const { id, created_at } = post
  const token_hash = hashOf(post)
  const known = await knownKey(tx, post)
  const isKnown = known !== undefined
  if (isKnown && Buffer.from(known.digest).equals(key.digest))
    return { repeated: { id: known.message_id, created_at: known.created_at } }
  if (isKnown && key.isStrict) return 'differs'
  const [isStored] = await append(tx, dialect, [post])
  if (!isStored) return 'unknown'
  if (!isKnown)
    await idempotencyKeys.upsert(tx, { token_hash, key: key.text, digest: key.digest, message_id: id, created_at })
  return 'appended'
}

const KEYS_HINTED = 10

/** Names at most a few chats; `null` concerns every reader. */
export function notificationPayload({ keys }: DeferredResult): string {
  return JSON.stringify(keys === undefined || keys.length > KEYS_HINTED ? null : keys)
}

/** Keys are swept when messages have come for so long since the last time. */
const SWEEP_MS = 10 * 60_000
let sweptAt = 0

/** Time is what the messages say: the thread has no clock of its own. */
async function sweepKeys(tx: Tx): Promise<void> {
  const [last] = await query(
    tx,
    { created_at: text },
    'select created_at from messages where seq = (select last_seq from filing where id = 1)',
  )
  const now = Date.parse(last?.created_at ?? '')
  if (Number.isNaN(now) || Math.abs(now - sweptAt) < SWEEP_MS) return
  await deleteIdempotencyKeys(tx, timestamp(now - IDEMPOTENCY_TTL_MS))
  sweptAt = now
}

export const linkPostWork: LaneHandler<LinkPost, AppendResult> = {
  byteSize: ({ content }) => content.byteLength + 512,
  source: ({ link }) => link,
  isUrgent: ({ hasRound }) => hasRound,

  run: async (tx, dialect, posts, isAlone = false) => {
    await (isAlone ? lockMessageNumbers(tx, dialect) : lockMessageOrder(tx, dialect))
    const withoutKey = posts.filter(({ key }) => key === undefined)
    const stored = await append(tx, dialect, withoutKey, isAlone && withoutKey.length === posts.length)
    const verdicts: AppendResult[] = []
    let plain = 0
    for (const post of posts) {
      if (post.key) verdicts.push(await appendKeyed(tx, dialect, post, post.key))
      else verdicts.push(stored[plain++] ? 'appended' : 'unknown')
    }
    return verdicts
  },

  runDeferred: async (tx, dialect) => {
    await lockMessageOrder(tx, dialect)
    const tidied = await addMessagesToChats(tx)
    // For streams and runners of other processes.
    if (dialect.notifySql !== undefined && tidied.keys?.length !== 0)
      await execute(tx, dialect.notifySql, [notificationPayload(tidied)])
    await sweepKeys(tx)
    return tidied
  },
}
