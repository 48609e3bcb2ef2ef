// Chats: what happened in each, with a sequence of its own. Messages of links are filed here behind their
// acknowledgement; what a turn says is put here in the transaction that records it.
import { z } from 'zod'
import type { StoredRow, Tx, Value } from '../../store/engine.ts'
import type { DeferredResult } from '../../store/lanes/lane.ts'
import { execute, integer, oneOf, optional, query, queryOne, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { addReceivedBytes } from '../links/storage-use.ts'
import { batchLength, type Message, messages } from '../messages/messages.ts'
import { ChatName } from '../values.ts'

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

/** How many messages are filed in one transaction. */
const PIECE = 1000
/** More chats than these are not named: whoever listens looks at all of his. */
const KEYS_NAMED = 200

/**
 * The end of each chat is looked up once, not for each of its messages: PostgreSQL would walk back over all that the same
 * statement has inserted behind it, so the time would grow with the square of the messages in a chat.
 */
const FILE = `with fresh as materialized (
    select seq, jid, kind, turn_id, topic, row_number() over (partition by jid order by seq) as n
    from messages where seq > $1 and seq <= $2 and direction = 'in'),
  chat as materialized (
    select c.jid, coalesce((select max(e.seq) from chat_events e where e.jid = c.jid), 0) as last
    from (select distinct jid from fresh) as c)
  insert into chat_events (jid, seq, kind, message_seq, turn_id, topic)
  select fresh.jid, fresh.n + chat.last, fresh.kind, fresh.seq, fresh.turn_id, fresh.topic
  from fresh join chat on chat.jid = fresh.jid`

/** Files the next messages that arrived under their chats, in the order of their arrival. Behind `queueUp`. */
export async function addMessagesToChats(tx: Tx, limit = PIECE): Promise<DeferredResult> {
  const [piece] = await query(
    tx,
    { since: integer, until: optional(integer) },
    `select f.last_seq as since, (select max(seq) from (select seq from messages where seq > f.last_seq
       order by seq limit ${limit}) as piece) as until from filing f where f.id = 1`,
  )
  const { since = 0, until = 0 } = piece ?? {}
  if (until <= since) return { isMore: false, keys: [] }
  await execute(tx, FILE, [since, until])
  const touched = await addReceivedBytes(tx, since, until)
  await execute(tx, 'update filing set last_seq = $1 where id = 1', [until])
  const isMore = until - since >= limit
  return touched.length > KEYS_NAMED ? { isMore } : { isMore, keys: touched }
}

export interface NewChatEvent {
  readonly jid: string
  readonly kind: 'message' | 'status' | 'round_done'
  readonly message_seq?: number | undefined
  readonly turn_id?: string | undefined
  readonly topic?: string | undefined
}

/** What happened next in a chat. Behind `queueUp`: else two would be given the same number. */
export async function appendChatEvent(tx: Tx, entry: NewChatEvent): Promise<void> {
  const { jid, kind, message_seq = null, turn_id = null, topic = null } = entry
  await execute(tx, ENTER, [jid, kind, message_seq, turn_id, topic])
}

/** The number after the last: at the end of the chat's part of the key. */
const ENTER = `insert into chat_events (jid, seq, kind, message_seq, turn_id, topic)
  values ($1, 1 + coalesce((select e.seq from chat_events e where e.jid = $1 order by e.seq desc limit 1), 0), $2, $3, $4, $5)`

/** An event of a chat with the message that it is about. */
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
  /** Only this topic's; the main topic is the empty text. */
  readonly topic?: string | undefined
}

/** Of a content that is read before its size is known. */
const SMALL_BYTES = 4096

const eventsQuery = (
  content: string,
): string => `select e.seq as at, e.kind as what, e.turn_id as turn, e.topic as about,
  coalesce(length(m.content), 0) as size, ${messages.columns.map((name) => (name === 'content' ? content : `m.${name}`)).join(', ')}
  from chat_events e left join messages m on m.seq = e.message_seq where e.jid = $1`
const EVENTS = eventsQuery('m.content')
const SMALL_EVENTS = eventsQuery(`case when length(m.content) <= ${SMALL_BYTES} then m.content end as content`)

/** What happened in a chat after `after`, oldest first: `limit` events, or fewer where they are large. */
export async function eventsAfter(tx: Tx, request: EventsRequest): Promise<{ events: ChatEvent[]; isMore: boolean }> {
  const [only, values] = ofTopic(request.topic, 4)
  const read = (what: string, limit: number) =>
    query(tx, decodeEvent, `${what} and e.seq > $2${only} order by e.seq limit $3`, [
      request.jid,
      request.after,
      limit,
      ...values,
    ])
  const found = await read(SMALL_EVENTS, request.limit)
  const sizes = found.map(({ size }) => size)
  const count = batchLength(sizes)
  const isMore = count < sizes.length || sizes.length === request.limit
  const isLarge = sizes.slice(0, count).some((size) => size > SMALL_BYTES)
  const rows = isLarge ? await read(EVENTS, count) : found.slice(0, count)
  return { events: rows.map(({ event }) => event), isMore }
}

/** The number before the oldest of the latest `limit` events of a chat; nothing where there is none. */
export async function beforeLatest(tx: Tx, request: Omit<EventsRequest, 'after'>): Promise<number | undefined> {
  const [only, values] = ofTopic(request.topic, 3)
  const latest = `select e.seq from chat_events e where e.jid = $1${only} order by e.seq desc limit $2`
  const sql = `select min(seq) as oldest from (${latest}) as l`
  const { oldest } = await queryOne(tx, { oldest: optional(integer) }, sql, [request.jid, request.limit, ...values])
  return oldest === undefined ? undefined : oldest - 1
}

/** The latest of what happened in a chat before `before`, oldest first. */
export async function latestEvents(
  tx: Tx,
  {
    jid,
    limit,
    topic,
    before = Number.MAX_SAFE_INTEGER,
    only: kind,
  }: Omit<EventsRequest, 'after'> & { before?: number; only?: 'message' },
): Promise<ChatEvent[]> {
  const [only, values] = ofTopic(topic, 4)
  const ofKind = kind === undefined ? '' : ` and e.kind = '${kind}'`
  const sql = `${EVENTS} and e.seq < $2${only}${ofKind} order by e.seq desc limit $3`
  const rows = await query(tx, decodeEvent, sql, [jid, before, limit, ...values])
  return rows.map(({ event }) => event).reverse()
}

/** The number of the last event of each of these chats. */
export async function lastEvents(tx: Tx, jids: readonly string[]): Promise<Map<string, number>> {
  const named = jids.map((_, at) => `select cast($${at + 1} as text) as jid`).join(' union all ')
  // The end of each one's part of the key: no chat is read through.
  const last = '(select e.seq from chat_events e where e.jid = c.jid order by e.seq desc limit 1)'
  const sql = `select c.jid, ${last} as last from (${named}) as c`
  const rows = await query(tx, { jid: text, last: optional(integer) }, sql, jids)
  return new Map(rows.flatMap(({ jid, last }) => (last === undefined ? [] : [[jid, last] as const])))
}

function ofTopic(topic: string | undefined, mark: number): [string, Value[]] {
  if (topic === undefined) return ['', []]
  return topic === '' ? [' and e.topic is null', []] : [` and e.topic = $${mark}`, [topic]]
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
