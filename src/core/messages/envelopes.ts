// Envelopes: metadata of messages from platforms, tools and the scheduler. Messages of links have none,
// so this is a table of its own.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { ChatName, Folder, line, multilineText, Timestamp } from '../values.ts'

export const Envelope = z.object({
  message_seq: z.int(),
  jid: ChatName,
  platform_id: line(512).optional().describe("The platform's own id of the message"),
  verb: line(32).describe('message, mention, like, dislike, join, reply …'),
  source: line(64).optional().describe('Channel that delivered it'),
  sender_name: line(256).optional(),
  reply_to_id: line(512).optional(),
  reply_to_text: multilineText(65_536).optional(),
  reply_to_sender: line(256).optional(),
  forwarded_from: line(512).optional(),
  chat_name: line(256).optional(),
  is_group: z.boolean().optional(),
  attachments: z.string().optional().describe('A JSON array of {path?, mime?, filename?, url?, transcript?}'),
  // See docs/decisions.md#delegation-depth.
  depth: z.int().describe('How often it was delegated or escalated; counted by the server'),
  from_turn: z.string().optional().describe('Turn that delegated or injected it'),
  return_jid: ChatName.optional().describe('Chat that the answer goes to, if it is another chat'),
  return_topic: line(128).optional(),
  task_id: line(320).optional().describe('Scheduled task that created it'),
  is_isolated: z
    .boolean()
    .optional()
    .describe('Whether it gets a session of its own; text that the agent writes without a tool is then not delivered'),
  as_folder: Folder.optional().describe('Folder that handles it regardless of the routes'),
  sent_at: Timestamp.optional().describe('When it was sent according to the platform; messages are ordered by arrival'),
  edited_at: Timestamp.optional().describe('When it was last edited on the platform'),
  deleted_at: Timestamp.optional().describe('When it was deleted on the platform'),
  event_id: line(512).optional().describe("The platform's own id of the event that a notice tells of"),
})
export type Envelope = z.output<typeof Envelope>

export const envelopes = new Table({
  name: 'envelopes',
  row: Envelope,
  key: 'message_seq',
  storage: [
    `create table envelopes (
       message_seq bigint primary key, jid text not null, platform_id text, verb text not null, source text,
       sender_name text, reply_to_id text, reply_to_text text, reply_to_sender text, forwarded_from text,
       chat_name text, is_group boolean, attachments text, depth integer not null, from_turn text, return_jid text,
       return_topic text, task_id text, is_isolated boolean, as_folder text)`,
    'create unique index envelopes_of_platform on envelopes (jid, platform_id) where platform_id is not null',
    'create index envelopes_of_turn on envelopes (from_turn) where from_turn is not null',
    'alter table envelopes add column sent_at text',
    'alter table envelopes add column edited_at text',
    'alter table envelopes add column deleted_at text',
    'alter table envelopes add column event_id text',
    'create unique index envelopes_of_event on envelopes (jid, event_id) where event_id is not null',
    // Finds the copies of an edited or deleted text.
    'create index envelopes_of_reply on envelopes (jid, reply_to_id) where reply_to_id is not null',
  ],
})
