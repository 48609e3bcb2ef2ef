// What is older than the operator wants to keep is removed in small steps. A message goes with all that belongs to it, a turn with
// its frames; nothing goes that still waits, runs or is not delivered. Costs and the audit log stay.
import { timestamp } from '../../lib/clock.ts'
import type { Dialect, Tx } from '../../store/engine.ts'
import { execute, flag, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { subtractReceivedBytes } from '../links/storage-use.ts'
import { IS_OPEN } from '../turns/turn-rules.ts'
import { messageChanges } from './message-changes.ts'
import { lockMessageOrder } from './messages.ts'

export interface RetentionStep<Place> {
  /** Removes what is older than this, in milliseconds since 1970. */
  readonly before: number
  readonly now: number
  /** Where the step before has ended. */
  readonly after: Place
  /** How many rows are looked at. */
  readonly limit: number
}

export interface RetentionProgress<Place> {
  readonly removed: number
  /** Where the next step begins; absent where all that is old enough was looked at. */
  readonly next?: Place
}

/** States in which a message is still to be handled. */
const KEPT_STATES = `('waiting', 'running', 'delegated', 'onboarding')`

/** Old enough to be looked at: filed, routed, and older than the first that is to stay. */
const OLDEST = `select m.seq, m.jid, m.created_at,
    case when m.direction = 'in' then i.message_seq is not null and i.state not in ${KEPT_STATES}
        and (r.id is null or r.status <> 'pending')
      else o.message_seq is null or o.state not in ('pending', 'sending') end
    and not exists (select 1 from turns t where t.id = coalesce(i.turn_id, m.turn_id) and t.${IS_OPEN}) as is_over
  from messages m left join inbox i on i.message_seq = m.seq left join outbox o on o.message_seq = m.seq
    left join rounds r on r.id = m.id and m.direction = 'in'
  where m.seq > $1 and m.seq <= (select last_seq from filing where id = 1)
    and m.seq <= (select last_seq from routing where id = 1) order by m.seq limit $2`

/** Removes the oldest messages, in the order of their arrival, up to the first that is young enough to stay. */
export async function removeMessages(
  tx: Tx,
  dialect: Dialect,
  { before, now, after, limit }: RetentionStep<number>,
): Promise<RetentionProgress<number>> {
  await lockMessageOrder(tx, dialect)
  const schema = { seq: integer, jid: text, created_at: text, is_over: flag }
  const rows = await query(tx, schema, OLDEST, [after, limit])
  const { old, next } = oldest(rows, ({ created_at }) => created_at < timestamp(before), limit)
  const over = old.filter(({ is_over }) => is_over)
  const seqs = over.map(({ seq }) => seq)
  if (seqs.length > 0) {
    await subtractReceivedBytes(tx, seqs)
    await removeParts(tx, seqs)
    for (const jid of new Set(over.map(({ jid }) => jid))) await removeEvents(tx, jid, Math.max(...seqs))
    for (const message_seq of seqs)
      await messageChanges.append(tx, { message_seq, kind: 'removed', created_at: timestamp(now) })
  }
  await removeChanges(tx, before, limit)
  return { removed: seqs.length, ...(next ? { next: next.seq } : {}) }
}

/** The message's own rows. Frames that another turn shows as well go with that turn. */
async function removeParts(tx: Tx, seqs: readonly number[]): Promise<void> {
  const marks = placeholders(seqs.length)
  const statements = [
    `delete from frames where turn_id in (select m.turn_id from messages m where m.seq in (${marks})) and message_seq in (${marks})`,
    `delete from rounds where id in (select m.id from messages m where m.seq in (${marks}) and m.direction = 'in')`,
    ...['inbox', 'outbox', 'envelopes', 'fetched'].map(
      (table) => `delete from ${table} where message_seq in (${marks})`,
    ),
    `delete from messages where seq in (${marks})`,
  ]
  for (const sql of statements) await execute(tx, sql, seqs)
}

/** How many events of a chat are read at once. */
const EVENTS = 500

/** Events of a chat from its first on, as far as the messages up to `until` reach: those without a message, and ends of rounds. */
async function removeEvents(tx: Tx, jid: string, until: number): Promise<void> {
  let after = 0
  for (;;) {
    const rows = await query(
      tx,
      { seq: integer, message_seq: optional(integer), is_gone: flag },
      `select e.seq, e.message_seq, case when e.kind = 'round_done' then r.id is null else m.seq is null end as is_gone
       from chat_events e left join messages m on m.seq = e.message_seq
         left join rounds r on r.id = e.turn_id and e.kind = 'round_done'
       where e.jid = $1 and e.seq > $2 order by e.seq limit ${EVENTS}`,
      [jid, after],
    )
    const gone = rows.filter(({ is_gone }) => is_gone).map(({ seq }) => seq)
    if (gone.length > 0) {
      const sql = `delete from chat_events where jid = $1 and seq in (${placeholders(gone.length, 1)})`
      await execute(tx, sql, [jid, ...gone])
    }
    const isPast = rows.some(({ message_seq = 0 }) => message_seq > until)
    if (isPast || rows.length < EVENTS) return
    after = rows.at(-1)?.seq ?? after
  }
}

/** What the search index must know is kept as long as messages are; the last stays, so that its number is known. */
async function removeChanges(tx: Tx, before: number, limit: number): Promise<void> {
  await execute(
    tx,
    `delete from message_changes where id in (select id from message_changes
       where id < (select max(id) from message_changes) order by id limit $1) and created_at < $2`,
    [limit * 2, timestamp(before)],
  )
}

/** A turn that was removed, with what its logs are called by. */
export interface RemovedTurn {
  readonly id: string
  readonly folder: string
  readonly started_at: string
  readonly ended_at: string
}

/** Turns have the ids of messages, which begin with their time: all that are older come before this. */
function firstIdAt(ms: number): string {
  const digits = ms.toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}`
}

/** Removes the oldest turns that are over, with their frames. */
export async function removeTurns(
  tx: Tx,
  { before, after, limit }: Omit<RetentionStep<string>, 'now'>,
): Promise<RetentionProgress<string> & { readonly turns: readonly RemovedTurn[] }> {
  const rows = await query(
    tx,
    { id: text, folder: text, started_at: text, ended_at: optional(text), state: text },
    `select id, folder, started_at, ended_at, state from turns where id > $1 and id < $2 order by id limit $3`,
    [after, firstIdAt(before), limit],
  )
  const turns = rows.flatMap(({ id, folder, started_at, ended_at, state }) =>
    state === 'done' && ended_at !== undefined && ended_at < timestamp(before)
      ? [{ id, folder, started_at, ended_at }]
      : [],
  )
  const ids = turns.map(({ id }) => id)
  if (ids.length > 0) await removeTurnRows(tx, ids)
  const last = rows.length === limit ? rows.at(-1) : undefined
  return { removed: ids.length, turns, ...(last ? { next: last.id } : {}) }
}

async function removeTurnRows(tx: Tx, ids: readonly string[]): Promise<void> {
  const marks = placeholders(ids.length)
  await execute(tx, `delete from frames where turn_id in (${marks})`, ids)
  await execute(tx, `delete from turns where id in (${marks})`, ids)
}

/** Removes the oldest entries of the log of sessions; the newest of a conversation says when it was last spoken in, and stays. */
export async function removeSessions(
  tx: Tx,
  { before, after, limit }: Omit<RetentionStep<number>, 'now'>,
): Promise<RetentionProgress<number>> {
  const rows = await query(
    tx,
    { id: integer, ended_at: text, is_past: flag },
    `select s.id, s.ended_at, s.id < (select max(n.id) from session_log n where n.folder = s.folder and n.topic = s.topic)
       as is_past from session_log s where s.id > $1 order by s.id limit $2`,
    [after, limit],
  )
  const { old, next } = oldest(rows, ({ ended_at }) => ended_at < timestamp(before), limit)
  const ids = old.filter(({ is_past }) => is_past).map(({ id }) => id)
  if (ids.length > 0) await execute(tx, `delete from session_log where id in (${placeholders(ids.length)})`, ids)
  return { removed: ids.length, ...(next ? { next: next.id } : {}) }
}

/** The rows before the first that is young; `next` is the last of them, where there may be more. */
function oldest<Row>(rows: readonly Row[], isOld: (row: Row) => boolean, limit: number): { old: Row[]; next?: Row } {
  const young = rows.findIndex((row) => !isOld(row))
  const old = young < 0 ? [...rows] : rows.slice(0, young)
  const next = young < 0 && rows.length === limit ? old.at(-1) : undefined
  return { old, ...(next === undefined ? {} : { next }) }
}
