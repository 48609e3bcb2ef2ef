// How far each message that arrived has come (decision L14): what the operator is shown. What is not routed yet waits.
import { z } from 'zod'
import type { Tx, Value } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { costLog } from './costs.ts'
import { envelopes } from './envelopes.ts'
import { InboxState, inbox } from './inbox.ts'
import { messages, textOf } from './messages.ts'
import { rounds } from './rounds.ts'
import { turns } from './turns.ts'

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
  const { rows } = await run(tx, 'select last_seq from routing where id = 1')
  return Number(rows[0]?.last_seq ?? 0)
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

const TEXT = `substr(m.content, 1, ${TEXT_BYTES}) as content`

async function routed(tx: Tx, { folder, state, limit, after, seqs }: StatesRequest, way: string) {
  const { where, values } = conditions({
    'i.folder = $': folder,
    'i.state = $': state,
    'i.message_seq > $': after,
    'i.message_seq in $': seqs,
  })
  const { rows } = await run(
    tx,
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
  const { rows } = await run(
    tx,
    `select m.seq, m.id, m.created_at, m.target_folder as folder, m.topic, m.jid, m.sender, ${TEXT}, ${NEIGHBOURS}
     from messages m
     ${where} and m.direction = 'in' and not exists (select 1 from inbox i where i.message_seq = m.seq)
     order by m.seq ${way} limit ${limit}`,
    values,
  )
  return rows.map(stateOf)
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

function stateOf(row: Record<string, Value>): Neighboured {
  const text = (name: string): string | undefined => (typeof row[name] === 'string' ? row[name] : undefined)
  return {
    seq: Number(row.seq),
    id: text('id') ?? '',
    created_at: text('created_at') ?? '',
    state: InboxState.parse(text('state') ?? 'waiting'),
    folder: text('folder'),
    topic: text('topic') ?? '',
    chat: text('jid') ?? '',
    sender: text('sender') ?? '',
    text: beginning(row.content),
    reason: text('reason'),
    turn_id: text('turn_id'),
    neighbours: [text('id_before'), text('id_after')].filter((id) => id !== undefined),
  }
}

/** The cut may have gone through a character. */
function beginning(content: Value | undefined): string {
  return content instanceof Uint8Array ? textOf(content).replace(/\ufffd$/, '') : ''
}

/** All that is known of one message; nothing where none of this id arrived. */
export async function messageStory(tx: Tx, id: string) {
  const row = await inbox.find(tx, { id })
  const seq = row?.message_seq ?? (await unroutedSeq(tx, id))
  const message = seq === undefined ? undefined : await messages.find(tx, { seq })
  if (!message) return undefined
  const [state] = await messageStates(tx, { seqs: [message.seq], limit: 1 })
  const turn = row?.turn_id === undefined ? undefined : await turns.find(tx, { id: row.turn_id })
  return {
    ...state,
    text: textOf(message.content),
    updated_at: row?.updated_at,
    waits_for: row?.waits_for,
    reach: row?.reach,
    event: message.event,
    envelope: await envelopes.find(tx, { message_seq: message.seq }),
    round: await rounds.find(tx, { id }),
    turn,
    answers: turn ? await answersOf(tx, turn.id) : [],
    costs: turn ? await costLog.list(tx, { folder: turn.folder, turn_id: turn.id }) : [],
  }
}

/** Ids of messages that begin so; `limit` of them at most. */
export async function idsBeginning(tx: Tx, prefix: string, limit: number): Promise<string[]> {
  // No character comes after this one.
  const range = [prefix, `${prefix}\u{10ffff}`]
  const routed = await run(tx, `select id from inbox where id >= $1 and id < $2 order by id limit ${limit}`, range)
  const waiting = await run(
    tx,
    `select id from messages where seq > $3 and id >= $1 and id < $2 and direction = 'in' order by id limit ${limit}`,
    [...range, await routedSeq(tx)],
  )
  return [...new Set([...routed.rows, ...waiting.rows].map(({ id }) => String(id)))].sort().slice(0, limit)
}

async function unroutedSeq(tx: Tx, id: string): Promise<number | undefined> {
  const { rows } = await run(tx, `select seq from messages where seq > $1 and id = $2 and direction = 'in'`, [
    await routedSeq(tx),
    id,
  ])
  return rows[0] && Number(rows[0].seq)
}

/** What a turn said, and how far that has got on its way to the chat. */
async function answersOf(tx: Tx, turn_id: string) {
  const { rows } = await run(
    tx,
    `select o.id, o.created_at, m.kind, o.jid, o.action, o.state, o.attempts, o.platform_id, o.error, m.content
     from outbox o join messages m on m.seq = o.message_seq where o.turn_id = $1 order by o.message_seq`,
    [turn_id],
  )
  return rows.map((row) => ({
    id: String(row.id),
    created_at: String(row.created_at),
    kind: String(row.kind),
    chat: String(row.jid),
    action: String(row.action),
    state: String(row.state),
    attempts: Number(row.attempts),
    ...(row.platform_id === null ? {} : { platform_id: String(row.platform_id) }),
    ...(row.error === null ? {} : { error: String(row.error) }),
    text: row.content instanceof Uint8Array ? textOf(row.content) : '',
  }))
}

export type MessageStory = NonNullable<Awaited<ReturnType<typeof messageStory>>>
