// Files of messages in chats, as an upload leaves them.
import { join } from 'node:path'
import { type ChatFile, chatFiles, storedFileName } from '../../src/core/files/chat-files.ts'
import { CHAT_FILE_MODE, makeChatFiles } from '../../src/core/files/chat-files-directory.ts'
import type { Layout } from '../../src/core/layout.ts'
import type { Tx } from '../../src/store/engine.ts'

export function chatFile(given: Partial<ChatFile> & Pick<ChatFile, 'message_seq' | 'jid' | 'folder'>): ChatFile {
  const name = given.name ?? 'note.txt'
  return {
    id: `f-${name.replace(/\W/g, '-')}`,
    position: 0,
    name,
    type: 'text/plain',
    extension: 'txt',
    size: 4,
    created_at: '2026-03-01T12:00:00.000Z',
    ...given,
  }
}

export async function addFileRows(tx: Tx, ...files: readonly ChatFile[]): Promise<void> {
  for (const file of files) await chatFiles.insert(tx, file)
}

/** Returns its path. */
export async function writeChatFile(
  layout: Layout,
  file: Pick<ChatFile, 'id' | 'extension' | 'folder' | 'jid'>,
  content: string | Uint8Array,
): Promise<string> {
  await using directory = await makeChatFiles(layout, file)
  await directory.createFile(storedFileName(file), content, CHAT_FILE_MODE)
  return join(directory.path, storedFileName(file))
}
