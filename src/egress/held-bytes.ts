// Bytes that are kept until enough of them are there to judge. Grows by doubling: a client that sends them one by one
// must not make us copy all of them each time.

const NOTHING = Buffer.alloc(0)

export class HeldBytes {
  #buffer: Buffer = NOTHING
  #length = 0

  get length(): number {
    return this.#length
  }

  /** All of them; good until the next `add`. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** All of them, and none is kept any longer. */
  take(): Buffer {
    const { bytes } = this
    this.#buffer = NOTHING
    this.#length = 0
    return bytes
  }

  add(bytes: Uint8Array): void {
    const length = this.#length + bytes.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length, 512))
      larger.set(this.bytes)
      this.#buffer = larger
    }
    this.#buffer.set(bytes, this.#length)
    this.#length = length
  }
}
