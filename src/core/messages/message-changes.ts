// Log of messages that were edited, deleted or removed by retention. The search index follows it by its counter.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { Timestamp } from '../values.ts'
import { messages } from './messages.ts'

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
  await messages.update(tx, { seq: message_seq }, { content: Buffer.from(content) })
  await messageChanges.append(tx, { message_seq, kind: 'edited', created_at: now })
}

/** Clears the content and keeps the row. Call `lockMessageOrder` first. */
export async function deleteMessage(tx: Tx, message_seq: number, now: string): Promise<void> {
  await messages.update(tx, { seq: message_seq }, { content: Buffer.alloc(0) })
  await messageChanges.append(tx, { message_seq, kind: 'deleted', created_at: now })
}

export async function isDeleted(tx: Tx, message_seq: number): Promise<boolean> {
  return (await messageChanges.find(tx, { message_seq, kind: 'deleted' })) !== undefined
}
