// Rounds: a link message that waits for an answer, with its reply frames and its result. A frame is stored once, with its
// turn, and all rounds of the turn show it. See docs/decisions.md#rounds.
import { z } from 'zod'
import { type Clock, type Random, timestamp } from '../../lib/clock.ts'
import type { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { Dialect, Engine, Tx } from '../../store/engine.ts'
import {
  bytes,
  execute,
  flag,
  integer,
  oneOf,
  optional,
  placeholders,
  query,
  queryForValues,
  text,
} from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { appendChatEvent } from '../chats/chat-events.ts'
import { filesMember, readFilesOfMessages, type ShownFile } from '../files/chat-files.ts'
import type { MessageTracer } from '../messages/message-tracer.ts'
import { batchLength, decodeContent } from '../messages/messages.ts'
import { Bytes, ChatName, Folder, Timestamp } from '../values.ts'

export const Round = z.object({
  id: z.string().describe('Id of the message that opened it'),
  jid: ChatName,
  topic: z.string().optional(),
  target_folder: Folder.optional(),
  message_seq: z.int(),
  status: z.enum(['pending', 'success', 'failed']),
  error: z.string().optional().describe('Error shown to the sender; the cause is in the turn'),
  last_seq: z.int().describe('Number of the last frame; set when the round ends'),
  created_at: Timestamp,
  ended_at: Timestamp.optional(),
  turn_id: z.string().optional().describe('Turn whose frames it shows, if its message now belongs to another turn'),
  resend_digest: Bytes.optional().describe('Digest of the conversation that a client resends to go on after it'),
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
    // The turn of the message has the lease.
    'drop index rounds_pending',
    'alter table rounds drop column attempts',
    'alter table rounds drop column fence',
    'alter table rounds drop column leased_until',
    // Earlier versions stored output of providers here; the turn still has it.
    `update rounds set error = 'the agent could not answer; try again later' where error is not null`,
    'alter table rounds add column turn_id text',
    'alter table rounds add column resend_digest bytea',
    'create index rounds_resent on rounds (resend_digest, id) where resend_digest is not null',
  ],
})

/** The turn whose frames the round `r` shows; `i` is the inbox row of its message. */
const SHOWN_TURN = 'coalesce(r.turn_id, i.turn_id)'

/** Created after `inbox`, which its migration reads. */
export const frames = new Table({
  name: 'frames',
  row: z.object({ turn_id: z.string(), seq: z.int(), message_seq: z.int() }),
  key: ['turn_id', 'seq'],
  storage: [
    `create table frames (
       turn_id text not null references rounds (id) on delete cascade, seq integer not null,
       message_seq bigint not null, primary key (turn_id, seq))`,
    // Earlier versions stored each frame once per round. A round keeps its own frames if those of its turn differ.
    `update rounds set turn_id = id where exists (select 1 from frames f where f.turn_id = rounds.id)
       and not exists (select 1 from inbox i join rounds t on t.id = i.turn_id
         where i.id = rounds.id and t.last_seq = rounds.last_seq and not exists (
           select 1 from frames f where f.turn_id = rounds.id and not exists (
             select 1 from frames g where g.turn_id = t.id and g.seq = f.seq and g.message_seq = f.message_seq)))`,
    ({ clusteredSql }) => `create table turn_frames (
       turn_id text not null, seq integer not null, message_seq bigint not null,
       primary key (turn_id, seq))${clusteredSql}`,
    `insert into turn_frames (turn_id, seq, message_seq) select turn_id, seq, message_seq from frames
       where turn_id in (select ${SHOWN_TURN} from rounds r left join inbox i on i.id = r.id)`,
    'drop table frames',
    'alter table turn_frames rename to frames',
  ],
})

export interface ReplyFrame {
  readonly seq: number
  readonly id: string
  readonly kind: 'message' | 'status'
  readonly content: string
  readonly created_at: string
  /** The start of an answer that was stopped. */
  readonly partial?: true
  readonly files?: readonly ShownFile[]
}

