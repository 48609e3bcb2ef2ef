// Collects bytes of foreign senders in one buffer. A list of chunks takes hundreds of bytes for each, and senders may send single bytes.

const EMPTY = Buffer.alloc(0)

export class GrowingBuffer {
  #buffer: Buffer = EMPTY
  #length = 0

  get length(): number {
    return this.#length
  }

  append(chunk: Uint8Array): void {
    const needed = this.#length + chunk.byteLength
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2))
      this.#buffer.copy(grown, 0, 0, this.#length)
      this.#buffer = grown
    }
    this.#buffer.set(chunk, this.#length)
    this.#length = needed
  }

  /** What was collected, in memory that later chunks do not change. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Returns what was collected, and begins again. */
  take(): Buffer {
    const { bytes } = this
    this.#buffer = EMPTY
    this.#length = 0
    return bytes
  }
}
