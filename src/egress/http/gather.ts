// Pieces that go out in one write: a head and the first of its body cost one call to the kernel, not two. The memory is
// used again for every write of the thread, for a wire never keeps what it was given.
import type { Wire } from '../wire.ts'

const FIRST_SIZE = 131_072
/** Above this, copying costs more than a second write. */
const COPY_MAX = 65_536

class Gather {
  #buffer = Buffer.allocUnsafeSlow(FIRST_SIZE)
  #length = 0

  /** Latin-1: a character is a byte. */
  text(text: string): void {
    this.#reserve(text.length)
    this.#length += this.#buffer.write(text, this.#length, 'latin1')
  }

  bytes(bytes: Buffer, start: number, end: number): void {
    this.#reserve(end - start)
    this.#length += bytes.copy(this.#buffer, this.#length, start, end)
  }

  /** What was gathered, if anything. Says what `write` said. */
  send(wire: Wire): boolean {
    const length = this.#length
    this.#length = 0
    return length === 0 || wire.write(this.#buffer.subarray(0, length))
  }

  /** The same, and one more piece behind it. */
  sendWith(wire: Wire, bytes: Buffer, start: number, end: number): boolean {
    if (end - start <= COPY_MAX && this.#length > 0) {
      this.bytes(bytes, start, end)
      return this.send(wire)
    }
    this.send(wire)
    return wire.write(bytes.subarray(start, end))
  }

  #reserve(count: number): void {
    const needed = this.#length + count
    if (needed <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#buffer.length))
    this.#buffer.copy(larger, 0, 0, this.#length)
    this.#buffer = larger
  }
}

/** The one of this thread. Between the first piece and `send` nothing else may run. */
export const GATHER: Gather = new Gather()