const LAST_FRAME = (turn: string): string =>
  `coalesce((select f.seq from frames f where f.turn_id = ${turn} order by f.seq desc limit 1), 0)`

const COLUMNS = rounds.columns
  .map((name) =>
    name === 'last_seq'
      ? `case when r.status = 'pending' then ${LAST_FRAME(SHOWN_TURN)} else r.last_seq end as last_seq`
      : `r.${name}`,
  )
  .join(', ')
const ROUNDS = `select ${COLUMNS} from rounds r left join inbox i on i.id = r.id`

/** With a JID, finds only a round of that chat. */
export async function findRound(tx: Tx, id: string, jid?: string): Promise<Round | undefined> {
  const ofChat = jid === undefined ? '' : ' and r.jid = $2'
  const values = [id, ...(jid === undefined ? [] : [jid])]
  const [round] = await query(tx, rounds.decode, `${ROUNDS} where r.id = $1${ofChat}`, values)
  return round
}

const FRAME = {
  message_seq: integer,
  ...{ seq: integer, id: text, kind: oneOf(['message', 'status']), content: bytes, created_at: text },
  is_partial: optional(flag),
}

/** Reads up to `limit` frames of a round after `after`; fewer if they are large. */
export async function readFrames(tx: Tx, id: string, after: number, limit: number): Promise<ReplyFrame[]> {
  // Frames that the turn adds after the end of the round do not belong to it.
  const source = `from rounds r left join inbox i on i.id = r.id join frames f on f.turn_id = ${SHOWN_TURN}
    join messages m on m.seq = f.message_seq
    where r.id = $1 and f.seq > $2 and (r.status = 'pending' or f.seq <= r.last_seq) order by f.seq limit $3`
  const sizes = await query(tx, { size: integer }, `select length(m.content) as size ${source}`, [id, after, limit])
  const count = batchLength(sizes.map(({ size }) => size))
  if (count === 0) return []
  const sql = `select f.message_seq, f.seq, m.id, m.kind, m.content, m.created_at, m.is_partial ${source}`
  const rows = await query(tx, FRAME, sql, [id, after, count])
  const files = await readFilesOfMessages(
    tx,
    rows.map(({ message_seq }) => message_seq),
  )
  return rows.map(({ message_seq, is_partial, ...row }) => ({
    ...row,
    content: decodeContent(row.content),
    ...(is_partial ? { partial: true } : {}),
    ...filesMember(files.get(message_seq)),
  }))
}

export interface WriteContext {
  readonly dialect: Dialect
  readonly clock: Clock
  readonly random: Random
  readonly metrics?: MetricRegistry
  readonly tracer?: MessageTracer
}

export function writeContextOf({
  engine,
  clock,
  random,
  metrics,
  tracer,
}: Omit<WriteContext, 'dialect'> & { engine: Pick<Engine, 'dialect'> }): WriteContext {
  return {
    dialect: engine.dialect,
    clock,
    random,
    ...(metrics ? { metrics } : {}),
    ...(tracer ? { tracer } : {}),
  }
}

