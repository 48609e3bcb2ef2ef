// Finds the messages of one page of a chat: the newest before a time, by time and then by order of arrival. Events are
// numbered by arrival and have the time of svc's clock, so the two orders differ by a few rows at most. Messages fetched
// from a platform have the platform's time and an index of their own.
import type { Tx, Value } from '../../store/engine.ts'
import { subtree, withinSubtrees } from '../../store/sql-conditions.ts'
import { type DecodedRow, integer, query, text } from '../../store/statement.ts'
import { lastEventNumbers } from './chat-events.ts'
import { formatTimeCursor, isEarlierSql, type TimeCursor } from './time-cursor.ts'
import { segmentsOf } from './topic-branches.ts'

export interface ChatPageRequest {
  readonly jid: string
  readonly limit: number
  /** Exclusive. */
  readonly before?: TimeCursor | undefined
  /** With what it continues as a branch; empty for the main topic. */
  readonly topic?: string | undefined
  /** Only messages of these folders and their children, as the chat may have belonged to another folder. */
  readonly folders?: readonly string[] | undefined
}

interface ChatPage {
  /** `seq` of its messages, oldest first. */
  readonly seqs: readonly number[]
  /** `before` of the next page; empty if this page is empty. */
  readonly oldest: string
}

const POSITION = { seq: integer, at: text }
type Position = DecodedRow<typeof POSITION>

/** How many rows arrival and time may differ by, for messages that two processes commit at once. */
const SLACK = 200

export async function readChatPage(tx: Tx, request: ChatPageRequest): Promise<ChatPage> {
  const found = [
    ...(await findEvents(tx, request)),
    ...(await findPending(tx, request)),
    ...(await findFetched(tx, request)),
  ]
  const newest = found.sort((a, b) => (a.at === b.at ? b.seq - a.seq : a.at < b.at ? 1 : -1))
  const page = newest.slice(0, request.limit)
  const [last, next] = [page.at(-1), newest[request.limit]]
  const oldest = last === undefined ? '' : next?.at === last.at ? formatTimeCursor(last.at, last.seq) : last.at
  return { seqs: page.map(({ seq }) => seq).reverse(), oldest }
}

async function findEvents(tx: Tx, request: ChatPageRequest): Promise<Position[]> {
  const [last, limit] = [await lastEventBefore(tx, request), request.limit + SLACK]
  const found: Position[] = []
  for (const { topic, before = last + 1 } of (await segmentsOf(tx, request.jid, request.topic)).reverse()) {
    if (found.length >= limit) break
    const values: Value[] = [request.jid, Math.min(last, before - 1)]
    const only = conditions({ ...request, topic }, values, { topic: 'e.topic' })
    const sql = `from chat_events e join messages m on m.seq = e.message_seq
       where e.jid = $1 and e.seq <= $2 and e.kind = 'message'${only} order by e.seq desc`
    found.push(...(await findPositions(tx, sql, values, limit - found.length)))
  }
  return found
}

/** Acknowledged messages that are not in `chat_events` yet, so that senders see their own. */
function findPending(tx: Tx, request: ChatPageRequest): Promise<Position[]> {
  const values: Value[] = [request.jid]
  const only = conditions(request, values)
  const sql = `from messages m where m.seq > (select last_seq from filing where id = 1)
       and m.direction = 'in' and m.kind = 'message' and m.jid = $1${only} order by m.seq desc`
  return findPositions(tx, sql, values, request.limit + SLACK)
}

function findFetched(tx: Tx, request: ChatPageRequest): Promise<Position[]> {
  const values: Value[] = [request.jid]
  const only = conditions(request, values, { at: 'f.created_at', seq: 'f.message_seq' })
  const sql = `from fetched f join messages m on m.seq = f.message_seq where f.jid = $1${only}
     order by f.created_at desc, f.message_seq desc`
  return findPositions(tx, sql, values, request.limit + 1)
}

function findPositions(tx: Tx, sql: string, values: readonly Value[], limit: number): Promise<Position[]> {
  const limited = `select m.seq, m.created_at as at ${sql} limit $${values.length + 1}`
  return query(tx, POSITION, limited, [...values, limit])
}

/** Columns with the index that is used. */
type Columns = Record<'at' | 'seq' | 'topic', string>

/** The SQL conditions of a request; appends their values to `values`. */
function conditions(
  { before, topic, folders }: ChatPageRequest,
  values: Value[],
  columns: Partial<Columns> = {},
): string {
  const of = { at: 'm.created_at', seq: 'm.seq', topic: 'm.topic', ...columns }
  const all: string[] = []
  const parameter = (value: Value): string => `$${values.push(value)}`
  if (before) {
    const at = parameter(before.at)
    all.push(
      `${of.at} <= ${at} and (${of.at} < ${at} or ${isEarlierSql(of.seq, `cast(${parameter(before.fine)} as integer)`)})`,
    )
  }
  // The main topic is stored as null.
  if (topic !== undefined) all.push(topic === '' ? `${of.topic} is null` : `${of.topic} = ${parameter(topic)}`)
  if (folders) {
    all.push(`(m.target_folder is null or ${withinSubtrees('m.target_folder', folders.length, values.length)})`)
    values.push(...folders.flatMap(subtree))
  }
  return all.map((condition) => ` and ${condition}`).join('')
}

/** The number of an event after which no message is before the requested time, found by binary search. */
async function lastEventBefore(tx: Tx, { jid, before }: ChatPageRequest): Promise<number> {
  let high = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
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
