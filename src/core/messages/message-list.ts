// The list of messages for operators: newest first, received and sent, with filters. Each filter reads through an index, or
// examines a limited number of rows per page; a page that reaches the limit says how far back it has looked.
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import { readCursor, writeCursor } from '../../store/cursor.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { listPaths } from '../../store/path-list.ts'
import { bytes, integer, oneOf, optional, placeholders, query, text } from '../../store/statement.ts'
import { INSTANCE_SENDER, OutboxState } from '../delivery/outbox.ts'
import { IS_OPEN } from '../turns/turn-rules.ts'
import { firstIdAt } from './id-times.ts'
import { InboxState, IS_UNSUCCESSFUL } from './inbox.ts'
import { REDELIVERABLE_STATES, RETRYABLE_STATES } from './message-retries.ts'
import { listMessageStates, readRoutedSeq } from './message-states.ts'
import { contentStart, decodeContent } from './messages.ts'

export const MessageDirection = z.enum(['in', 'out', 'all'])

/** States of received and of sent messages. `failed` is a state of both. */
export const ListedState = z.enum([...InboxState.options, ...OutboxState.exclude(['failed']).options])
export type ListedState = z.output<typeof ListedState>

export const ListedMessage = z.object({
  seq: z.int(),
  id: z.string(),
  direction: z.enum(['in', 'out']),
  created_at: z.string(),
  state: ListedState,
  folder: z.string().optional(),
  topic: z.string(),
  chat: z.string(),
  sender: z.string(),
  text: z.string().describe('Beginning of its text'),
  reason: z.string().optional().describe('Reason for the state, or the error of the last delivery'),
  turn_id: z.string().optional(),
  can_retry: z.boolean(),
})
export type ListedMessage = z.output<typeof ListedMessage>

export interface MessageListFilter {
  readonly folder?: string | undefined
  readonly state?: ListedState | undefined
  readonly chat?: string | undefined
  readonly sender?: string | undefined
  readonly direction: z.output<typeof MessageDirection>
  /** Arrived at this time or later, in milliseconds since 1970. */
  readonly since?: number | undefined
  /** Arrived before this time. */
  readonly until?: number | undefined
}

export interface MessageListRequest extends MessageListFilter {
  readonly limit: number
  readonly after?: string | undefined
  /** Subtrees that the caller may see; absent: every folder. */
  readonly roots?: readonly string[] | undefined
  /** Whether the caller may see messages of this folder; undefined for messages that no folder has. */
  readonly maySee: (folder: string | undefined) => boolean
}

export interface MessageListPage {
  readonly messages: ListedMessage[]
  readonly next?: string
  /** Set if the page is not full because many rows were examined: messages before this time were not examined. */
  readonly searched_back_to?: string
}

/** Rows examined by one statement, and by one page. */
const CHUNK_ROWS = 5000
const EXAMINED_MAX = 40_000
/** With more folders than this, one pass over all rows is faster than a search in each folder. */
const FOLDERS_MAX = 50
/** A sender with more messages is not found by the index of senders in a chat or a folder. */
const RARE_MAX = 500
/** Ids are in the order of arrival, but concurrent transactions may commit in another order. */
const ORDER_SLACK = 1000

const TEXT_BYTES = 400

interface FoundMessage {
  readonly seq: number
  readonly folder: string | undefined
  readonly direction: 'in' | 'out'
}

/** Rows of one table in descending order, of which a part has been examined. */
interface MessageSource {
  readonly direction: 'in' | 'out'
  readonly from: 'inbox' | 'outbox' | 'messages'
  /** Found by an index. */
  readonly indexed: SqlCondition
  /** Whether that index does not have the order of the list; `+` keeps the engines from the index that has it. */
  readonly isUnordered?: boolean
  /** Tested for each row that is examined. */
  readonly rest: SqlCondition
  /** Everything with this or a higher number has been examined; 0 at the end. */
  examinedTo: number
}

/** Each `$` stands for the next value. */
interface SqlCondition {
  readonly sql: readonly string[]
  readonly values: readonly Value[]
}

