// Collects pieces for one write: a head and the start of its body take one system call instead of two. The memory is reused
// for every write of the thread, because a connection never keeps a reference to it.
import type { TcpConnection } from '../transport/transport.ts'

const FIRST_SIZE = 131_072
/** Above this, copying costs more than a second write. */
const COPY_MAX = 65_536

class WriteBuffer {
  #buffer = Buffer.allocUnsafeSlow(FIRST_SIZE)
  #length = 0

  /** Latin-1: one byte per character. */
  appendText(text: string): void {
    this.#reserve(text.length)
    this.#length += this.#buffer.write(text, this.#length, 'latin1')
  }

  appendBytes(bytes: Buffer, start: number, end: number): void {
    this.#reserve(end - start)
    this.#length += bytes.copy(this.#buffer, this.#length, start, end)
  }

  /** Returns the result of `write`. */
  flushTo(connection: TcpConnection): boolean {
    const length = this.#length
    this.#length = 0
    return length === 0 || connection.write(this.#buffer.subarray(0, length))
  }

  /** Like `flushTo`, with one more piece at the end. */
  flushWith(connection: TcpConnection, bytes: Buffer, start: number, end: number): boolean {
    if (end - start <= COPY_MAX && this.#length > 0) {
      this.appendBytes(bytes, start, end)
      return this.flushTo(connection)
    }
    this.flushTo(connection)
    return connection.write(bytes.subarray(start, end))
  }

  #reserve(count: number): void {
    const needed = this.#length + count
    if (needed <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(needed, 2 * this.#buffer.length))
    this.#buffer.copy(larger, 0, 0, this.#length)
    this.#buffer = larger
  }
}

/** One per thread. Nothing else may run between the first append and the flush. */
export const WRITE_BUFFER: WriteBuffer = new WriteBuffer()
