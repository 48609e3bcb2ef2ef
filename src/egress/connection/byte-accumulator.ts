// A buffer for bytes that cannot be processed yet, such as an incomplete head. It grows by doubling, so that a client that sends
// byte by byte does not cause a copy of all bytes each time.

const NOTHING: Buffer = Buffer.alloc(0)

export class ByteAccumulator {
  #buffer = NOTHING
  #start = 0
  #end = 0

  get length(): number {
    return this.#end - this.#start
  }

  /** All bytes; valid until the next `add`. */
  get bytes(): Buffer {
    return this.#buffer.subarray(this.#start, this.#end)
  }

  add(bytes: Uint8Array): void {
    const length = this.length + bytes.length
    if (this.#start + length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.length, 512))
      larger.set(this.bytes)
      this.#buffer = larger
      this.#end = this.length
      this.#start = 0
    }
    this.#buffer.set(bytes, this.#end)
    this.#end += bytes.length
  }

  /** Removes the first `count` bytes. */
  skip(count: number): void {
    this.#start += count
    if (this.#start < this.#end) return
    // An idle connection keeps no memory.
    this.#buffer = NOTHING
    this.#start = 0
    this.#end = 0
  }

  /** Removes and returns all bytes. */
  take(): Buffer {
    const { bytes } = this
    this.skip(bytes.length)
    return bytes
  }
}
