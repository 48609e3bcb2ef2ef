// Splits a stream of bytes into lines.
import { GrowingBuffer } from '../lib/growing-buffer.ts'

const NEWLINE = 10
const RETURN = 13

export class LineSplitter {
  #chunk: Buffer | undefined
  #at = 0
  /** The incomplete line. */
  readonly #rest = new GrowingBuffer()

  push(chunk: Buffer): void {
    this.#chunk = this.#chunk ? Buffer.concat([this.#chunk.subarray(this.#at), chunk]) : chunk
    this.#at = 0
  }

  /** The next complete line without its line ending; undefined if more bytes are needed. */
  next(): Buffer | undefined {
    const chunk = this.#chunk
    if (!chunk) return undefined
    const end = chunk.indexOf(NEWLINE, this.#at)
    const part = chunk.subarray(this.#at, end < 0 ? chunk.length : end)
    if (end < 0) {
      this.#rest.append(part)
      this.#chunk = undefined
      return undefined
    }
    this.#at = end + 1
    if (this.#at === chunk.length) this.#chunk = undefined
    if (this.#rest.length === 0) return withoutReturn(part)
    this.#rest.append(part)
    return withoutReturn(this.#rest.take())
  }

  /** Length of the incomplete line. Valid after `next` returned undefined. */
  get pendingBytes(): number {
    return this.#rest.length
  }
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === RETURN ? line.subarray(0, -1) : line
}
