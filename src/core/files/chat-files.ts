// Files of messages in chats of links: what visitors upload, and what agents send. The bytes are below `files` in the data
// directory, under names of our own; the name and the type that a sender declared are data, never paths.
import { join } from 'node:path'
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { placeholders, query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { type ChatPlace, chatFilesDir, type Layout } from '../layout.ts'
import { addFileBytes } from '../links/storage-use.ts'
import { ChatName, Folder, line, Timestamp } from '../values.ts'

/** Of the files of one message. */
export const FILES_MAX = 10
export const FILES_BYTES_MAX = 100 * 1024 * 1024

export const ChatFile = z.object({
  id: z.string().describe('Also the name on disk, before the extension'),
  message_seq: z.int(),
  position: z.int().describe('Position among the files of its message, from 0'),
  jid: ChatName,
  folder: Folder.describe('Folder whose agent the chat belongs to'),
  name: line(255).describe('Name that the sender gave'),
  declared_type: line(255).optional().describe('Type that the sender declared'),
  type: line(64).describe('Type by its content'),
  extension: line(8).describe('Of the file on disk, by its content; empty for an unknown type'),
  size: z.int(),
  transcript: z.string().optional().describe('What is said in a voice message'),
  created_at: Timestamp,
})
export type ChatFile = z.output<typeof ChatFile>

export const chatFiles = new Table({
  name: 'chat_files',
  row: ChatFile,
  key: 'id',
  storage: [
    `create table chat_files (
       id text primary key, message_seq bigint not null, position integer not null, jid text not null,
       folder text not null, name text not null, declared_type text, type text not null, extension text not null,
       size bigint not null, transcript text, created_at text not null)`,
    'create index chat_files_of_message on chat_files (message_seq, position)',
  ],
})

/** The name of the file on disk, in the directory of its chat. */
export function storedFileName({ id, extension }: Pick<ChatFile, 'id' | 'extension'>): string {
  return extension === '' ? id : `${id}.${extension}`
}

export function chatFilePath(layout: Layout, file: Pick<ChatFile, 'id' | 'extension' | 'folder' | 'jid'>): string {
  return join(chatFilesDir(layout, file), storedFileName(file))
}

export type StoredFile = Pick<ChatFile, 'id' | 'name' | 'declared_type' | 'type' | 'extension' | 'size' | 'transcript'>

/** Files of one message, which are in the directory of its chat. */
export interface MessageFiles {
  readonly place: Pick<ChatPlace, 'folder' | 'jid'>
  readonly stored: readonly StoredFile[]
}

/** Call in the transaction that adds the message. */
export async function addChatFiles(
  tx: Tx,
  { place, stored }: MessageFiles,
  { message_seq, created_at }: Pick<ChatFile, 'message_seq' | 'created_at'>,
): Promise<void> {
  const { folder, jid } = place
  for (const [position, file] of stored.entries())
    await chatFiles.insert(tx, { ...file, message_seq, position, jid, folder, created_at })
  await addFileBytes(tx, [message_seq])
}

/** A file as clients see it. */
export type ShownFile = Pick<ChatFile, 'id' | 'name' | 'type' | 'size' | 'transcript'>

export function showFile({ id, name, type, size, transcript }: ShownFile): ShownFile {
  return { id, name, type, size, ...(transcript === undefined ? {} : { transcript }) }
}

/** A member `files` for a message that has some. */
export function filesMember(files: readonly ShownFile[] | undefined): { readonly files?: readonly ShownFile[] } {
  return files === undefined || files.length === 0 ? {} : { files: files.map(showFile) }
}

/** The files of these messages, by message, in their order. */
export async function readFilesOfMessages(tx: Tx, seqs: readonly number[]): Promise<Map<number, ChatFile[]>> {
  if (seqs.length === 0) return new Map()
  const rows = await query(
    tx,
    chatFiles.decode,
    `select ${chatFiles.columns.join(', ')} from chat_files where message_seq in (${placeholders(seqs.length)})
     order by message_seq, position`,
    seqs,
  )
  return Map.groupBy(rows, ({ message_seq }) => message_seq)
}
