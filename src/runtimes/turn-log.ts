// The log file of one turn: the output of its process and its tool calls, up to a size limit. It is created with the first
// byte. Several writers may append to it.
import type { FileHandle } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { Directory } from '../lib/files/directory.ts'

const LOG_MAX_BYTES = 10 * 1024 * 1024

export class TurnLog {
  readonly #path: string
  #file: Promise<FileHandle | undefined> | undefined
  #writing: Promise<void> = Promise.resolve()
  /** Collected while a write is under way, so that many small chunks are few writes. */
  #waiting: Uint8Array[] = []
  #bytesLeft = LOG_MAX_BYTES

  constructor(path: string) {
    this.#path = path
  }

  /** Drops output over the limit, and all output if the file cannot be written: a turn must not fail because of its log. */
  write(chunk: Uint8Array): void {
    if (this.#bytesLeft <= 0) return
    const bytes = chunk.subarray(0, this.#bytesLeft)
    this.#bytesLeft -= bytes.length
    this.#file ??= openLog(this.#path).catch(() => undefined)
    this.#waiting.push(bytes)
    if (this.#waiting.length === 1) this.#writing = this.#writing.then(() => this.#append())
  }

  async #append(): Promise<void> {
    const file = await this.#file
    const bytes = Buffer.concat(this.#waiting.splice(0))
    await file?.appendFile(bytes).catch(() => undefined)
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
