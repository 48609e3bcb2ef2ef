// Chats of platforms: name, channel and sticky routing.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { type Patch, Table } from '../../store/table.ts'
import { ChatName, Folder, line } from '../values.ts'

export const Chat = z.object({
  jid: ChatName,
  source: line(64).optional().describe('Channel that delivered its latest message'),
  name: line(256).optional(),
  is_group: z.boolean().optional(),
  sticky_folder: Folder.optional().describe('Set by @name, cleared by @'),
  sticky_topic: z.string().optional().describe('Set by #name, cleared by #'),
})
export type Chat = z.output<typeof Chat>

export const chats = new Table({
  name: 'chats',
  row: Chat,
  key: 'jid',
  storage: [
    `create table chats (
       jid text primary key, source text, name text, is_group boolean, sticky_folder text, sticky_topic text,
       noticed_at text)`,
    // Onboarding remembers when it greeted a chat.
    'alter table chats drop column noticed_at',
    'create index chats_set_to on chats (sticky_folder) where sticky_folder is not null',
  ],
})

export async function upsertChat(tx: Tx, jid: string, patch: Patch<Chat>): Promise<void> {
  if (Object.keys(patch).length === 0) return
  await chats.insertIfMissing(tx, { jid })
  await chats.update(tx, { jid }, patch)
}
