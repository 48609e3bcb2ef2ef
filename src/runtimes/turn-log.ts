// The log of one turn: what its process prints, up to a size. The file comes into being with the first byte.
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { Directory } from '../lib/files/directory.ts'

const LOG_MAX_BYTES = 10 * 1024 * 1024

export class TurnLog {
  readonly #path: string
  #file: Promise<FileHandle | undefined> | undefined
  #writing: Promise<void> = Promise.resolve()
  #left = LOG_MAX_BYTES

  constructor(path: string) {
    this.#path = path
  }

  /** What does not fit any more is dropped, and so is all where the disk takes none: a log is no reason to fail. */
  write(chunk: Uint8Array): void {
    if (this.#left <= 0) return
    const bytes = chunk.subarray(0, this.#left)
    this.#left -= bytes.length
    this.#file ??= openLog(this.#path).catch(() => undefined)
    const opened = this.#file
    this.#writing = this.#writing
      .then(async () => void (await (await opened)?.appendFile(bytes)))
      .catch(() => undefined)
  }

  async close(): Promise<void> {
    await this.#writing
    await (await this.#file)?.close().catch(() => undefined)
  }
}

async function openLog(path: string): Promise<FileHandle> {
  await using directory = await Directory.make(dirname(path), 0o700)
  return await directory.appendFile(basename(path), 0o600)
}
