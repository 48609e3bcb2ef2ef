// Collects bytes of foreign senders in one buffer. A list of chunks takes hundreds of bytes for each, and senders may send single bytes.

const EMPTY = Buffer.alloc(0)

export class GrowingBuffer {
  readonly #capacity: number
  #buffer: Buffer = EMPTY
  #length = 0

  /** `capacity` avoids copies while it grows up to that length. */
  constructor(capacity = 0) {
    this.#capacity = capacity
  }

  get length(): number {
    return this.#length
  }

  append(chunk: Uint8Array): void {
    const needed = this.#length + chunk.byteLength
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.max(needed, this.#buffer.length * 2, this.#capacity))
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

  /** Begins again in the same memory, so what was read before changes. */
  clear(): void {
    this.#length = 0
  }

  /** Returns what was collected, and begins again. */
  take(): Buffer {
    const { bytes } = this
    this.#buffer = EMPTY
    this.#length = 0
    return bytes
  }
}