export async function listMessages(tx: Tx, request: MessageListRequest): Promise<MessageListPage> {
  const { limit, maySee } = request
  const before = request.after === undefined ? Number.MAX_SAFE_INTEGER : readListPosition(request.after)
  const sources = await openSources(tx, request, before)
  const found: FoundMessage[] = []
  let [examined, size] = [0, limit + 1]
  const horizon = (): number => Math.max(0, ...sources.map(({ examinedTo }) => examinedTo))
  const countSettled = (): number => found.filter(({ seq }) => seq >= horizon()).length
  while (horizon() > 0 && countSettled() <= limit && examined < EXAMINED_MAX) {
    const source = sources.reduce((one, other) => (other.examinedTo > one.examinedTo ? other : one))
    const chunk = await readChunk(tx, source, size)
    const visible = chunk.rows.filter(({ folder }) => maySee(folder))
    examined += chunk.examined
    found.push(...visible)
    if (visible.length < chunk.rows.length) size = CHUNK_ROWS
  }
  const end = horizon()
  const settled = found.filter(({ seq }) => seq >= end).toSorted((one, other) => other.seq - one.seq)
  const page = settled.slice(0, limit)
  const messages = await readListed(tx, page)
  const last = page.at(-1)
  if (settled.length > limit && last) return { messages, next: writeCursor([last.seq]) }
  if (end === 0) return { messages }
  const searched_back_to = await readArrivalFrom(tx, end)
  return { messages, next: writeCursor([end]), ...(searched_back_to === undefined ? {} : { searched_back_to }) }
}

/** A cursor of this list has one positive number. */
export function readListPosition(cursor: string): number {
  const [seq, ...more] = readCursor(cursor) ?? []
  if (typeof seq === 'number' && Number.isSafeInteger(seq) && seq > 0 && more.length === 0) return seq
  return refuse('invalid', 'after is not a cursor of this list', 'use the `next` of the previous page')
}

/** When the message with this number, or the next one, arrived. */
export async function readArrivalFrom(tx: Tx, seq: number): Promise<string | undefined> {
  const sql = 'select created_at from messages where seq >= $1 order by seq limit 1'
  return (await query(tx, { created_at: text }, sql, [seq]))[0]?.created_at
}

async function openSources(tx: Tx, request: MessageListRequest, before: number): Promise<MessageSource[]> {
  const { direction, state } = request
  const sources: MessageSource[] = []
  const isFor = (states: readonly string[]): boolean => state === undefined || states.includes(state)
  if (direction !== 'out' && isFor(InboxState.options)) {
    sources.push(...(await receivedSources(tx, request, before)))
    if (isFor(['waiting'])) sources.push(await unroutedSource(tx, request, before))
  }
  if (direction !== 'in' && isFor(OutboxState.options)) sources.push(await sentSource(tx, request, before))
  return sources
}

async function receivedSources(tx: Tx, request: MessageListRequest, before: number): Promise<MessageSource[]> {
  const { folder, chat, state, sender, roots } = request
  const bounds = await timeBounds(tx, 'inbox', request)
  const source = (indexed: SqlCondition): MessageSource => ({
    direction: 'in',
    from: 'inbox',
    indexed: join(indexed, bounds.indexed),
    rest: join(equals({ folder, jid: chat, state, sender }), bounds.rest),
    examinedTo: before,
  })
  const open = state === undefined ? undefined : OPEN_ROWS[state]
  if (open !== undefined) return [{ ...source({ sql: [open], values: [] }), isUnordered: true }]
  if (state !== undefined && RETRYABLE_STATES.includes(state)) return [source({ sql: [IS_UNSUCCESSFUL], values: [] })]
  if (sender !== undefined && (await isRareSender(tx, sender))) return [source(equals({ sender }))]
  if (chat !== undefined) return [source(equals({ jid: chat }))]
  if (folder !== undefined) return [source(equals({ folder }))]
  // Removed groups have messages, too.
  const folders = roots && (await listPaths(tx, { table: 'inbox', column: 'folder', roots, max: FOLDERS_MAX }))
  if (folders) return folders.map((each) => source(equals({ folder: each })))
  return [source(equals({ sender }))]
}

/** Whether a few rows are all messages of the sender. Those of other senders may be fewer in a chat or a folder. */
async function isRareSender(tx: Tx, sender: string): Promise<boolean> {
  const sql = `select 1 as found from inbox where sender = $1 order by message_seq limit 1 offset ${RARE_MAX}`
  return (await query(tx, { found: integer }, sql, [sender])).length === 0
}

/** Rows that are not final are few, and have small indexes. */
const OPEN_ROWS: Readonly<Partial<Record<ListedState, string>>> = {
  waiting: `state = 'waiting'`,
  running: `turn_id in (select id from turns where ${IS_OPEN})`,
  delegated: 'waits_for is not null',
}

