// Events of chats, numbered per chat. Messages of links are added in the background after their acknowledgement, messages
// of turns in the transaction that records them.
import { z } from 'zod'
import type { StoredRow, Tx, Value } from '../../store/engine.ts'
import type { DeferredResult } from '../../store/lanes/lane.ts'
import { execute, flag, integer, oneOf, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { addReceivedBytes } from '../links/storage-use.ts'
import { BEFORE_FIRST_EVENT, batchLength, type Message, messages } from '../messages/messages.ts'
import { ChatName } from '../values.ts'
import { addAppendedTopic, addReceivedTopics } from './chat-topics.ts'

export const chatEvents = new Table({
  name: 'chat_events',
  row: z.object({
    jid: ChatName,
    seq: z.int(),
    kind: z.enum(['message', 'status', 'round_done']),
    message_seq: z.int().optional(),
    turn_id: z.string().optional(),
    topic: z.string().optional(),
  }),
  key: ['jid', 'seq'],
  storage: [
    ({ clusteredSql }) =>
      `create table chat_events (
         jid text not null, seq bigint not null, kind text not null, message_seq bigint, turn_id text, topic text,
         primary key (jid, seq))${clusteredSql}`,
    'create index chat_events_of_topic on chat_events (jid, topic, seq) where topic is not null',
  ],
})

/** Messages added in one transaction. */
const BATCH = 1000
/** Above this number of chats `keys` is omitted, and every listener reads its chat. */
const KEYS_MAX = 200

/**
 * Looks up the last number of each chat once, not per message: PostgreSQL would walk over all rows that the same statement
 * has inserted, which takes quadratic time per chat.
 */
const ADD_MESSAGES = `with fresh as materialized (
    select seq, jid, kind, turn_id, topic, row_number() over (partition by jid order by seq) as n
    from messages where seq > $1 and seq <= $2 and direction = 'in'),
  chat as materialized (
    select c.jid, coalesce((select max(e.seq) from chat_events e where e.jid = c.jid), ${BEFORE_FIRST_EVENT}) as last
    from (select distinct jid from fresh) as c)
  insert into chat_events (jid, seq, kind, message_seq, turn_id, topic)
  select fresh.jid, fresh.n + chat.last, fresh.kind, fresh.seq, fresh.turn_id, fresh.topic
  from fresh join chat on chat.jid = fresh.jid`

/** Adds the next received messages to their chats, in order of arrival. Call `lockMessageOrder` first. */
export async function addMessagesToChats(tx: Tx, limit = BATCH): Promise<DeferredResult> {
  const next = `(select seq, topic from messages where seq > f.last_seq order by seq limit ${limit}) as batch`
  const [batch] = await query(
    tx,
    { since: integer, until: optional(integer), has_topics: flag },
    `select f.last_seq as since, (select max(seq) from ${next}) as until,
       exists (select 1 from ${next} where topic is not null) as has_topics from filing f where f.id = 1`,
  )
  const { since = 0, until = 0, has_topics = false } = batch ?? {}
  if (until <= since) return { isMore: false, keys: [] }
  if (has_topics) await addReceivedTopics(tx, since, until)
  await execute(tx, ADD_MESSAGES, [since, until])
  const keys = await addReceivedBytes(tx, since, until)
  await execute(tx, 'update filing set last_seq = $1 where id = 1', [until])
  const isMore = until - since >= limit
  return keys.length > KEYS_MAX ? { isMore } : { isMore, keys }
}

interface NewChatEvent {
  readonly jid: string
  readonly kind: 'message' | 'status' | 'round_done'
  readonly message_seq?: number | undefined
  readonly turn_id?: string | undefined
  readonly topic?: string | undefined
}

/** Call `lockMessageOrder` first, so that no two events get the same number. */
export async function appendChatEvent(tx: Tx, event: NewChatEvent): Promise<void> {
  const { jid, kind, message_seq = null, turn_id = null, topic = null } = event
  await execute(tx, APPEND_EVENT, [jid, kind, message_seq, turn_id, topic])
  if (kind === 'message' && topic !== null && message_seq !== null) await addAppendedTopic(tx, jid, topic, message_seq)
}

/** The last number is found by one lookup in the primary key. */
const APPEND_EVENT = `insert into chat_events (jid, seq, kind, message_seq, turn_id, topic)
  values ($1, 1 + coalesce((select e.seq from chat_events e where e.jid = $1 order by e.seq desc limit 1), ${BEFORE_FIRST_EVENT}),
    $2, $3, $4, $5)`

/**
 * Removes events of a chat. The last one stays, empty: its number must not be given to another event, which readers that resume
 * would miss. Call `lockMessageOrder` first.
 */
export async function removeChatEvents(tx: Tx, jid: string, seqs: readonly number[]): Promise<void> {
  if (seqs.length === 0) return
  const last = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
  if (seqs.includes(last)) await execute(tx, EMPTY_EVENT, [jid, last])
  const removed = seqs.filter((seq) => seq !== last)
  if (removed.length === 0) return
  const sql = `delete from chat_events where jid = $1 and seq in (${placeholders(removed.length, 1)})`
  await execute(tx, sql, [jid, ...removed])
}

const EMPTY_EVENT = `update chat_events set kind = 'status', message_seq = null, turn_id = null, topic = null
  where jid = $1 and seq = $2`

/** Whether nothing is left in a chat but an empty event, and no message waits to be added to it. */
export async function isChatEmpty(tx: Tx, jid: string): Promise<boolean> {
  const sql = `select not exists (select 1 from chat_events where jid = $1 and (message_seq is not null or turn_id is not null))
    and not exists (select 1 from messages where seq > (select last_seq from filing where id = 1) and direction = 'in' and jid = $1) as is_empty`
  return (await queryOne(tx, { is_empty: flag }, sql, [jid])).is_empty
}

/** Removes the empty event of a chat that is gone. If the chat begins again, its numbers continue after all that were forgotten. */
export async function forgetEventNumbers(tx: Tx, jid: string): Promise<void> {
  const last = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
  await execute(tx, 'update filing set forgotten_seq = $1 where id = 1 and forgotten_seq < $1', [last])
  await chatEvents.remove(tx, { jid })
}

export interface ChatEvent {
  readonly seq: number
  readonly kind: 'message' | 'status' | 'round_done'
  readonly turn_id: string | undefined
  readonly topic: string | undefined
  readonly message: Message | undefined
}

export interface EventsRequest {
  readonly jid: string
  readonly after: number
  readonly limit: number
  /** Only this topic; empty for the main topic. */
  readonly topic?: string | undefined
  /** Exclusive. */
  readonly before?: number | undefined
}

/** Contents up to this size are read at once; larger ones only after their size is known. */
const SMALL_BYTES = 4096

const eventsQuery = (
  content: string,
): string => `select e.seq as at, e.kind as what, e.turn_id as turn, e.topic as about,
  coalesce(length(m.content), 0) as size, ${messages.columns.map((name) => (name === 'content' ? content : `m.${name}`)).join(', ')}
  from chat_events e left join messages m on m.seq = e.message_seq where e.jid = $1`
const EVENTS = eventsQuery('m.content')
const SMALL_EVENTS = eventsQuery(`case when length(m.content) <= ${SMALL_BYTES} then m.content end as content`)

/** Events of a chat after `after`, oldest first; fewer than `limit` if they are large. */
export async function eventsAfter(tx: Tx, request: EventsRequest): Promise<{ events: ChatEvent[]; isMore: boolean }> {
  const { jid, after, limit, before = Number.MAX_SAFE_INTEGER } = request
  const [onlyTopic, values] = topicCondition(request.topic, 5)
  const range = `and e.seq > $2 and e.seq < $4${onlyTopic}`
  const read = (select: string, max: number) =>
    query(tx, decodeEvent, `${select} ${range} order by e.seq limit $3`, [jid, after, max, before, ...values])
  const found = await read(SMALL_EVENTS, limit)
  const sizes = found.map(({ size }) => size)
  const count = batchLength(sizes)
  const isMore = count < sizes.length || sizes.length === limit
  const isLarge = sizes.slice(0, count).some((size) => size > SMALL_BYTES)
  const rows = isLarge ? await read(EVENTS, count) : found.slice(0, count)
  return { events: rows.map(({ event }) => event), isMore }
}

/** The number before the latest `limit` events of a chat; undefined if it has no events. */
export async function cursorBeforeLatest(tx: Tx, request: Omit<EventsRequest, 'after'>): Promise<number | undefined> {
  const { oldest } = await oldestOfLatest(tx, request)
  return oldest === undefined ? undefined : oldest - 1
}

/** The number of the first of the latest `limit` events, and how many there are. */
export function oldestOfLatest(
  tx: Tx,
  { jid, limit, topic, before = Number.MAX_SAFE_INTEGER }: Omit<EventsRequest, 'after'>,
): Promise<{ oldest: number | undefined; count: number }> {
  const [onlyTopic, values] = topicCondition(topic, 4)
  const latest = `select e.seq from chat_events e where e.jid = $1 and e.seq < $3${onlyTopic} order by e.seq desc limit $2`
  const sql = `select min(seq) as oldest, count(*) as count from (${latest}) as l`
  return queryOne(tx, { oldest: optional(integer), count: integer }, sql, [jid, limit, before, ...values])
}

/** The latest events of a chat before `before`, oldest first. */
export async function latestEvents(
  tx: Tx,
  {
    jid,
    limit,
    topic,
    before = Number.MAX_SAFE_INTEGER,
    only: kind,
  }: Omit<EventsRequest, 'after'> & { only?: 'message' },
): Promise<ChatEvent[]> {
  const [onlyTopic, values] = topicCondition(topic, 4)
  const onlyKind = kind === undefined ? '' : ` and e.kind = '${kind}'`
  const sql = `${EVENTS} and e.seq < $2${onlyTopic}${onlyKind} order by e.seq desc limit $3`
  const rows = await query(tx, decodeEvent, sql, [jid, before, limit, ...values])
  return rows.map(({ event }) => event).reverse()
}

/** The number of the last event of each chat. */
export async function lastEventNumbers(tx: Tx, jids: readonly string[]): Promise<Map<string, number>> {
  const named = jids.map((_, at) => `select cast($${at + 1} as text) as jid`).join(' union all ')
  // One lookup in the primary key per chat.
  const last = '(select e.seq from chat_events e where e.jid = c.jid order by e.seq desc limit 1)'
  const sql = `select c.jid, ${last} as last from (${named}) as c`
  const rows = await query(tx, { jid: text, last: optional(integer) }, sql, jids)
  return new Map(rows.flatMap(({ jid, last }) => (last === undefined ? [] : [[jid, last] as const])))
}

function topicCondition(topic: string | undefined, parameter: number): [string, Value[]] {
  if (topic === undefined) return ['', []]
  return topic === '' ? [' and e.topic is null', []] : [` and e.topic = $${parameter}`, [topic]]
}

const optionalText = optional(text)
const eventKind = oneOf(['message', 'status', 'round_done'])

function decodeEvent(row: StoredRow): { readonly event: ChatEvent; readonly size: number } {
  const event = {
    seq: integer(row.at, 'at'),
    kind: eventKind(row.what, 'what'),
    turn_id: optionalText(row.turn, 'turn'),
    topic: optionalText(row.about, 'about'),
    message: row.seq === null ? undefined : messages.decode(row),
  }
  return { event, size: integer(row.size, 'size') }
}
