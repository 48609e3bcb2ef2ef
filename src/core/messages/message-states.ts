// State of every received message, as shown to the operator; unrouted messages count as waiting. See
// docs/decisions.md#final-state-of-every-message.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import { bytes, type DecodedRow, flag, integer, oneOf, optional, query, text } from '../../store/statement.ts'
import { costLog } from '../turns/costs.ts'
import { findRound } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import { envelopes } from './envelopes.ts'
import { InboxState, inbox } from './inbox.ts'
import { contentStart, decodeContent, messages } from './messages.ts'

export const MessageState = z.object({
  seq: z.int(),
  id: z.string(),
  short_id: z.string().describe('Shortest unique prefix of the id; `show` accepts it'),
  created_at: z.string(),
  state: InboxState,
  folder: z.string().optional(),
  topic: z.string(),
  chat: z.string(),
  sender: z.string(),
  text: z.string().describe('Beginning of its text'),
  reason: z.string().optional(),
  turn_id: z.string().optional(),
})
export type MessageState = z.output<typeof MessageState>

/** States that are not final. */
export const OPEN_STATES: readonly InboxState[] = ['waiting', 'running', 'delegated']

export interface StatesRequest {
  readonly folder?: string | undefined
  readonly state?: InboxState | undefined
  readonly limit: number
  /** Only messages after this `seq`. */
  readonly after?: number | undefined
  readonly seqs?: readonly number[] | undefined
}

const TEXT_BYTES = 1000

/** The newest messages up to the limit, oldest first; with `after`, the messages that follow it. */
export async function listMessageStates(tx: Tx, request: StatesRequest): Promise<MessageState[]> {
  const { limit, after } = request
  const order = after === undefined ? 'desc' : 'asc'
  const found = [...(await listRouted(tx, request, order)), ...(await listUnrouted(tx, request, order))]
  const sorted = withShortIds(found).toSorted((one, other) => one.seq - other.seq)
  return after === undefined ? sorted.slice(-limit) : sorted.slice(0, limit)
}

/** All messages up to this `seq` are routed. */
export async function readRoutedSeq(tx: Tx): Promise<number> {
  const [routing] = await query(tx, { last_seq: integer }, 'select last_seq from routing where id = 1')
  return routing?.last_seq ?? 0
}

/** Length of an id's time in milliseconds, so a later message cannot have the same prefix. */
const SHORT_ID_MIN = 13

/** `neighbours` are the ids before and after its own among all routed messages. */
type StateWithNeighbours = Omit<MessageState, 'short_id'> & { readonly neighbours: readonly string[] }

/** Unrouted messages are in no index, so their ids are compared with each other here. */
function withShortIds(found: readonly StateWithNeighbours[]): MessageState[] {
  const ids = found.map(({ id }) => id).sort()
  return found.map(({ neighbours, ...message }) => {
    const at = ids.indexOf(message.id)
    const others = [...neighbours, ids[at - 1], ids[at + 1]].filter((other) => other !== undefined)
    const shared = Math.max(...others.map((other) => sharedLength(message.id, other)), 0)
    return { ...message, short_id: message.id.slice(0, Math.max(SHORT_ID_MIN, shared + 1)) }
  })
}

function sharedLength(one: string, other: string): number {
  let length = 0
  while (length < one.length && one[length] === other[length]) length++
  return length
}

const NEIGHBOURS = `(select max(o.id) from inbox o where o.id < m.id) as id_before,
  (select min(o.id) from inbox o where o.id > m.id) as id_after`

const TEXT = `${contentStart(TEXT_BYTES)} as content`

async function listRouted(tx: Tx, { folder, state, limit, after, seqs }: StatesRequest, order: string) {
  const { where, values } = conditions({
    'i.folder = $': folder,
    'i.state = $': state,
    'i.message_seq > $': after,
    'i.message_seq in $': seqs,
  })
  const rows = await query(
    tx,
    { ...STATE, ...ROUTED },
    `select m.seq, m.id, m.created_at, i.state, i.folder, i.topic, m.jid, m.sender, i.reason, i.turn_id, ${TEXT},
       ${NEIGHBOURS}
     from inbox i join messages m on m.seq = i.message_seq ${where} order by i.message_seq ${order} limit ${limit}`,
    values,
  )
  return rows.map(decodeState)
}

/** Messages that the router has not reached; only those with a target folder have a folder. */
async function listUnrouted(tx: Tx, { folder, state, limit, after, seqs }: StatesRequest, order: string) {
  if (state !== undefined && state !== 'waiting') return []
  const { where, values } = conditions({
    'm.seq > $': Math.max(after ?? 0, await readRoutedSeq(tx)),
    'm.target_folder = $': folder,
    'm.seq in $': seqs,
  })
  const rows = await query(
    tx,
    STATE,
    `select m.seq, m.id, m.created_at, m.target_folder as folder, m.topic, m.jid, m.sender, ${TEXT}, ${NEIGHBOURS}
     from messages m
     ${where} and m.direction = 'in' and not exists (select 1 from inbox i where i.message_seq = m.seq)
     order by m.seq ${order} limit ${limit}`,
    values,
  )
  return rows.map((row) => decodeState({ ...row, state: 'waiting' }))
}

