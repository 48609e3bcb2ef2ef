// The log of one turn: what its process prints, up to a size. The file comes into being with the first byte.
import { constants } from 'node:fs'
import { type FileHandle, mkdir, open, realpath } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'

const LOG_MAX_BYTES = 10 * 1024 * 1024
const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants

export class TurnLog {
  readonly #path: string
  readonly #home: string
  #file: Promise<FileHandle | undefined> | undefined
  #writing: Promise<void> = Promise.resolve()
  #left = LOG_MAX_BYTES

  constructor(path: string, home: string) {
    this.#path = path
    this.#home = home
  }

  /** What does not fit any more is dropped, and so is all where the disk takes none: a log is no reason to fail. */
  write(chunk: Uint8Array): void {
    if (this.#left <= 0) return
    const bytes = chunk.subarray(0, this.#left)
    this.#left -= bytes.length
    this.#file ??= openLog(this.#path, this.#home).catch(() => undefined)
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

/** The agent can write where its log lies, and must not lead us elsewhere by a link. */
async function openLog(path: string, home: string): Promise<FileHandle> {
  const folder = dirname(path)
  const within = relative(home, folder)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!within.startsWith('..') && (await realpath(folder)) !== join(await realpath(home), within))
    throw new Error('the folder of logs is a link')
  return open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600)
}
