// The inbox: the folder and the state of every received message. Rows are written when a message is routed, which is after
// its acknowledgement. See docs/decisions.md#final-state-of-every-message.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'

/** All states are final except `waiting` for a turn, `running` in a turn, and `delegated` to a turn of another folder. */
export const InboxState = z.enum([
  'waiting',
  'running',
  'delegated',
  'answered',
  'silent',
  'failed',
  'refused',
  'observed',
  'onboarding',
])
export type InboxState = z.output<typeof InboxState>
export type InboxOutcome = Exclude<InboxState, 'waiting' | 'running' | 'delegated'>

export const InboxRow = z.object({
  message_seq: z.int(),
  id: z.string().describe('Id of the message'),
  jid: ChatName,
  folder: Folder.optional().describe('Folder that handles it; absent if none does'),
  topic: z.string().describe('Conversation of that folder; empty for the main topic'),
  chat_topic: z.string().describe('Topic of the chat that it arrived in; empty for the main topic'),
  sender: z.string(),
  verb: z.string(),
  state: InboxState,
  turn_id: z.string().optional(),
  waits_for: z.string().optional().describe('Delegated message whose turn answers this one'),
  reason: z.string().optional().describe('Reason for the state'),
  updated_at: Timestamp,
  reach: Reach.optional().describe('Absent for messages that were routed before this column existed'),
  retries: z.int().optional().describe('Number of times that people retried it'),
})
export type InboxRow = z.output<typeof InboxRow>

/** Must be identical to the condition of the index `inbox_unsuccessful`; otherwise it is not used. */
export const IS_UNSUCCESSFUL = `state in ('failed', 'refused')`

export const inbox = new Table({
  name: 'inbox',
  row: InboxRow,
  key: 'message_seq',
  storage: [
    `create table inbox (
       message_seq bigint primary key, id text not null, jid text not null, folder text, topic text not null,
       chat_topic text not null, sender text not null, verb text not null, state text not null, turn_id text,
       waits_for text, reason text, updated_at text not null)`,
    'create unique index inbox_of_id on inbox (id)',
    `create index inbox_waiting on inbox (folder, topic, message_seq) where state = 'waiting'`,
    'create index inbox_of_turn on inbox (turn_id, message_seq) where turn_id is not null',
    'create index inbox_delegated on inbox (waits_for) where waits_for is not null',
    `create index inbox_observed on inbox (folder, message_seq) where state = 'observed'`,
    'create index inbox_of_folder on inbox (folder, message_seq)',
    // Messages from before routing existed are final, or have a pending round.
    `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, updated_at)
     select m.seq, m.id, m.jid, m.target_folder, coalesce(m.topic, ''), coalesce(m.topic, ''), m.sender, 'message',
       case when r.id is null then 'silent' when r.status = 'pending' then 'waiting' when r.status = 'success' then 'answered'
       else 'failed' end, m.created_at
     from messages m left join rounds r on r.id = m.id where m.direction = 'in'`,
    `create index inbox_failed on inbox (folder, jid, message_seq) where state = 'failed'`,
    'alter table inbox add column reach text',
    'alter table inbox add column retries integer',
    'create index inbox_of_chat on inbox (jid, message_seq)',
    `create index inbox_unsuccessful on inbox (message_seq) where ${IS_UNSUCCESSFUL}`,
    `create index inbox_failed_newest on inbox (message_seq) where state = 'failed'`,
    // inbox_unsuccessful has these rows, too.
    'drop index inbox_failed_newest',
    'create index inbox_of_sender on inbox (sender, message_seq)',
  ],
})

/**
 * The id of a turn whose last message this is: that of the message and, if people retried it, the number of the retry, so
 * that the rows, costs and logs of earlier turns stay.
 */
export function turnIdFor({ id, retries = 0 }: Pick<InboxRow, 'id' | 'retries'>): string {
  return retries === 0 ? id : `${id}.${retries}`
}

/** The id of the turn's last message. */
export function messageIdOfTurn(turnId: string): string {
  return turnId.replace(/\.\d+$/, '')
}

/** Position of the router: all messages up to `last_seq` have a row in `inbox`. */
export const routing = new Table({
  name: 'routing',
  row: z.object({ id: z.int(), last_seq: z.int() }),
  key: 'id',
  storage: [
    'create table routing (id integer primary key, last_seq bigint not null)',
    'insert into routing (id, last_seq) values (1, (select coalesce(max(message_seq), 0) from inbox))',
  ],
})

/** Finds a received message by its own id or by its platform id in this chat. */
export async function findInbound(tx: Tx, id: string, jid?: string): Promise<InboxRow | undefined> {
  const own = await inbox.find(tx, { id })
  if (own || jid === undefined) return own
  const [row] = await query(
    tx,
    inbox.decode,
    `select ${inbox.columns.map((name) => `i.${name}`).join(', ')} from envelopes e
     join inbox i on i.message_seq = e.message_seq where e.jid = $1 and e.platform_id = $2`,
    [jid, id],
  )
  return row
}

const ANSWERED_MAX = 100

/** The messages of a chat that the turn answers, or the turn that delegated its question to it. */
export async function listAnsweredIds(tx: Tx, turn_id: string, jid: string): Promise<string[]> {
  const rows = await query(
    tx,
    { id: text },
    `select id from inbox where jid = $2 and turn_id in (select cast($1 as text) union select e.from_turn from inbox q
       join envelopes e on e.message_seq = q.message_seq where q.turn_id = $1 and e.return_jid = $2)
     order by message_seq limit ${ANSWERED_MAX}`,
    [turn_id, jid],
  )
  return rows.map(({ id }) => id)
}