/** Builds a where clause: `$` is replaced by the value's placeholder, and undefined values are skipped. */
function conditions(given: Readonly<Record<string, Value | readonly Value[] | undefined>>) {
  const values: Value[] = []
  const mark = (value: Value): string => `$${values.push(value)}`
  const parts = Object.entries(given).flatMap(([condition, value]) => {
    if (value === undefined) return []
    const marks = Array.isArray(value) ? `(${value.map(mark).join(', ') || 'null'})` : mark(value as Value)
    return [condition.replace('$', () => marks)]
  })
  return { where: parts.length === 0 ? '' : `where ${parts.join(' and ')}`, values }
}

const STATE = {
  seq: integer,
  id: text,
  created_at: text,
  folder: optional(text),
  topic: optional(text),
  jid: text,
  sender: text,
  content: bytes,
  id_before: optional(text),
  id_after: optional(text),
}
const ROUTED = { state: oneOf(InboxState.options), reason: optional(text), turn_id: optional(text) }

type StateRow = DecodedRow<typeof STATE> & Pick<MessageState, 'state' | 'reason' | 'turn_id'>

function decodeState(state: StateRow): StateWithNeighbours {
  const { jid, content, topic = '', id_before, id_after, reason, turn_id, ...row } = state
  return {
    ...row,
    topic,
    chat: jid,
    // `substr` may have split the last character.
    text: decodeContent(content).replace(/\ufffd$/, ''),
    reason,
    turn_id,
    neighbours: [id_before, id_after].filter((id) => id !== undefined),
  }
}

/** All details of one received message; undefined if the id is unknown. */
export async function readMessageDetails(tx: Tx, id: string) {
  const row = await inbox.find(tx, { id })
  const seq = row?.message_seq ?? (await unroutedSeq(tx, id))
  const message = seq === undefined ? undefined : await messages.find(tx, { seq })
  if (!message) return undefined
  const [state] = await listMessageStates(tx, { seqs: [message.seq], limit: 1 })
  const turn = row?.turn_id === undefined ? undefined : await turns.find(tx, { id: row.turn_id })
  return {
    ...state,
    text: decodeContent(message.content),
    updated_at: row?.updated_at,
    waits_for: row?.waits_for,
    reach: row?.reach,
    event: message.event,
    envelope: await envelopes.find(tx, { message_seq: message.seq }),
    round: await findRound(tx, id),
    turn,
    answers: turn ? await listAnswers(tx, turn.id) : [],
    costs: turn ? await costLog.list(tx, { folder: turn.folder, turn_id: turn.id }) : [],
  }
}

/** Ids of received messages with this prefix. */
export async function listIdsWithPrefix(tx: Tx, prefix: string, limit: number): Promise<string[]> {
  // U+10FFFF is the last code point.
  const range = [prefix, `${prefix}\u{10ffff}`]
  const schema = { id: text }
  const routed = await query(
    tx,
    schema,
    `select id from inbox where id >= $1 and id < $2 order by id limit ${limit}`,
    range,
  )
  const unrouted = await query(
    tx,
    schema,
    `select id from messages where seq > $3 and id >= $1 and id < $2 and direction = 'in' order by id limit ${limit}`,
    [...range, await readRoutedSeq(tx)],
  )
  return [...new Set([...routed, ...unrouted].map(({ id }) => id))].sort().slice(0, limit)
}

async function unroutedSeq(tx: Tx, id: string): Promise<number | undefined> {
  const sql = `select seq from messages where seq > $1 and id = $2 and direction = 'in'`
  const [message] = await query(tx, { seq: integer }, sql, [await readRoutedSeq(tx), id])
  return message?.seq
}

const ANSWER = {
  id: text,
  created_at: text,
  kind: text,
  chat: text,
  action: text,
  state: text,
  attempts: integer,
  platform_id: optional(text),
  error: optional(text),
  content: bytes,
  is_partial: optional(flag),
}

/** The messages that a turn sent, with the state of their delivery. The kind of a stopped answer is `partial`. */
export async function listAnswers(tx: Tx, turn_id: string) {
  const rows = await query(
    tx,
    ANSWER,
    `select o.id, o.created_at, m.kind, o.jid as chat, o.action, o.state, o.attempts, o.platform_id, o.error, m.content, m.is_partial
     from outbox o join messages m on m.seq = o.message_seq where o.turn_id = $1 order by o.message_seq`,
    [turn_id],
  )
  return rows.map(({ platform_id, error, content, is_partial, kind, ...answer }) => ({
    ...answer,
    kind: is_partial ? 'partial' : kind,
    ...(platform_id === undefined ? {} : { platform_id }),
    ...(error === undefined ? {} : { error }),
    text: decodeContent(content),
  }))
}

export type MessageDetails = NonNullable<Awaited<ReturnType<typeof readMessageDetails>>>
