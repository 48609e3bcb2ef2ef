// Gives the files of a message to another message of the same chat. Both have names of their own for the same content, because
// each message is removed with its files.
import { type Clock, type Random, uuidv7 } from '../../lib/clock.ts'
import { Directory } from '../../lib/files/directory.ts'
import { refuse } from '../../lib/refusal.ts'
import { chatFilesDir, type Layout } from '../layout.ts'
import { onDisk } from './chat-file-writer.ts'
import { type ChatFile, type MessageFiles, type StoredFile, storedFileName } from './chat-files.ts'
import { removeMessageFiles } from './stray-files.ts'

interface FilesHost {
  readonly layout?: Layout | undefined
  readonly clock: Clock
  readonly random: Random
}

/** Undefined without files. */
export async function repeatFiles(
  { layout, clock, random }: FilesHost,
  files: readonly ChatFile[],
): Promise<MessageFiles | undefined> {
  const [first] = files
  if (!first) return undefined
  if (!layout) return refuse('unavailable', 'this process has no access to the files')
  const place = { folder: first.folder, jid: first.jid }
  const stored = files.map(({ name, declared_type, type, extension, size, transcript }): StoredFile => {
    const id = uuidv7(clock, random)
    return { id, name, declared_type, type, extension, size, ...(transcript === undefined ? {} : { transcript }) }
  })
  const link = async (): Promise<void> => {
    await using directory = await Directory.open(chatFilesDir(layout, place))
    for (const [at, file] of files.entries()) {
      const copy = stored[at]
      if (!directory || !copy || (await directory.kindOf(storedFileName(file))) !== 'file')
        refuse('unprocessable', 'a file of the message is gone', 'send the message again without it')
      await directory.linkFile(storedFileName(file), storedFileName(copy))
    }
  }
  await onDisk(link).catch(async (error) => {
    await removeMessageFiles(layout, { place, stored })
    throw error
  })
  return { place, stored }
}
