// Log of messages that were edited, deleted or removed by retention. The search index follows it by its counter.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { execute, optional, query, text } from '../../store/statement.ts'
import { type Patch, Table } from '../../store/table.ts'
import { updateTopicStart } from '../chats/chat-topics.ts'
import { Timestamp } from '../values.ts'
import { type Message, messages } from './messages.ts'

export const messageChanges = new Table({
  name: 'message_changes',
  row: z.object({
    id: z.int(),
    message_seq: z.int(),
    kind: z.enum(['edited', 'deleted', 'removed']).describe('`removed`: the row itself is gone'),
    created_at: Timestamp,
  }),
  key: 'id',
  storage: [
    ({ counter }) =>
      `create table message_changes (
         id ${counter}, message_seq bigint not null, kind text not null, created_at text not null)`,
    'create index message_changes_of on message_changes (message_seq)',
  ],
})

/** Replaces the content. Call `lockMessageOrder` first, so that readers of the log miss no change. */
export async function editMessage(tx: Tx, message_seq: number, content: string, now: string): Promise<void> {
  await replaceContent(tx, message_seq, { content: Buffer.from(content) })
  await messageChanges.append(tx, { message_seq, kind: 'edited', created_at: now })
}

/** Clears the content and keeps the row. Call `lockMessageOrder` first. */
export async function deleteMessage(tx: Tx, message_seq: number, now: string): Promise<void> {
  await replaceContent(tx, message_seq, { content: Buffer.alloc(0), link_context: undefined })
  await messageChanges.append(tx, { message_seq, kind: 'deleted', created_at: now })
}

export async function isDeleted(tx: Tx, message_seq: number): Promise<boolean> {
  return (await messageChanges.find(tx, { message_seq, kind: 'deleted' })) !== undefined
}

/** Also where the old content was copied to: excerpts in messages that reply to it, and the title of its topic. */
async function replaceContent(
  tx: Tx,
  seq: number,
  patch: Patch<Pick<Message, 'link_context'>> & Pick<Message, 'content'>,
): Promise<void> {
  await messages.update(tx, { seq }, patch)
  const [message] = await query(
    tx,
    { id: text, jid: text, topic: optional(text), platform_id: optional(text) },
    `select m.id, m.jid, m.topic, e.platform_id from messages m left join envelopes e on e.message_seq = m.seq where m.seq = $1`,
    [seq],
  )
  if (!message) return
  const { id, jid, topic, platform_id = id } = message
  await execute(
    tx,
    `update envelopes set reply_to_text = null where jid = $1 and reply_to_id in ($2, $3) and reply_to_text <> ''`,
    [jid, id, platform_id],
  )
  if (topic !== undefined) await updateTopicStart(tx, { jid, topic, message_seq: seq, content: patch.content })
}
