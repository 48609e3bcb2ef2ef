// Conversations: a folder's agent and one topic. What waits for its turn, which session goes on there, and how far the
// agent has seen what it observes. One turn at a time runs in each (decision T2).
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Folder, Timestamp } from '../values.ts'

export const Conversation = z.object({
  folder: Folder,
  topic: z.string().describe('The main one is the empty text'),
  waiting: z.int().describe('How many messages wait for a turn'),
  turn_id: z.string().optional().describe('The turn that has it'),
  session_id: z.string().optional().describe('What its runtime goes on with'),
  parent_topic: z.string().optional().describe('The topic it was forked from'),
  parent_session: z.string().optional().describe("The parent's session at that moment, which a fork starts from"),
  reset_turn: z.string().optional().describe('The turn during which it was reset: its session is not gone on with'),
  note: z.string().optional().describe('What the next turn is told of the session, once'),
  observed_seq: z.int().describe('How far it has been shown what its folder observes'),
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

/** What holds for all conversations of a folder: whose turn it was last, and whether its agent fails again and again. */
export const folderTurns = new Table({
  name: 'folder_turns',
  row: z.object({
    folder: Folder,
    served: z.int().describe('A number that grows with each turn of the instance: whoever has the lowest is next'),
    failures: z.int().describe('Turns that failed one after the other'),
    open_until: z.int().describe('No turn starts before, in milliseconds since 1970'),
    warned_on: z.string().describe('The day and the cap of which it was last said that it is nearly spent'),
    config_mark: z.string().optional().describe('Fingerprint of the configuration that the failures happened with'),
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

export async function findConversation(tx: Tx, folder: string, topic: string): Promise<Conversation | undefined> {
  return conversations.find(tx, { folder, topic })
}

/** The row of a conversation, made where there is none. */
export async function ensureConversation(tx: Tx, folder: string, topic: string, now: string): Promise<void> {
  await conversations.insertIfMissing(tx, { folder, topic, waiting: 0, observed_seq: 0, updated_at: now })
}

/** The next message starts a fresh session; of one topic, or of all of a folder. */
export async function resetSessions(tx: Tx, folder: string, topic: string | undefined, now: string): Promise<number> {
  const only = topic === undefined ? '' : ' and topic = $3'
  const rows = await query(
    tx,
    { topic: text },
    `update conversations set session_id = null, parent_session = null, updated_at = $2 where folder = $1${only}
     returning topic`,
    [folder, now, ...(topic === undefined ? [] : [topic])],
  )
  for (const { topic } of rows)
    await sessionLog.append(tx, {
      folder,
      topic,
      event: 'reset',
      message_count: 0,
      started_at: now,
      ended_at: now,
    })
  return rows.length
}

/** The same when somebody asks for it: what a turn that runs now leaves behind is not gone on with either. */
export async function forceNewSession(tx: Tx, folder: string, topic: string | undefined, now: string): Promise<number> {
  const only = topic === undefined ? '' : ' and topic = $2'
  const which = [folder, ...(topic === undefined ? [] : [topic])]
  await execute(tx, `update conversations set reset_turn = turn_id where folder = $1${only}`, which)
  return resetSessions(tx, folder, topic, now)
}
