// Bytes that came before it was their turn: the start of a head, or the next request behind the one that is being served.

const NOTHING: Buffer = Buffer.alloc(0)

export class Backlog {
  #buffer = NOTHING
  #start = 0
  #end = 0

  get length(): number {
    return this.#end - this.#start
  }

  /** All of them; good until the next `add`. */
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

  skip(count: number): void {
    this.#start += count
    if (this.#start < this.#end) return
    // An idle connection keeps no memory.
    this.#buffer = NOTHING
    this.#start = 0
    this.#end = 0
  }
}
