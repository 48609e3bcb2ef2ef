// Conversations: a folder's agent and one topic, with the waiting messages, the session and the observed messages shown so
// far. At most one turn runs in each. See docs/decisions.md#concurrent-turns.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import type { Reach } from '../access/reach.ts'
import { Folder, Timestamp } from '../values.ts'

export const Conversation = z.object({
  folder: Folder,
  topic: z.string().describe('Empty for the main topic'),
  waiting: z.int().describe('Number of messages waiting for a turn'),
  turn_id: z.string().optional().describe('The open turn'),
  session_id: z.string().optional().describe('Session that the runtime resumes'),
  parent_topic: z.string().optional().describe('Topic it was forked from'),
  parent_session: z.string().optional().describe('Session that a fork starts from'),
  reset_turn: z.string().optional().describe('Turn during which it was reset; the session of that turn is discarded'),
  note: z.string().optional().describe('Note about the session for the next turn'),
  observed_seq: z.int().describe('Last observed message that the agent has seen'),
  updated_at: Timestamp,
})
export type Conversation = z.output<typeof Conversation>

export const conversations = new Table({
  name: 'conversations',
  row: Conversation,
  key: ['folder', 'topic'],
  storage: [
    `create table conversations (
       folder text not null, topic text not null, waiting integer not null, turn_id text, session_id text,
       parent_topic text, parent_session text, note text, observed_seq bigint not null, updated_at text not null,
       primary key (folder, topic))`,
    'create index conversations_waiting on conversations (folder, topic) where waiting > 0 and turn_id is null',
    `insert into conversations (folder, topic, waiting, observed_seq, updated_at)
     select folder, topic, count(*), 0, max(updated_at) from inbox where state = 'waiting' and folder is not null
     group by folder, topic`,
    'alter table conversations add column reset_turn text',
  ],
})

/**
 * Sessions of runs of reach `work`, whose HOME belongs to one chat. A conversation may have several such chats and runs of
 * reach `all`, and none can resume the session of another one.
 */
export const workSessions = new Table({
  name: 'work_sessions',
  row: Conversation.pick({ folder: true, topic: true, updated_at: true }).extend({
    jid: z.string(),
    session_id: z.string(),
  }),
  key: ['folder', 'topic', 'jid'],
  storage: [
    `create table work_sessions (
       folder text not null, topic text not null, jid text not null, session_id text not null, updated_at text not null,
       primary key (folder, topic, jid))`,
  ],
})

interface TurnPlace {
  readonly folder: string
  readonly topic: string
  readonly jid: string
}

/** The session that a run of this turn resumes. */
export async function sessionOf(tx: Tx, { folder, topic, jid }: TurnPlace, reach: Reach): Promise<string | undefined> {
  if (reach === 'work') return (await workSessions.find(tx, { folder, topic, jid }))?.session_id
  return (await conversations.find(tx, { folder, topic }))?.session_id
}

/** Counts new waiting messages of a conversation, which is created if it does not exist. */
export async function addWaiting(
  tx: Tx,
  { folder, topic, count, now }: Pick<Conversation, 'folder' | 'topic'> & { count: number; now: string },
): Promise<void> {
  const changed = await execute(
    tx,
    'update conversations set waiting = waiting + $3, updated_at = $4 where folder = $1 and topic = $2',
    [folder, topic, count, now],
  )
  if (changed === 0) await conversations.insert(tx, { folder, topic, waiting: count, observed_seq: 0, updated_at: now })
}

/** State of a folder's turns: its place in the fair order, and its circuit breaker. */
export const folderTurns = new Table({
  name: 'folder_turns',
  row: z.object({
    folder: Folder,
    served: z.int().describe('Increases with each turn of the instance; the folder with the lowest number is next'),
    failures: z.int().describe('Number of consecutive failed turns'),
    open_until: z.int().describe('No turn starts before this time, in milliseconds since 1970'),
    warned_on: z.string().describe('Day and cap of the last budget warning'),
    config_mark: z.string().optional().describe('Fingerprint of the configuration during the failures'),
  }),
  key: 'folder',
  storage: [
    `create table folder_turns (
       folder text primary key, served bigint not null, failures integer not null, open_until bigint not null,
       warned_on text not null)`,
    'alter table folder_turns add column config_mark text',
    'create index folder_turns_open on folder_turns (open_until) where open_until > 0',
  ],
})

export const SessionLog = z.object({
  id: z.int(),
  folder: Folder,
  topic: z.string(),
  session_id: z.string().optional(),
  turn_id: z.string().optional(),
  event: z.enum(['turn', 'reset', 'fork']),
  message_count: z.int(),
  result: z.string().optional(),
  error: z.string().optional(),
  started_at: Timestamp,
  ended_at: Timestamp,
})
export type SessionLog = z.output<typeof SessionLog>

export const sessionLog = new Table({
  name: 'session_log',
  row: SessionLog,
  key: 'id',
  storage: [
    ({ counter }) =>
      `create table session_log (
         id ${counter}, folder text not null, topic text not null, session_id text, turn_id text, event text not null,
         message_count integer not null, result text, error text, started_at text not null, ended_at text not null)`,
    'create index session_log_of on session_log (folder, topic, id)',
  ],
})

/** Clears the session that runs of this turn resume, and no other. */
export async function resetSessionOf(tx: Tx, turn: TurnPlace, reach: Reach, now: string): Promise<void> {
  const { folder, topic, jid } = turn
  if (reach !== 'work') return void (await resetSessions(tx, folder, topic, now))
  await workSessions.remove(tx, { folder, topic, jid })
  await sessionLog.append(tx, { folder, topic, event: 'reset', message_count: 0, started_at: now, ended_at: now })
}

/** Clears the sessions of one topic, or of all topics of a folder. Returns their number. */
export async function resetSessions(tx: Tx, folder: string, topic: string | undefined, now: string): Promise<number> {
  const only = topic === undefined ? '' : ' and topic = $3'
  const rows = await query(
    tx,
    { topic: text },
    `update conversations set session_id = null, parent_session = null, updated_at = $2 where folder = $1${only}
     returning topic`,
    [folder, now, ...(topic === undefined ? [] : [topic])],
  )
  await workSessions.remove(tx, topic === undefined ? { folder } : { folder, topic })
  for (const { topic } of rows)
    await sessionLog.append(tx, { folder, topic, event: 'reset', message_count: 0, started_at: now, ended_at: now })
  return rows.length
}

/** Like resetSessions, but also discards the session of a turn that is running now. */
export async function forceNewSession(tx: Tx, folder: string, topic: string | undefined, now: string): Promise<number> {
  const only = topic === undefined ? '' : ' and topic = $2'
  const values = [folder, ...(topic === undefined ? [] : [topic])]
  await execute(tx, `update conversations set reset_turn = turn_id where folder = $1${only}`, values)
  return resetSessions(tx, folder, topic, now)
}
