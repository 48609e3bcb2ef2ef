// Writes a file of a message as it arrives: into a directory of unfinished files, and from there, when all of it is on the disk,
// into the directory of its chat. It becomes valid with its row; `stray-files.ts` removes files that never got one.
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { Directory } from '../../lib/files/directory.ts'
import { GrowingBuffer } from '../../lib/growing-buffer.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { type ChatPlace, chatFilesDir, type Layout } from '../layout.ts'
import { type StoredFile, storedFileName } from './chat-files.ts'
import { CHAT_FILE_MODE, makeChatFiles } from './chat-files-directory.ts'
import { FileTypeDetector } from './file-type.ts'

/** Of one write. While it runs, as many more are received. */
const WRITE_BYTES = 512 * 1024
const RECEIVED_AT_ONCE = 64 * 1024
/** A slow disk must leave threads to the rest of the process. */
const WRITES = new ConcurrencyLimit(2)

/** No folder has a name like this. */
export const UNFINISHED = '.unfinished'

/** How the sender describes the file. */
type FileLabel = Pick<StoredFile, 'id' | 'name' | 'declared_type'>

export class ChatFileWriter {
  readonly #layout: Layout
  readonly #label: FileLabel
  readonly #handle: FileHandle
  readonly #detector = new FileTypeDetector()
  #size = 0
  #received = new GrowingBuffer(WRITE_BYTES + RECEIVED_AT_ONCE)
  /** It is being written. */
  #written = new GrowingBuffer(WRITE_BYTES + RECEIVED_AT_ONCE)
  #writing: Promise<void> = Promise.resolve()
  #isOpen = true
  #place: Pick<ChatPlace, 'folder' | 'jid'> | undefined
  #stored: StoredFile | undefined

  private constructor(layout: Layout, label: FileLabel, handle: FileHandle) {
    this.#layout = layout
    this.#label = label
    this.#handle = handle
  }

  static async open(layout: Layout, label: FileLabel): Promise<ChatFileWriter> {
    await mustShareFiles(layout)
    return onDisk(async () => {
      await using directory = await makeUnfinished(layout)
      return new ChatFileWriter(layout, label, await directory.createOpenFile(label.id, 0o600))
    })
  }

  get name(): string {
    return this.#label.name
  }

  get size(): number {
    return this.#size
  }

  async write(bytes: Buffer): Promise<void> {
    this.#size += bytes.length
    this.#detector.write(bytes)
    this.#received.append(bytes)
    if (this.#received.length >= WRITE_BYTES) await this.#startWriting()
  }

  /** Waits for the write before, and so for its error. */
  async #startWriting(): Promise<void> {
    await this.#writing
    const { bytes } = this.#received
    ;[this.#received, this.#written] = [this.#written, this.#received]
    this.#received.clear()
    this.#writing = onDisk(() => WRITES.run(() => this.#handle.writeFile(bytes)))
    this.#writing.catch(() => undefined)
  }

  /** When it returns, the content survives a power cut. */
  async finish(): Promise<StoredFile> {
    await this.#startWriting()
    await this.#writing
    // A message may have more files to come.
    this.#received = this.#written = new GrowingBuffer()
    await onDisk(async () => {
      await this.#handle.chmod(CHAT_FILE_MODE)
      await WRITES.run(() => this.#handle.sync())
      await this.#close()
    })
    this.#stored = { ...this.#label, ...this.#detector.endToShow(), size: this.#size }
    return this.#stored
  }

  /** Moves the finished file into the directory of its chat. */
  async place(place: Pick<ChatPlace, 'folder' | 'jid'>): Promise<void> {
    const stored = this.#stored
    if (!stored) throw new Error('the file is not finished')
    await onDisk(async () => {
      await using from = await makeUnfinished(this.#layout)
      await using to = await makeChatFiles(this.#layout, place)
      this.#place = place
      await from.moveEntry(stored.id, to, storedFileName(stored))
    })
  }

  /** Removes the file, wherever it is. */
  async remove(): Promise<void> {
    await this.#close()
    await using unfinished = await makeUnfinished(this.#layout)
    await unfinished.removeFile(this.#label.id)
    if (!this.#place || !this.#stored) return
    await using placed = await Directory.open(chatFilesDir(this.#layout, this.#place))
    await placed?.removeFile(storedFileName(this.#stored))
  }

  async #close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await this.#writing.catch(() => undefined)
    await this.#handle.close()
  }
}

/** Refuses where the process has a directory of its own, in a pod without the files of the instance: they would be lost with it. */
export async function mustShareFiles({ files, groups }: Layout): Promise<void> {
  for (const path of [files, groups]) {
    await using directory = await Directory.open(path, { follow: true })
    if (directory) return
  }
  refuse('unsupported', 'files are not available here', 'send messages without files')
}

export async function makeUnfinished({ files }: Layout): Promise<Directory> {
  await (await Directory.make(files, 0o700, { follow: true })).close()
  return Directory.make(join(files, UNFINISHED), 0o700)
}

export function noSpace(): Refusal {
  return new Refusal('storage_full', 'there is no space for files at the moment', 'send the message without the file')
}

const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Strangers learn that there is no space, and nothing else about the disk. */
export async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const cause = error instanceof Refusal ? error.cause : error
    if (FULL.has(errnoCode(cause) ?? '')) throw noSpace()
    if (error instanceof Error && (error instanceof Refusal || errnoCode(error) !== undefined))
      return refuse('unavailable', error.message)
    throw error
  }
}
