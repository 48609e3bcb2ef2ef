// What becomes of each message that arrived (decision L14): who handles it, and the one end that it comes to. Written behind
// the acknowledgement, when the message is routed.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'

/** Before the end: `waiting` for a turn, `running` in one, `delegated` to another folder's. All others are ends. */
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
  id: z.string().describe('The id of the message'),
  jid: ChatName,
  folder: Folder.optional().describe('Whose message it is; absent where nobody has it'),
  topic: z.string().describe('The conversation of that folder; the main one is the empty text'),
  chat_topic: z.string().describe('The topic of the chat that it was said in; the main one is the empty text'),
  sender: z.string(),
  verb: z.string(),
  state: InboxState,
  turn_id: z.string().optional(),
  waits_for: z.string().optional().describe('The delegated message whose turn answers this one'),
  reason: z.string().optional().describe('Why it ended so, in a sentence'),
  updated_at: Timestamp,
  reach: Reach.optional().describe('What it may ask for; absent for what was routed before this was recorded'),
})
export type InboxRow = z.output<typeof InboxRow>

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
    // What was there before messages were routed has had its end, or is asked again by its round.
    `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, updated_at)
     select m.seq, m.id, m.jid, m.target_folder, coalesce(m.topic, ''), coalesce(m.topic, ''), m.sender, 'message',
       case when r.id is null then 'silent' when r.status = 'pending' then 'waiting' when r.status = 'success' then 'answered'
       else 'failed' end, m.created_at
     from messages m left join rounds r on r.id = m.id where m.direction = 'in'`,
    `create index inbox_failed on inbox (folder, jid, message_seq) where state = 'failed'`,
    'alter table inbox add column reach text',
  ],
})

/** How far the messages are routed: all up to it have a row in `inbox`. */
export const routing = new Table({
  name: 'routing',
  row: z.object({ id: z.int(), last_seq: z.int() }),
  key: 'id',
  storage: [
    'create table routing (id integer primary key, last_seq bigint not null)',
    'insert into routing (id, last_seq) values (1, (select coalesce(max(message_seq), 0) from inbox))',
  ],
})

/** A message that arrived, by its own id or by the id that its platform gave it in this chat. */
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