export async function readRoundHeads(
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, Pick<Round, 'last_seq' | 'status'>>> {
  const rows = await query(tx, rounds.decode, `${ROUNDS} where r.id in (${placeholders(ids.length)})`, ids)
  return new Map(rows.map(({ id, last_seq, status }) => [id, { last_seq, status }]))
}

/** Pending rounds of the turn in this chat, and of the turn that delegated its question to it. */
const ANSWERED_ROUNDS = `with answered as (select cast($1 as text) as turn_id union select e.from_turn from inbox q
    join envelopes e on e.message_seq = q.message_seq where q.turn_id = $1 and e.return_jid = $2)
  select r.id, ${SHOWN_TURN} as shown_turn from answered a join inbox i on i.turn_id = a.turn_id
    join rounds r on r.id = i.id where r.status = 'pending' and r.jid = $2 order by i.message_seq`

const ADD_FRAME = `insert into frames (turn_id, seq, message_seq) values ($1, 1 + ${LAST_FRAME('$1')}, $2)`

/** Adds a frame to the turn's rounds in this chat and returns their ids. The caller holds `lockMessageOrder`. */
export async function addFrames(
  tx: Tx,
  { turn_id, jid, message_seq }: { readonly turn_id: string; readonly jid: string; readonly message_seq: number },
): Promise<string[]> {
  const rows = await query(tx, { id: text, shown_turn: text }, ANSWERED_ROUNDS, [turn_id, jid])
  for (const turn of new Set(rows.map((row) => row.shown_turn))) await execute(tx, ADD_FRAME, [turn, message_seq])
  return rows.map(({ id }) => id)
}

/** Call before giving the turn's messages to another turn: their rounds keep the frames of this one. */
export async function keepFrames(tx: Tx, turn_id: string): Promise<void> {
  await execute(
    tx,
    `update rounds set turn_id = $1 where turn_id is null and status = 'pending'
       and id in (select i.id from inbox i where i.turn_id = $1)`,
    [turn_id],
  )
}

interface ReopenedRound {
  readonly id: string
  /** Turn whose frames it shows so far. */
  readonly framesOf: string | undefined
  /** Id under which its frames continue: those of the turn belong to its other rounds too. */
  readonly keptAs: string
}

/** Makes a failed round pending again, because its message is retried. The caller holds `lockMessageOrder`. */
export async function reopenRound(tx: Tx, { id, framesOf, keptAs }: ReopenedRound): Promise<void> {
  const round = await rounds.find(tx, { id, status: 'failed' })
  if (!round) return
  const shown = round.turn_id ?? framesOf
  if (shown !== undefined)
    await execute(
      tx,
      `insert into frames (turn_id, seq, message_seq) select $1, f.seq, f.message_seq from frames f
       where f.turn_id = $2 and f.seq <= $3`,
      [keptAs, shown, round.last_seq],
    )
  await rounds.update(tx, { id }, { status: 'pending', error: undefined, ended_at: undefined, turn_id: keptAs })
}

interface RoundResult {
  readonly status: 'success' | 'failed'
  readonly error?: string | undefined
}

const END = `update rounds set status = $1, error = $2, ended_at = $3, last_seq =
    ${LAST_FRAME('coalesce(rounds.turn_id, (select i.turn_id from inbox i where i.id = rounds.id))')}
  where status = 'pending'`

/** Ends the pending ones of these rounds and returns their ids and chats. The caller holds `lockMessageOrder`. */
export async function endRounds(
  tx: Tx,
  { dialect, clock }: WriteContext,
  ids: readonly string[],
  { status, error }: RoundResult,
): Promise<string[]> {
  const ended: string[] = []
  const ended_at = timestamp(clock.now())
  const sql = (marks: string): string => `${END} and id in (${marks}) returning id, jid, topic`
  const schema = { id: text, jid: text, topic: optional(text) }
  const rows = await queryForValues(tx, schema, ids, sql, [status, error ?? null, ended_at])
  const byId = new Map(rows.map((row) => [row.id, row]))
  for (const { id, jid, topic } of ids.flatMap((each) => byId.get(each) ?? [])) {
    await appendChatEvent(tx, { jid, kind: 'round_done', turn_id: id, topic })
    await notifyStreams(tx, dialect, id, jid)
    ended.push(id, jid)
  }
  return ended
}

/** Notifies the streams of other processes after the commit. */
export async function notifyStreams(tx: Tx, dialect: Dialect, turnId: string, jid: string): Promise<void> {
  if (dialect.notifySql !== undefined) await execute(tx, dialect.notifySql, [JSON.stringify([turnId, jid])])
}