/** Messages that the router has not reached. */
async function unroutedSource(tx: Tx, request: MessageListRequest, before: number): Promise<MessageSource> {
  const { folder, chat, sender } = request
  const routed = await readRoutedSeq(tx)
  const isNew = `direction = 'in' and not exists (select 1 from inbox i where i.message_seq = c.seq)`
  return {
    direction: 'in',
    from: 'messages',
    indexed: { sql: ['seq > $'], values: [routed] },
    rest: join({ sql: [isNew], values: [] }, join(equals({ folder, jid: chat, sender }), idRange(request))),
    examinedTo: before,
  }
}

async function sentSource(tx: Tx, request: MessageListRequest, before: number): Promise<MessageSource> {
  const { folder, chat, state, sender } = request
  const bounds = await timeBounds(tx, 'outbox', request)
  const isFailed = state !== undefined && REDELIVERABLE_STATES.includes(state)
  return {
    direction: 'out',
    from: 'outbox',
    indexed: join({ sql: isFailed ? [`state in ('failed', 'unknown')`] : [], values: [] }, bounds.indexed),
    rest: join(equals({ folder, jid: chat, state }), join(sentBy(sender), bounds.rest)),
    examinedTo: before,
  }
}

/** The sender of a message is its folder. */
function sentBy(sender: string | undefined): SqlCondition {
  return sender === INSTANCE_SENDER ? { sql: ['folder is null'], values: [] } : equals({ folder: sender })
}

const COLUMNS: Readonly<Record<MessageSource['from'], string>> = {
  inbox: 'message_seq as seq, id, jid, folder, sender, state',
  outbox: 'message_seq as seq, id, jid, folder, state',
  messages: 'seq, id, jid, target_folder as folder, sender, direction',
}

/** Examines the next rows of the source, and returns those that match, up to a limit. */
async function readChunk(
  tx: Tx,
  source: MessageSource,
  limit: number,
): Promise<{ rows: readonly FoundMessage[]; examined: number }> {
  const { from, indexed, rest, direction, examinedTo, isUnordered = false } = source
  const key = `${isUnordered ? '+' : ''}${from === 'messages' ? 'seq' : 'message_seq'}`
  const values: Value[] = []
  const mark = (condition: SqlCondition): string[] => {
    const given = condition.values.values()
    return condition.sql.map((sql) => sql.replaceAll('$', () => `$${values.push(given.next().value ?? null)}`))
  }
  const inner = mark({ sql: [...indexed.sql, `${key} < $`], values: [...indexed.values, examinedTo] })
  const tail = `from ${from} where ${inner.join(' and ')} order by ${key} desc`
  const innerValues = [...values]
  const outer = mark(rest)
  const filter = outer.length === 0 ? '' : ` where ${outer.join(' and ')}`
  const rows = await query(
    tx,
    { seq: integer, folder: optional(text) },
    `select c.seq, c.folder from (select ${COLUMNS[from]} ${tail} limit ${CHUNK_ROWS}) as c${filter}
     order by c.seq desc limit ${limit}`,
    values,
  )
  const found = rows.map((row) => ({ ...row, direction }))
  if (rows.length === limit) {
    source.examinedTo = rows.at(-1)?.seq ?? 0
    return { rows: found, examined: limit }
  }
  // The last row of a full chunk; without one the source has ended.
  const lastOfChunk = `select ${key} as seq ${tail} limit 1 offset ${CHUNK_ROWS - 1}`
  const [last] = await query(tx, { seq: integer }, lastOfChunk, innerValues)
  source.examinedTo = last?.seq ?? 0
  return { rows: found, examined: CHUNK_ROWS }
}

function equals(columns: Readonly<Record<string, string | undefined>>): SqlCondition {
  const given = Object.entries(columns).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value] as const],
  )
  return { sql: given.map(([name]) => `${name} = $`), values: given.map(([, value]) => value) }
}

function join(one: SqlCondition, other: SqlCondition): SqlCondition {
  return { sql: [...one.sql, ...other.sql], values: [...one.values, ...other.values] }
}

