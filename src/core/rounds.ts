// Rounds (decisions L12 to L14): a message that waits for an answer, what was said to it, and how it ended.
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import type { Dialect, Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { enterEvent } from './chats.ts'
import { type Message, messages, piece, queueUp, textOf } from './messages.ts'
import { Folder, Jid, Timestamp } from './values.ts'

export const Round = z.object({
  id: z.string().describe('The id of the message that opened it'),
  jid: Jid,
  topic: z.string().optional(),
  target_folder: Folder.optional(),
  message_seq: z.int(),
  status: z.enum(['pending', 'success', 'failed']),
  error: z.string().optional(),
  last_seq: z.int().describe('The sequence of the last frame'),
  attempts: z.int(),
  fence: z.int().describe('Whoever holds the round holds this number; a later holder has a higher one'),
  leased_until: z.int().describe('Until when it is held, in milliseconds since 1970'),
  created_at: Timestamp,
  ended_at: Timestamp.optional(),
})
export type Round = z.output<typeof Round>

export const rounds = new Table({
  name: 'rounds',
  row: Round,
  key: 'id',
  storage: [
    `create table rounds (
       id text primary key, jid text not null, topic text, target_folder text, message_seq bigint not null,
       status text not null, error text, last_seq integer not null, attempts integer not null,
       fence integer not null, leased_until bigint not null, created_at text not null, ended_at text)`,
    `create index rounds_pending on rounds (message_seq) where status = 'pending'`,
  ],
})

export const frames = new Table({
  name: 'frames',
  row: z.object({ turn_id: z.string(), seq: z.int(), message_seq: z.int() }),
  key: ['turn_id', 'seq'],
  storage: [
    `create table frames (
       turn_id text not null references rounds (id) on delete cascade, seq integer not null,
       message_seq bigint not null, primary key (turn_id, seq))`,
  ],
})

export interface Frame {
  readonly seq: number
  readonly id: string
  readonly kind: 'message' | 'status'
  readonly content: string
  readonly created_at: string
}

/** The round, if it belongs to this chat. */
export async function findRound(tx: Tx, jid: string, id: string): Promise<Round | undefined> {
  return rounds.find(tx, { id, jid })
}

/** The frames of a round after `after`: `limit` of them, or fewer where they are large. */
export async function framesAfter(tx: Tx, turnId: string, after: number, limit: number): Promise<Frame[]> {
  const of = `from frames f join messages m on m.seq = f.message_seq
    where f.turn_id = $1 and f.seq > $2 order by f.seq limit $3`
  const { rows: sizes } = await run(tx, `select length(m.content) as size ${of}`, [turnId, after, limit])
  const count = piece(sizes.map(({ size }) => Number(size)))
  if (count === 0) return []
  const { rows } = await run(tx, `select f.seq, m.id, m.kind, m.content, m.created_at ${of}`, [turnId, after, count])
  return rows.map(({ seq, id, kind, content, created_at }) => ({
    seq: Number(seq),
    id: String(id),
    // Only these two are ever written there.
    kind: kind as Frame['kind'],
    content: content instanceof Uint8Array ? textOf(content) : '',
    created_at: String(created_at),
  }))
}

/** How far each of these rounds is. */
export async function roundHeads(
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, Pick<Round, 'last_seq' | 'status'>>> {
  const marks = ids.map((_, at) => `$${at + 1}`).join(', ')
  const { rows } = await run(tx, `select id, last_seq, status from rounds where id in (${marks})`, ids)
  return new Map(
    rows.map(({ id, last_seq, status }) => [
      String(id),
      { last_seq: Number(last_seq), status: status as Round['status'] },
    ]),
  )
}

/** What a round is held by: only with the number that was given may it be added to. */
export interface Held {
  readonly id: string
  readonly fence: number
}

export interface Claimed extends Held {
  readonly round: Round
  readonly message: Message
}

export interface Lease {
  readonly now: number
  readonly forMs: number
}

const WAITING = `status = 'pending' and leased_until <= $1
  and message_seq <= (select last_seq from filing where id = 1)`

/** Whether there are rounds that nobody holds. */
export async function hasWaiting(tx: Tx, now: number): Promise<boolean> {
  return (await run(tx, `select 1 as one from rounds where ${WAITING} limit 1`, [now])).rows.length > 0
}

/**
 * Takes the oldest rounds that nobody holds. Only those whose message is filed: in the chat, the question stands
 * before its answer.
 */
export async function claimRounds(tx: Tx, lease: Lease, limit: number): Promise<Claimed[]> {
  const { rows } = await run(
    tx,
    `update rounds set fence = fence + 1, attempts = attempts + 1, leased_until = $2
     where id in (select id from rounds where ${WAITING} order by message_seq limit $3)
     returning ${rounds.columns.join(', ')}`,
    [lease.now, lease.now + lease.forMs, limit],
  )
  const claimed: Claimed[] = []
  for (const row of rows) {
    const round = rounds.decode(row)
    const message = await messages.find(tx, { seq: round.message_seq })
    if (message) claimed.push({ id: round.id, fence: round.fence, round, message })
  }
  return claimed.sort((a, b) => a.round.message_seq - b.round.message_seq)
}

/** Holds it for longer; false when somebody else has it, or when it is over. */
export async function renewRound(tx: Tx, { id, fence }: Held, until: number): Promise<boolean> {
  return (await rounds.update(tx, { id, fence, status: 'pending' }, { leased_until: until })) > 0
}

/** Gives it back to whoever is next; a try that was broken off on purpose does not count. */
export async function releaseRound(tx: Tx, { id, fence }: Held): Promise<void> {
  await run(
    tx,
    `update rounds set leased_until = 0, attempts = attempts - 1 where id = $1 and fence = $2 and status = 'pending'`,
    [id, fence],
  )
}

export interface Speaking {
  readonly dialect: Dialect
  readonly clock: Clock
  readonly random: Random
}

export interface Said {
  readonly kind: 'message' | 'status'
  readonly content: string
  readonly sender: string
}

/** Adds a frame to a round and the message to its chat. */
export async function say(tx: Tx, { dialect, clock, random }: Speaking, held: Held, said: Said): Promise<Frame> {
  await queueUp(tx, dialect)
  const { rows } = await run(
    tx,
    `update rounds set last_seq = last_seq + 1 where id = $1 and fence = $2 and status = 'pending'
     returning jid, topic, target_folder, last_seq`,
    [held.id, held.fence],
  )
  const [row] = rows
  if (!row) refuse('conflict', 'the round is over, or somebody else has taken it')
  const [id, created_at, seq] = [uuidv7(clock, random), timestamp(clock.now()), Number(row.last_seq)]
  const topic = row.topic === null ? undefined : String(row.topic)
  const message = await messages.add(tx, {
    id,
    jid: String(row.jid),
    target_folder: row.target_folder === null ? undefined : String(row.target_folder),
    direction: 'out',
    kind: said.kind,
    sender: said.sender,
    topic,
    turn_id: held.id,
    content: Buffer.from(said.content),
    created_at,
  })
  await frames.append(tx, { turn_id: held.id, seq, message_seq: message.seq })
  await enterEvent(tx, { jid: message.jid, kind: said.kind, message_seq: message.seq, turn_id: held.id, topic })
  await hint(tx, dialect, held.id, message.jid)
  return { seq, id, kind: said.kind, content: said.content, created_at }
}

export interface Ending {
  readonly status: 'success' | 'failed'
  readonly error?: string | undefined
}

/** Ends a round, once; false when it was over, or somebody else has it. */
export async function endRound(tx: Tx, { dialect, clock }: Speaking, held: Held, ending: Ending): Promise<boolean> {
  await queueUp(tx, dialect)
  const ended_at = timestamp(clock.now())
  const changed = await rounds.update(
    tx,
    { id: held.id, fence: held.fence, status: 'pending' },
    { status: ending.status, error: ending.error, ended_at, leased_until: 0 },
  )
  const round = changed > 0 ? await rounds.find(tx, { id: held.id }) : undefined
  if (!round) return false
  await enterEvent(tx, { jid: round.jid, kind: 'round_done', turn_id: round.id, topic: round.topic })
  await hint(tx, dialect, round.id, round.jid)
  return true
}

/** For the streams of other processes, once this is committed. */
async function hint(tx: Tx, dialect: Dialect, turnId: string, jid: string): Promise<void> {
  if (dialect.hint !== undefined) await run(tx, dialect.hint, [JSON.stringify([turnId, jid])])
}
