// Which messages of a chat a page has: the newest before a moment, by time and then by the order of arrival. A chat's events
// stand in the order of arrival, and our clock is what gives them their time, so the two orders differ by a few rows at most;
// what was fetched from a platform has the platform's time and an index of its own.

import type { Tx, Value } from '../../store/engine.ts'
import { subtree, withinSubtrees } from '../../store/sql-conditions.ts'
import { integer, query, text } from '../../store/statement.ts'
import { lastEvents } from './chat-events.ts'
import { formatTimeCursor, isEarlierSql, type TimeCursor } from './time-cursor.ts'

export interface ChatPageRequest {
  readonly jid: string
  readonly limit: number
  /** Exclusive. */
  readonly before?: TimeCursor | undefined
  /** The main one is the empty text. */
  readonly topic?: string | undefined
  /** Only what was said with these folders or below them, where the chat may have had another owner. */
  readonly folders?: readonly string[] | undefined
}

export interface ChatPage {
  /** The numbers of its messages, the oldest first. */
  readonly seqs: readonly number[]
  /** What `before` of the next page is; empty where this one is empty. */
  readonly oldest: string
}

interface Stamped {
  readonly seq: number
  readonly at: string
}
const STAMPED = { seq: integer, at: text }

/** So far apart may arrival and time be: messages of one moment that two processes commit. */
const SLACK = 200

export async function readChatPage(tx: Tx, ask: ChatPageRequest): Promise<ChatPage> {
  const found = [...(await filed(tx, ask)), ...(await unfiled(tx, ask)), ...(await fetchedEarlier(tx, ask))]
  const newest = found.sort((a, b) => (a.at === b.at ? b.seq - a.seq : a.at < b.at ? 1 : -1))
  const page = newest.slice(0, ask.limit)
  const [last, next] = [page.at(-1), newest[ask.limit]]
  const oldest = last === undefined ? '' : next?.at === last.at ? formatTimeCursor(last.at, last.seq) : last.at
  return { seqs: page.map(({ seq }) => seq).reverse(), oldest }
}

async function filed(tx: Tx, ask: ChatPageRequest): Promise<Stamped[]> {
  const values: Value[] = [ask.jid, await placeIn(tx, ask)]
  const only = conditions(ask, values, { topic: 'e.topic' })
  return query(
    tx,
    STAMPED,
    `select m.seq, m.created_at as at from chat_events e join messages m on m.seq = e.message_seq
     where e.jid = $1 and e.seq <= $2 and e.kind = 'message'${only}
     order by e.seq desc limit $${values.length + 1}`,
    [...values, ask.limit + SLACK],
  )
}

/** What is acknowledged already and stands in no chat yet: whoever has sent something finds it. */
async function unfiled(tx: Tx, ask: ChatPageRequest): Promise<Stamped[]> {
  const values: Value[] = [ask.jid]
  const only = conditions(ask, values)
  return query(
    tx,
    STAMPED,
    `select m.seq, m.created_at as at from messages m where m.seq > (select last_seq from filing where id = 1)
       and m.direction = 'in' and m.kind = 'message' and m.jid = $1${only}
     order by m.seq desc limit $${values.length + 1}`,
    [...values, ask.limit + SLACK],
  )
}

async function fetchedEarlier(tx: Tx, ask: ChatPageRequest): Promise<Stamped[]> {
  const values: Value[] = [ask.jid]
  const only = conditions(ask, values, { at: 'f.created_at', seq: 'f.message_seq' })
  return query(
    tx,
    STAMPED,
    `select m.seq, m.created_at as at from fetched f join messages m on m.seq = f.message_seq where f.jid = $1${only}
     order by f.created_at desc, f.message_seq desc limit $${values.length + 1}`,
    [...values, ask.limit + 1],
  )
}

/** Where the index is that finds a row by it. */
type Columns = Record<'at' | 'seq' | 'topic', string>

/** What every row must be; `values` grows by what it names. */
function conditions(
  { before, topic, folders }: ChatPageRequest,
  values: Value[],
  columns: Partial<Columns> = {},
): string {
  const of = { at: 'm.created_at', seq: 'm.seq', topic: 'm.topic', ...columns }
  const all: string[] = []
  const mark = (value: Value): string => `$${values.push(value)}`
  if (before) {
    const at = mark(before.at)
    all.push(
      `${of.at} <= ${at} and (${of.at} < ${at} or ${isEarlierSql(of.seq, `cast(${mark(before.fine)} as integer)`)})`,
    )
  }
  // The main topic is stored as none.
  if (topic !== undefined) all.push(topic === '' ? `${of.topic} is null` : `${of.topic} = ${mark(topic)}`)
  if (folders) {
    all.push(`(m.target_folder is null or ${withinSubtrees('m.target_folder', folders.length, values.length)})`)
    values.push(...folders.flatMap(subtree))
  }
  return all.map((condition) => ` and ${condition}`).join('')
}

/** The event of the chat behind which nothing is before the moment. */
async function placeIn(tx: Tx, { jid, before }: ChatPageRequest): Promise<number> {
  let high = (await lastEvents(tx, [jid])).get(jid) ?? 0
  if (!before) return high
  const last = high
  let low = 0
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    const [row] = await query(
      tx,
      { at: text },
      `select m.created_at as at from chat_events e join messages m on m.seq = e.message_seq
       where e.jid = $1 and e.seq <= $2 and e.kind = 'message' order by e.seq desc limit 1`,
      [jid, middle],
    )
    if (row === undefined || row.at <= before.at) low = middle
    else high = middle - 1
  }
  return Math.min(low + SLACK, last)
}