/** The time of arrival is in the id; the number of the first message of that time limits what is examined. */
async function timeBounds(
  tx: Tx,
  table: 'inbox' | 'outbox',
  filter: Pick<MessageListFilter, 'since' | 'until'>,
): Promise<{ indexed: SqlCondition; rest: SqlCondition }> {
  const numberAt = async (ms: number): Promise<number | undefined> => {
    const sql = `select message_seq from ${table} where id >= $1 order by id limit 1`
    return (await query(tx, { message_seq: integer }, sql, [firstIdAt(ms)]))[0]?.message_seq
  }
  const { since, until } = filter
  const sql: string[] = []
  const values: Value[] = []
  if (since !== undefined) {
    sql.push('message_seq >= $')
    values.push(((await numberAt(since)) ?? Number.MAX_SAFE_INTEGER) - ORDER_SLACK)
  }
  const last = until === undefined ? undefined : await numberAt(until)
  if (last !== undefined) {
    sql.push('message_seq <= $')
    values.push(last + ORDER_SLACK)
  }
  return { indexed: { sql, values }, rest: idRange(filter) }
}

function idRange({ since, until }: Pick<MessageListFilter, 'since' | 'until'>): SqlCondition {
  const parts = [
    ...(since === undefined ? [] : [['id >= $', firstIdAt(since)] as const]),
    ...(until === undefined ? [] : [['id < $', firstIdAt(until)] as const]),
  ]
  return { sql: parts.map(([sql]) => sql), values: parts.map(([, value]) => value) }
}

/** Messages by their ids, in the order of the ids; unknown ids are skipped. */
export async function readListedByIds(tx: Tx, ids: readonly string[]): Promise<ListedMessage[]> {
  if (ids.length === 0) return []
  const numbers = async (table: string, direction: 'in' | 'out', only = ''): Promise<FoundMessage[]> => {
    const key = table === 'messages' ? 'seq' : 'message_seq'
    const sql = `select ${key} as seq from ${table} where ${only}id in (${placeholders(ids.length)})`
    return (await query(tx, { seq: integer }, sql, ids)).map(({ seq }) => ({ seq, direction, folder: undefined }))
  }
  const unrouted = `seq > (select last_seq from routing where id = 1) and direction = 'in' and `
  const found = [
    ...(await numbers('inbox', 'in')),
    ...(await numbers('outbox', 'out')),
    ...(await numbers('messages', 'in', unrouted)),
  ]
  const bySeq = new Map(found.map((each) => [each.seq, each]))
  const byId = new Map((await readListed(tx, [...bySeq.values()])).map((message) => [message.id, message]))
  return ids.flatMap((id) => byId.get(id) ?? [])
}

async function readListed(tx: Tx, page: readonly FoundMessage[]): Promise<ListedMessage[]> {
  const seqsOf = (direction: 'in' | 'out'): number[] =>
    page.filter((found) => found.direction === direction).map(({ seq }) => seq)
  const [received, sent] = [seqsOf('in'), seqsOf('out')]
  const states = received.length === 0 ? [] : await listMessageStates(tx, { seqs: received, limit: received.length })
  const listed: ListedMessage[] = states.map(({ short_id: _, ...message }) => ({
    ...message,
    text: cutText(message.text),
    direction: 'in',
    can_retry: RETRYABLE_STATES.includes(message.state),
  }))
  if (sent.length > 0) listed.push(...(await readSent(tx, sent)))
  return listed.toSorted((one, other) => other.seq - one.seq)
}

const SENT = {
  seq: integer,
  id: text,
  created_at: text,
  state: oneOf(OutboxState.options),
  folder: optional(text),
  topic: text,
  chat: text,
  sender: text,
  reason: optional(text),
  turn_id: optional(text),
  content: bytes,
}

async function readSent(tx: Tx, seqs: readonly number[]): Promise<ListedMessage[]> {
  const rows = await query(
    tx,
    SENT,
    `select m.seq, m.id, m.created_at, o.state, o.folder, o.topic, o.jid as chat, m.sender, o.error as reason, o.turn_id,
       ${contentStart(TEXT_BYTES)} as content
     from outbox o join messages m on m.seq = o.message_seq where o.message_seq in (${placeholders(seqs.length)})`,
    seqs,
  )
  return rows.map(({ content, ...row }) => ({
    ...row,
    direction: 'out',
    text: cutText(decodeContent(content).replace(/\ufffd$/, '')),
    can_retry: REDELIVERABLE_STATES.includes(row.state),
  }))
}

const TEXT_CHARACTERS = 200

function cutText(whole: string): string {
  const characters = [...whole.slice(0, 2 * TEXT_CHARACTERS + 2)]
  return characters.length <= TEXT_CHARACTERS ? whole : `${characters.slice(0, TEXT_CHARACTERS).join('')}…`
}
