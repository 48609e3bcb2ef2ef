// Splits a stream of bytes into lines.

const NEWLINE = 10
const RETURN = 13

export class LineSplitter {
  #chunk: Buffer | undefined
  #at = 0
  /** The incomplete line, in one growing buffer: single bytes must not each allocate an object. */
  #rest: Buffer = Buffer.alloc(0)
  #length = 0

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
      this.#append(part)
      this.#chunk = undefined
      return undefined
    }
    this.#at = end + 1
    if (this.#at === chunk.length) this.#chunk = undefined
    if (this.#length === 0) return withoutReturn(part)
    this.#append(part)
    const line = this.#rest.subarray(0, this.#length)
    this.#rest = Buffer.alloc(0)
    this.#length = 0
    return withoutReturn(line)
  }

  /** Length of the incomplete line. Valid after `next` returned undefined. */
  get pendingBytes(): number {
    return this.#length
  }

  #append(part: Buffer): void {
    const needed = this.#length + part.length
    if (needed > this.#rest.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, this.#rest.length * 2))
      this.#rest.copy(grown, 0, 0, this.#length)
      this.#rest = grown
    }
    part.copy(this.#rest, this.#length)
    this.#length = needed
  }
}

function withoutReturn(line: Buffer): Buffer {
  return line.at(-1) === RETURN ? line.subarray(0, -1) : line
}
