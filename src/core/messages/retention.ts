// Retention: removes old messages with their rows, and old turns with their frames, in small steps. Messages that wait, run
// or are not delivered stay, as do costs.
import { timestamp } from '../../lib/clock.ts'
import type { Dialect, Tx } from '../../store/engine.ts'
import { execute, flag, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { forgetEventNumbers, isChatEmpty, removeChatEvents } from '../chats/chat-events.ts'
import { chatTopics } from '../chats/chat-topics.ts'
import { type ChatFile, readFilesOfMessages } from '../files/chat-files.ts'
import { forgetChatBytes, subtractFileBytes, subtractReceivedBytes } from '../links/storage-use.ts'
import { isVisitorChat } from '../links/visitor-chats.ts'
import { visitorConversations } from '../routing/routing-decision.ts'
import { conversations, sessionLog, workSessions } from '../turns/conversations.ts'
import { IS_OPEN } from '../turns/turn-rules.ts'
import { firstIdAt } from './id-times.ts'
import { messageChanges } from './message-changes.ts'
import { lockMessageOrder } from './messages.ts'

interface RetentionStep<Cursor> {
  /** Removes rows older than this, in milliseconds since 1970. */
  readonly before: number
  readonly now: number
  /** Cursor of the previous step. */
  readonly after: Cursor
  /** Maximum number of rows to examine. */
  readonly limit: number
}

export interface RetentionProgress<Cursor> {
  readonly removed: number
  /** Cursor for the next step; absent at the end. */
  readonly next?: Cursor
}

const KEPT_STATES = `('waiting', 'running', 'delegated', 'onboarding')`

/** `is_over`: no longer needed. */
const MESSAGES = `select m.seq, m.jid, m.topic, m.target_folder as folder, m.created_at,
    case when m.direction = 'in' then i.message_seq is not null and i.state not in ${KEPT_STATES}
        and (r.id is null or r.status <> 'pending')
      else o.message_seq is null or o.state not in ('pending', 'sending') end
    and not exists (select 1 from turns t where t.id = coalesce(i.turn_id, m.turn_id) and t.${IS_OPEN}) as is_over
  from messages m left join inbox i on i.message_seq = m.seq left join outbox o on o.message_seq = m.seq
    left join rounds r on r.id = m.id and m.direction = 'in'`
/** The oldest messages that are routed and in their chat. */
const OLDEST = `${MESSAGES} where m.seq > $1 and m.seq <= (select last_seq from filing where id = 1)
    and m.seq <= (select last_seq from routing where id = 1) order by m.seq limit $2`

/** A visitor's chat of which nothing is left. */
export interface EmptiedChat {
  readonly jid: string
  readonly folder: string
}

/** Removes the oldest messages in order of arrival, up to the first that is too new. */
export async function removeMessages(
  tx: Tx,
  dialect: Dialect,
  { before, now, after, limit }: RetentionStep<number>,
): Promise<
  RetentionProgress<number> & { readonly emptied: readonly EmptiedChat[]; readonly files: readonly ChatFile[] }
> {
  await lockMessageOrder(tx, dialect)
  const schema = {
    ...{ seq: integer, jid: text, topic: optional(text), folder: optional(text), created_at: text },
    is_over: flag,
  }
  const rows = await query(tx, schema, OLDEST, [after, limit])
  const { old, next } = takeOld(rows, ({ created_at }) => created_at < timestamp(before), limit)
  const over = old.filter(({ is_over }) => is_over)
  const seqs = over.map(({ seq }) => seq)
  const files = await removeMessageRows(tx, seqs, now)
  if (seqs.length > 0) {
    for (const [jid, removed] of Map.groupBy(over, ({ jid }) => jid)) {
      await removeEvents(tx, jid, Math.max(...seqs))
      await removeEmptyTopics(tx, jid, new Set(removed.map(({ topic = '' }) => topic)))
    }
  }
  const emptied = await removeEmptyChats(tx, over)
  await removeChanges(tx, before, limit)
  return { removed: seqs.length, files, emptied, ...(next ? { next: next.seq } : {}) }
}

/** Removes the remaining rows of those that are chats of visitors without messages. The caller removes their directories. */
export async function removeEmptyChats(
  tx: Tx,
  chats: readonly { readonly jid: string; readonly folder?: string | undefined }[],
): Promise<EmptiedChat[]> {
  const byJid = new Map(chats.map(({ jid, folder }) => [jid, folder]))
  const emptied: EmptiedChat[] = []
  for (const [jid, folder] of byJid) {
    if (folder === undefined || !isVisitorChat(jid) || !(await isChatEmpty(tx, jid))) continue
    await forgetEventNumbers(tx, jid)
    await chatTopics.remove(tx, { jid })
    await forgetVisitorSessions(tx, folder, jid)
    emptied.push({ jid, folder })
  }
  await forgetChatBytes(
    tx,
    emptied.map(({ jid }) => jid),
  )
  return emptied
}

/** Strangers create these rows, so they must not stay. */
async function forgetVisitorSessions(tx: Tx, folder: string, jid: string): Promise<void> {
  const [from, to] = visitorConversations(jid)
  for (const { name } of [conversations, workSessions, sessionLog])
    await execute(tx, `delete from ${name} where folder = $1 and topic >= $2 and topic < $3`, [folder, from, to])
}

/** Those of these messages that are not answered or delivered yet. */
export async function findUnfinished(tx: Tx, seqs: readonly number[]): Promise<ReadonlySet<number>> {
  if (seqs.length === 0) return new Set()
  const sql = `${MESSAGES} where m.seq in (${placeholders(seqs.length)})`
  const rows = await query(tx, { seq: integer, is_over: flag }, sql, seqs)
  return new Set(rows.flatMap(({ seq, is_over }) => (is_over ? [] : [seq])))
}

/**
 * Frames that belong to another turn as well are removed with that turn. Returns the files of the messages, to be removed from
 * the disk after the commit.
 */
export async function removeMessageRows(tx: Tx, seqs: readonly number[], now: number): Promise<readonly ChatFile[]> {
  if (seqs.length === 0) return []
  const files = [...(await readFilesOfMessages(tx, seqs)).values()].flat()
  await subtractReceivedBytes(tx, seqs)
  if (files.length > 0) await subtractFileBytes(tx, seqs)
  const marks = placeholders(seqs.length)
  const statements = [
    `delete from frames where turn_id in (select m.turn_id from messages m where m.seq in (${marks})) and message_seq in (${marks})`,
    // Frames that the round of a retried message has for itself.
    `delete from frames where turn_id in (select r.turn_id from rounds r join messages m on m.id = r.id and m.direction = 'in'
       where m.seq in (${marks}) and substr(r.turn_id, 1, length(r.id) + 1) = r.id || '.')`,
    `delete from rounds where id in (select m.id from messages m where m.seq in (${marks}) and m.direction = 'in')`,
    ...['inbox', 'outbox', 'envelopes', 'fetched', 'message_retries', 'chat_files'].map(
      (table) => `delete from ${table} where message_seq in (${marks})`,
    ),
    `delete from messages where seq in (${marks})`,
  ]
  for (const sql of statements) await execute(tx, sql, seqs)
  for (const message_seq of seqs)
    await messageChanges.append(tx, { message_seq, kind: 'removed', created_at: timestamp(now) })
  return files
}

const EVENTS_BATCH = 500

/** Removes events of a chat up to message `until` whose message or round no longer exists. */
async function removeEvents(tx: Tx, jid: string, until: number): Promise<void> {
  let after = 0
  for (;;) {
    const rows = await query(
      tx,
      { seq: integer, message_seq: optional(integer), is_gone: flag },
      `select e.seq, e.message_seq, case when e.kind = 'round_done' then r.id is null else m.seq is null end as is_gone
       from chat_events e left join messages m on m.seq = e.message_seq
         left join rounds r on r.id = e.turn_id and e.kind = 'round_done'
       where e.jid = $1 and e.seq > $2 order by e.seq limit ${EVENTS_BATCH}`,
      [jid, after],
    )
    const gone = rows.filter(({ is_gone }) => is_gone).map(({ seq }) => seq)
    await removeChatEvents(tx, jid, gone)
    const isPast = rows.some(({ message_seq = 0 }) => message_seq > until)
    if (isPast || rows.length < EVENTS_BATCH) return
    after = rows.at(-1)?.seq ?? after
  }
}

/**
 * Removes topics without events from the conversations of these topics, but none that others continue, and no new ones. The main
 * topic has a row only for its branches.
 */
async function removeEmptyTopics(tx: Tx, jid: string, topics: ReadonlySet<string>): Promise<void> {
  const roots = new Set<string>()
  for (const topic of topics) {
    const row = await chatTopics.find(tx, { jid, topic })
    if (row) roots.add(row.root)
  }
  // The removal of a branch may leave an earlier one that nothing continues.
  for (const root of roots) while ((await execute(tx, REMOVE_EMPTY, [jid, root])) > 0);
}

const REMOVE_EMPTY = `delete from chat_topics where jid = $1 and root = $2 and last_seq > 0
    and (topic = '' or not exists (
      select 1 from chat_events e where e.jid = $1 and e.topic = chat_topics.topic))
    and not exists (
      select 1 from chat_topics o where o.jid = $1 and o.root = $2 and o.topic <> chat_topics.topic
        and (o.parent = chat_topics.topic or o.root = chat_topics.topic))
    and not exists (
      select 1 from messages m where m.seq > (select last_seq from filing where id = 1) and m.direction = 'in' and m.jid = $1
        and m.topic = chat_topics.topic)`

/** Keeps changes as long as messages, for the search index, and always the last one, whose id is its position. */
async function removeChanges(tx: Tx, before: number, limit: number): Promise<void> {
  await execute(
    tx,
    `delete from message_changes where id in (select id from message_changes
       where id < (select max(id) from message_changes) order by id limit $1) and created_at < $2`,
    [limit * 2, timestamp(before)],
  )
}

/** A removed turn, with the fields that identify its log files. */
export interface RemovedTurn {
  readonly id: string
  readonly folder: string
  readonly started_at: string
  readonly ended_at: string
}

/** Removes the oldest finished turns with their frames. Turns have the ids of messages, so they sort by time. */
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

/** Removes the oldest entries of the session log, except the newest of each conversation, which tells its last use. */
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
  const { old, next } = takeOld(rows, ({ ended_at }) => ended_at < timestamp(before), limit)
  const ids = old.filter(({ is_past }) => is_past).map(({ id }) => id)
  if (ids.length > 0) await execute(tx, `delete from session_log where id in (${placeholders(ids.length)})`, ids)
  return { removed: ids.length, ...(next ? { next: next.id } : {}) }
}

/** The rows before the first that is not old; `next` is the last of them if there may be more. */
export function takeOld<Row>(
  rows: readonly Row[],
  isOld: (row: Row) => boolean,
  limit: number,
): { old: Row[]; next?: Row } {
  const end = rows.findIndex((row) => !isOld(row))
  const old = end < 0 ? [...rows] : rows.slice(0, end)
  const next = end < 0 && rows.length === limit ? old.at(-1) : undefined
  return { old, ...(next === undefined ? {} : { next }) }
}
