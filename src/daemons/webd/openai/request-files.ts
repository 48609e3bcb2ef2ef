// Writes the files of a request to the disk, like the files of a form.
import { ChatFileWriter } from '../../../core/files/chat-file-writer.ts'
import { FILES_BYTES_MAX, FILES_MAX, type MessageFiles, type StoredFile } from '../../../core/files/chat-files.ts'
import { showableFileName } from '../../../core/files/file-names.ts'
import { uuidv7 } from '../../../lib/clock.ts'
import { refuse } from '../../../lib/refusal.ts'
import { storableContentType } from '../chat-body.ts'
import type { CachedLink } from '../link-cache.ts'
import type { LinkPostContext } from '../link-post.ts'
import { decodeFile, type EncodedFile } from './content-parts.ts'

export async function storeRequestFiles(
  context: LinkPostContext,
  { folder, jid, storage }: CachedLink,
  encoded: readonly EncodedFile[],
  visitor: string,
): Promise<MessageFiles | undefined> {
  if (encoded.length === 0) return undefined
  const { host, uploads, attachmentMax } = context
  if (!host.layout || folder === undefined) return refuse('wrong_type', 'this link does not accept files')
  if (encoded.length > FILES_MAX) refuse('too_large', `the message has more than ${FILES_MAX} files`)
  const files = encoded.map(decodeFile)
  const max = attachmentMax()
  const large = files.find(({ bytes }) => bytes.length > max)
  if (large) refuse('too_large', `the file ${JSON.stringify(large.name)} is larger than ${max} bytes`)
  const size = files.reduce((sum, { bytes }) => sum + bytes.length, 0)
  if (size > FILES_BYTES_MAX) refuse('too_large', `the files together are larger than ${FILES_BYTES_MAX} bytes`)
  storage.mustHaveSpace(size)
  await uploads.mustHaveRoomOnDisk(host.layout)
  const place = { folder, jid: jid + visitor }
  const writers: ChatFileWriter[] = []
  try {
    const stored: StoredFile[] = []
    for (const { name, type, bytes } of files) {
      const label = {
        id: uuidv7(host.clock, host.random),
        name: showableFileName(name),
        declared_type: storableContentType(type) ?? undefined,
      }
      const writer = await ChatFileWriter.open(host.layout, label)
      writers.push(writer)
      await writer.write(bytes)
      stored.push(await writer.finish())
    }
    for (const writer of writers) await writer.place(place)
    return { place, stored }
  } catch (error) {
    for (const writer of writers) await writer.remove().catch(host.faults.handler('connection'))
    throw error
  }
}
