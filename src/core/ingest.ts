// The append: what arrives by a link becomes a message, in one transaction with the check that the link is still there
// (decisions L5, L10, L11). Loaded by the writer's thread as well.

import { timestamp } from '../lib/clock.ts'
import type { Dialect, Tx, Value } from '../store/engine.ts'
import type { Packed, Tidied, Work } from '../store/lane.ts'
import { RowsStatement } from '../store/rows.ts'
import { run } from '../store/statement.ts'
import { fileMessages } from './chats.ts'
import { forgetKeys, idempotencyKeys, KEPT_MS, type KeyRow } from './idempotency.ts'
import { queueUp } from './messages.ts'
import type { Reach } from './reach.ts'

/** A message that came by a link. */
export interface Post {
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
  readonly key?: PostKey | undefined
}

export interface PostKey {
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
export type Verdict =
  | 'appended'
  | 'unknown'
  | 'differs'
  | { readonly repeated: { readonly id: string; readonly created_at: string } }

const APPEND = new RowsStatement(
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

const OPEN_ROUND = new RowsStatement(
  { message_seq: 'bigint' },
  `insert into rounds (id, jid, topic, target_folder, message_seq, status, last_seq, created_at)
   select m.id, m.jid, m.topic, m.target_folder, m.seq, 'pending', 0, m.created_at
   from {rows} messages m where m.seq = v.message_seq`,
)

function hashOf({ link }: Pick<Post, 'link'>): Uint8Array {
  return Buffer.from(link, 'latin1')
}

function appendRow({ key, hasRound, ...post }: Post): Value[] {
  return [
    post.id,
    hashOf(post),
    post.old_target,
    post.sender,
    post.topic,
    hasRound ? post.id : null,
    post.content,
    post.content_type,
    key?.text ?? null,
    post.created_at,
    post.reach,
    post.event,
  ]
}

/** Whether each was appended. */
async function append(tx: Tx, dialect: Dialect, posts: readonly Post[]): Promise<readonly boolean[]> {
  const numbers = await APPEND.counted(tx, dialect, posts.map(appendRow), { key: 'id', counter: 'seq' })
  const opened: number[][] = []
  for (const [at, seq] of numbers.entries()) if (seq !== undefined && posts[at]?.hasRound) opened.push([seq])
  await OPEN_ROUND.run(tx, dialect, opened)
  return numbers.map((seq) => seq !== undefined)
}

/** What a post's key was used for within the last day. */
export async function knownKey(tx: Tx, post: Post): Promise<KeyRow | undefined> {
  if (!post.key) return undefined
  const oldest = timestamp(Date.parse(post.created_at) - KEPT_MS)
  const known = await idempotencyKeys.find(tx, { token_hash: hashOf(post), key: post.key.text })
  return known && known.created_at > oldest ? known : undefined
}

/** The first of a key is recorded; the next ones within a day get its answer. */
async function appendKeyed(tx: Tx, dialect: Dialect, post: Post, key: PostKey): Promise<Verdict> {
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
const DIGEST_BYTES = 32
/** How many values of a post stand in a row. */
const VALUES = 13

function pack(posts: readonly Post[]): Packed {
  let length = 0
  for (const { content, key } of posts) length += content.byteLength + (key ? DIGEST_BYTES : 0)
  const bytes = new Uint8Array(length)
  const values: Packed['values'][number][] = []
  let at = 0
  for (const post of posts) {
    const { content, key } = post
    bytes.set(content, at)
    at += content.byteLength
    if (key) {
      bytes.set(key.digest, at)
      at += DIGEST_BYTES
    }
    values.push(
      post.id,
      post.link,
      post.old_target,
      post.sender,
      post.topic,
      content.byteLength,
      post.content_type,
      post.created_at,
      post.hasRound,
      post.reach,
      post.event,
      key ? key.text : null,
      key ? key.isStrict : null,
    )
  }
  return { values, bytes }
}

function unpack({ values, bytes }: Packed): readonly Post[] {
  const posts: Post[] = []
  let at = 0
  const cut = (length: number): Uint8Array => {
    at += length
    return bytes.subarray(at - length, at)
  }
  for (let from = 0; from < values.length; from += VALUES) {
    // As `pack` has put them.
    const [
      id,
      link,
      old_target,
      sender,
      topic,
      length,
      content_type,
      created_at,
      hasRound,
      reach,
      event,
      text,
      isStrict,
    ] = values.slice(from, from + VALUES) as [
      string,
      string,
      string | null,
      string,
      string | null,
      number,
      string | null,
      string,
      boolean,
      Reach | null,
      string | null,
      string | null,
      boolean,
    ]
    const content = cut(length)
    const key = text === null ? undefined : { text, isStrict, digest: cut(DIGEST_BYTES) }
    posts.push({ id, link, old_target, sender, topic, content, content_type, created_at, hasRound, reach, event, key })
  }
  return posts
}

/** Names at most a few chats: a hint without names concerns anybody. */
function hintOf({ keys = [] }: Tidied): string {
  return JSON.stringify(keys.length > KEYS_HINTED ? [] : keys)
}

/** Keys are swept when messages have come for so long since the last time. */
const SWEEP_MS = 10 * 60_000
let sweptAt = 0

/** Time is what the messages say: the thread has no clock of its own. */
async function sweepKeys(tx: Tx): Promise<void> {
  const { rows } = await run(
    tx,
    'select created_at from messages where seq = (select last_seq from filing where id = 1)',
  )
  const now = Date.parse(String(rows[0]?.created_at))
  if (Number.isNaN(now) || Math.abs(now - sweptAt) < SWEEP_MS) return
  await forgetKeys(tx, timestamp(now - KEPT_MS))
  sweptAt = now
}

export const work: Work<Post, Verdict> = {
  module: import.meta.url,
  weigh: ({ content }) => content.byteLength + 512,
  source: ({ link }) => link,
  isUrgent: ({ hasRound }) => hasRound,
  pack,
  unpack,

  run: async (tx, dialect, posts) => {
    await queueUp(tx, dialect)
    const stored = await append(
      tx,
      dialect,
      posts.filter(({ key }) => key === undefined),
    )
    const verdicts: Verdict[] = []
    let plain = 0
    for (const post of posts) {
      if (post.key) verdicts.push(await appendKeyed(tx, dialect, post, post.key))
      else verdicts.push(stored[plain++] ? 'appended' : 'unknown')
    }
    return verdicts
  },

  tidy: async (tx, dialect) => {
    await queueUp(tx, dialect)
    const tidied = await fileMessages(tx)
    // For streams and runners of other processes.
    if (dialect.hint !== undefined && tidied.keys?.length !== 0) await run(tx, dialect.hint, [hintOf(tidied)])
    await sweepKeys(tx)
    return tidied
  },
}
