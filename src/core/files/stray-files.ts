// Removes files of chats that no message has: those of removed messages, and those that a process left when it died.
import { uuidv7 } from '../../lib/clock.ts'
import { Directory } from '../../lib/files/directory.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { placeholders, query, text } from '../../store/statement.ts'
import { chatFilesDir, type Layout } from '../layout.ts'
import { UNFINISHED } from './chat-file-writer.ts'
import { type ChatFile, type MessageFiles, storedFileName } from './chat-files.ts'

/** Longer than any upload, and than the commit that adds its rows. */
const STRAY_AFTER_MS = 24 * 3_600_000
const UNCHANGED_MS = 30 * 24 * 3_600_000
const BATCH = 500
/** `<id>` or `<id>.<extension>`. */
const NAME = /^[0-9a-f-]{36}(?:\.[a-z0-9]{1,8})?$/

/** Call after the commit that removed the rows, or for files that got none. */
export async function removeChatFiles(
  layout: Layout,
  files: readonly Pick<ChatFile, 'id' | 'extension' | 'folder' | 'jid'>[],
): Promise<void> {
  for (const file of files) {
    await using directory = await Directory.open(chatFilesDir(layout, file))
    await directory?.removeFile(storedFileName(file))
  }
}

export function removeMessageFiles(layout: Layout, { stored, place }: MessageFiles): Promise<void> {
  return removeChatFiles(
    layout,
    stored.map((file) => ({ ...file, ...place })),
  )
}

/** Returns how many files without a message are old enough to be removed; removes them unless `isDryRun`. */
export async function removeStrayFiles(
  { engine, layout }: { readonly engine: Pick<Engine, 'read'>; readonly layout: Layout },
  {
    now,
    signal,
    isDryRun = false,
  }: { readonly now: number; readonly signal?: AbortSignal; readonly isDryRun?: boolean },
): Promise<number> {
  let count = 0
  // Names are UUIDv7, so they sort by the time of their creation.
  const limit = uuidv7({ now: () => now - STRAY_AFTER_MS }, { bytes: (length) => new Uint8Array(length) })
  await using all = await Directory.open(layout.files, { follow: true })
  for (const { name: folder } of (await all?.entries()) ?? []) {
    await using chats = await all?.openDirectory(folder)
    if (chats && folder === UNFINISHED) count += await sweep(chats, limit, isDryRun, async (names) => names)
    else
      for (const { name } of (await chats?.entries()) ?? []) {
        if (signal?.aborted) return count
        await using chat = await chats?.openDirectory(name)
        // Files that were left there before were removed before.
        if (!chat || (await chat.stat()).mtimeMs < now - UNCHANGED_MS) continue
        count += await sweep(chat, limit, isDryRun, (names) => engine.read((tx) => withoutRow(tx, names)))
      }
  }
  return count
}

type FindStray = (names: readonly string[]) => Promise<readonly string[]>

async function sweep(directory: Directory, limit: string, isDryRun: boolean, find: FindStray): Promise<number> {
  const names = (await directory.entries()).map(({ name }) => name).filter((name) => NAME.test(name) && name < limit)
  let count = 0
  for (let from = 0; from < names.length; from += BATCH) {
    const stray = await find(names.slice(from, from + BATCH))
    count += stray.length
    if (!isDryRun) for (const name of stray) await directory.removeFile(name)
  }
  return count
}

async function withoutRow(tx: Tx, names: readonly string[]): Promise<string[]> {
  const ids = names.map((name) => name.slice(0, 36))
  const rows = await query(tx, { id: text }, `select id from chat_files where id in (${placeholders(ids.length)})`, ids)
  const known = new Set(rows.map(({ id }) => id))
  return names.filter((name) => !known.has(name.slice(0, 36)))
}
