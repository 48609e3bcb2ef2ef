// How far each message that arrived has come (decision L14): what the operator is shown. What is not routed yet waits.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import { bytes, type DecodedRow, integer, oneOf, optional, query, text } from '../../store/statement.ts'
import { costLog } from '../turns/costs.ts'
import { findRound } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import { envelopes } from './envelopes.ts'
import { InboxState, inbox } from './inbox.ts'
import { contentStart, decodeContent, messages } from './messages.ts'

export const MessageState = z.object({
  seq: z.int(),
  id: z.string(),
  short_id: z.string().describe('A beginning of the id that no other message has, which `show` takes'),
  created_at: z.string(),
  state: InboxState,
  folder: z.string().optional(),
  topic: z.string(),
  chat: z.string(),
  sender: z.string(),
  text: z.string().describe('The beginning of it'),
  reason: z.string().optional(),
  turn_id: z.string().optional(),
})
export type MessageState = z.output<typeof MessageState>

/** Those that are not ends. */
export const OPEN_STATES: readonly InboxState[] = ['waiting', 'running', 'delegated']

export interface StatesRequest {
  readonly folder?: string | undefined
  readonly state?: InboxState | undefined
  readonly limit: number
  /** Only what arrived after this one. */
  readonly after?: number | undefined
  /** Only these. */
  readonly seqs?: readonly number[] | undefined
}

const TEXT_BYTES = 1000

/** The newest messages that fit, oldest first; those that came first where they are asked for after one. */
export async function messageStates(tx: Tx, request: StatesRequest): Promise<MessageState[]> {
  const { limit, after } = request
  const way = after === undefined ? 'desc' : 'asc'
  const both = [...(await routed(tx, request, way)), ...(await unrouted(tx, request, way))]
  const sorted = withShortIds(both).toSorted((one, other) => one.seq - other.seq)
  return after === undefined ? sorted.slice(-limit) : sorted.slice(0, limit)
}

/** How far messages are routed: all up to there have their folder. */
export async function routedSeq(tx: Tx): Promise<number> {
  const [routing] = await query(tx, { last_seq: integer }, 'select last_seq from routing where id = 1')
  return routing?.last_seq ?? 0
}

/** So much of an id is its time in milliseconds: what arrives later does not begin with it. */
const SHORT_LEAST = 13

/** A message, and the ids that stand before and after its own in the order of all routed ones. */
type Neighboured = Omit<MessageState, 'short_id'> & { readonly neighbours: readonly string[] }

/** Those that are not routed are in no index: they are held against each other. */
function withShortIds(found: readonly Neighboured[]): MessageState[] {
  const ids = found.map(({ id }) => id).sort()
  return found.map(({ neighbours, ...message }) => {
    const at = ids.indexOf(message.id)
    const others = [...neighbours, ids[at - 1], ids[at + 1]].filter((other) => other !== undefined)
    const shared = Math.max(...others.map((other) => sharedLength(message.id, other)), 0)
    return { ...message, short_id: message.id.slice(0, Math.max(SHORT_LEAST, shared + 1)) }
  })
}

function sharedLength(one: string, other: string): number {
  let length = 0
  while (length < one.length && one[length] === other[length]) length++
  return length
}

/** The neighbours in the index of ids. */
const NEIGHBOURS = `(select max(o.id) from inbox o where o.id < m.id) as id_before,
  (select min(o.id) from inbox o where o.id > m.id) as id_after`

const TEXT = `${contentStart(TEXT_BYTES)} as content`

async function routed(tx: Tx, { folder, state, limit, after, seqs }: StatesRequest, way: string) {
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
     from inbox i join messages m on m.seq = i.message_seq ${where} order by i.message_seq ${way} limit ${limit}`,
    values,
  )
  return rows.map(stateOf)
}

/** The few that the router has not come to. Whose they are is known only of those that name their folder. */
async function unrouted(tx: Tx, { folder, state, limit, after, seqs }: StatesRequest, way: string) {
  if (state !== undefined && state !== 'waiting') return []
  const { where, values } = conditions({
    'm.seq > $': Math.max(after ?? 0, await routedSeq(tx)),
    'm.target_folder = $': folder,
    'm.seq in $': seqs,
  })
  const rows = await query(
    tx,
    STATE,
    `select m.seq, m.id, m.created_at, m.target_folder as folder, m.topic, m.jid, m.sender, ${TEXT}, ${NEIGHBOURS}
     from messages m
     ${where} and m.direction = 'in' and not exists (select 1 from inbox i where i.message_seq = m.seq)
     order by m.seq ${way} limit ${limit}`,
    values,
  )
  return rows.map((row) => stateOf({ ...row, state: 'waiting' }))
}

/** `$` stands for the value; what is undefined is no condition. */
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

function stateOf({ jid, content, topic = '', id_before, id_after, reason, turn_id, ...row }: StateRow): Neighboured {
  return {
    ...row,
    topic,
    chat: jid,
    // The cut may have gone through a character.
    text: decodeContent(content).replace(/\ufffd$/, ''),
    reason,
    turn_id,
    neighbours: [id_before, id_after].filter((id) => id !== undefined),
  }
}

/** All that is known of one message; nothing where none of this id arrived. */
export async function readMessageDetails(tx: Tx, id: string) {
  const row = await inbox.find(tx, { id })
  const seq = row?.message_seq ?? (await unroutedSeq(tx, id))
  const message = seq === undefined ? undefined : await messages.find(tx, { seq })
  if (!message) return undefined
  const [state] = await messageStates(tx, { seqs: [message.seq], limit: 1 })
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
    answers: turn ? await answersOf(tx, turn.id) : [],
    costs: turn ? await costLog.list(tx, { folder: turn.folder, turn_id: turn.id }) : [],
  }
}

/** Ids of messages that begin so; `limit` of them at most. */
export async function idsBeginning(tx: Tx, prefix: string, limit: number): Promise<string[]> {
  // No character comes after this one.
  const range = [prefix, `${prefix}\u{10ffff}`]
  const schema = { id: text }
  const routed = await query(
    tx,
    schema,
    `select id from inbox where id >= $1 and id < $2 order by id limit ${limit}`,
    range,
  )
  const waiting = await query(
    tx,
    schema,
    `select id from messages where seq > $3 and id >= $1 and id < $2 and direction = 'in' order by id limit ${limit}`,
    [...range, await routedSeq(tx)],
  )
  return [...new Set([...routed, ...waiting].map(({ id }) => id))].sort().slice(0, limit)
}

async function unroutedSeq(tx: Tx, id: string): Promise<number | undefined> {
  const sql = `select seq from messages where seq > $1 and id = $2 and direction = 'in'`
  const [message] = await query(tx, { seq: integer }, sql, [await routedSeq(tx), id])
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
}

/** What a turn said, and how far that has got on its way to the chat. */
async function answersOf(tx: Tx, turn_id: string) {
  const rows = await query(
    tx,
    ANSWER,
    `select o.id, o.created_at, m.kind, o.jid as chat, o.action, o.state, o.attempts, o.platform_id, o.error, m.content
     from outbox o join messages m on m.seq = o.message_seq where o.turn_id = $1 order by o.message_seq`,
    [turn_id],
  )
  return rows.map(({ platform_id, error, content, ...answer }) => ({
    ...answer,
    ...(platform_id === undefined ? {} : { platform_id }),
    ...(error === undefined ? {} : { error }),
    text: decodeContent(content),
  }))
}

export type MessageDetails = NonNullable<Awaited<ReturnType<typeof readMessageDetails>>>
