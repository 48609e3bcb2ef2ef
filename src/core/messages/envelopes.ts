// What is known of a message beyond its content, where a platform, a tool or the scheduler said it: a message of a link has
// none of this, so it stands in a table of its own.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { ChatName, Folder, line, multilineText, Timestamp } from '../values.ts'

export const MessageVerb = line(32).describe('message, mention, like, dislike, join, reply …')

export const Envelope = z.object({
  message_seq: z.int(),
  jid: ChatName,
  platform_id: line(512).optional().describe("The platform's own id of the message"),
  verb: MessageVerb,
  source: line(64).optional().describe('The channel that delivered it'),
  sender_name: line(256).optional(),
  reply_to_id: line(512).optional(),
  reply_to_text: multilineText(65_536).optional(),
  reply_to_sender: line(256).optional(),
  forwarded_from: line(512).optional(),
  chat_name: line(256).optional(),
  is_group: z.boolean().optional(),
  attachments: z.string().optional().describe('A JSON array of {path?, mime?, filename?, url?, transcript?}'),
  depth: z.int().describe('How often it was delegated or escalated on its way; counted by the server (decision A7)'),
  from_turn: z.string().optional().describe('The turn that delegated or injected it'),
  return_jid: ChatName.optional().describe('The chat that the answer goes to, where it is not the own one'),
  return_topic: line(128).optional(),
  task_id: line(320).optional().describe('The scheduled task that fired it'),
  is_isolated: z.boolean().optional().describe('A session of its own; prose is not delivered'),
  as_folder: Folder.optional().describe('The folder that handles it, whatever the routes say'),
  sent_at: Timestamp.optional().describe('When it was said, by the platform; the order is that of arrival'),
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
  ],
})

export async function findEnvelope(tx: Tx, message_seq: number): Promise<Envelope | undefined> {
  return envelopes.find(tx, { message_seq })
}
