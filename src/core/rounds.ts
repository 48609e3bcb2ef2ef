// Rounds (decisions L12 to L14): a message that waits for an answer, what was said to it, and how it ended.
import { z } from 'zod'
import { type Clock, type Random, timestamp } from '../lib/clock.ts'
import type { Dialect, Engine, Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { enterEvent } from './chats.ts'
import { piece, textOf } from './messages.ts'
import { ChatName, Folder, Timestamp } from './values.ts'

export const Round = z.object({
  id: z.string().describe('The id of the message that opened it'),
  jid: ChatName,
  topic: z.string().optional(),
  target_folder: Folder.optional(),
  message_seq: z.int(),
  status: z.enum(['pending', 'success', 'failed']),
  error: z.string().optional().describe('What the sender is told; the cause is with the turn'),
  last_seq: z.int().describe('The sequence of the last frame'),
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
    // Who has a round is said by the turn that has its message.
    'drop index rounds_pending',
    'alter table rounds drop column attempts',
    'alter table rounds drop column fence',
    'alter table rounds drop column leased_until',
    // Earlier versions told here what a provider or a program had printed; the turn has it still.
    `update rounds set error = 'the agent could not answer; try again later' where error is not null`,
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

/** What recording needs of the world. */
export interface Speaking {
  readonly dialect: Dialect
  readonly clock: Clock
  readonly random: Random
}

/** What a host has of it. */
export function speakingOf({
  engine,
  clock,
  random,
}: Omit<Speaking, 'dialect'> & { engine: Pick<Engine, 'dialect'> }): Speaking {
  return { dialect: engine.dialect, clock, random }
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

/**
 * Adds a frame to each round of the turn that was asked in this chat; the ids of those rounds. Whoever handed the question on
 * and still runs has them: they are answered all the same.
 */
export async function addFrames(
  tx: Tx,
  { turn_id, jid, message_seq }: { readonly turn_id: string; readonly jid: string; readonly message_seq: number },
): Promise<string[]> {
  const { rows } = await run(
    tx,
    `update rounds set last_seq = last_seq + 1 where status = 'pending' and jid = $2
       and id in (select id from inbox where turn_id = $1 or turn_id in (select e.from_turn from inbox i
         join envelopes e on e.message_seq = i.message_seq where i.turn_id = $1 and e.return_jid = $2))
     returning id, last_seq, message_seq`,
    [turn_id, jid],
  )
  const asked = rows.toSorted((a, b) => Number(a.message_seq) - Number(b.message_seq))
  for (const { id, last_seq } of asked)
    await frames.append(tx, { turn_id: String(id), seq: Number(last_seq), message_seq })
  return asked.map(({ id }) => String(id))
}

export interface Ending {
  readonly status: 'success' | 'failed'
  readonly error?: string | undefined
}

/** Ends those of these rounds that are not over; their ids and chats. Behind `queueUp`. */
export async function endRounds(
  tx: Tx,
  { dialect, clock }: Speaking,
  ids: readonly string[],
  { status, error }: Ending,
): Promise<string[]> {
  const ended: string[] = []
  const ended_at = timestamp(clock.now())
  for (const id of ids) {
    if ((await rounds.update(tx, { id, status: 'pending' }, { status, error, ended_at })) === 0) continue
    const round = await rounds.find(tx, { id })
    if (!round) continue
    await enterEvent(tx, { jid: round.jid, kind: 'round_done', turn_id: id, topic: round.topic })
    await hint(tx, dialect, id, round.jid)
    ended.push(id, round.jid)
  }
  return ended
}

/** For the streams of other processes, once this is committed. */
export async function hint(tx: Tx, dialect: Dialect, turnId: string, jid: string): Promise<void> {
  if (dialect.hint !== undefined) await run(tx, dialect.hint, [JSON.stringify([turnId, jid])])
}
