// Walks the records that a TLS client sends after its hello, for as long as a second hello may be among them. A server that
// does not like the keys of the first asks for another (HelloRetryRequest), passes over early data of any length, and goes
// by the name in the second hello, whatever the first one said. What ends the walk is the server's answer: see
// `server-hello.ts`. Nothing that the client sends can end it.

const HANDSHAKE = 22
const HEADER_BYTES = 5

export class SecondHello {
  #headerBytes = 0
  #left = 0

  /** Where, from `start`, a record begins that may hold a hello; the end of the bytes where none does. */
  find(bytes: Uint8Array, start: number): number {
    for (let at = start; at < bytes.length; ) {
      if (this.#headerBytes === 0 && this.#left > 0) {
        const passed = Math.min(this.#left, bytes.length - at)
        this.#left -= passed
        at += passed
      } else if (this.#headerBytes === 0 && bytes[at] === HANDSHAKE) return at
      else this.#readHeader(bytes[at++] ?? 0)
    }
    return bytes.length
  }

  #readHeader(byte: number): void {
    const place = this.#headerBytes++
    if (place >= 3) this.#left = (this.#left << 8) | byte
    if (this.#headerBytes === HEADER_BYTES) this.#headerBytes = 0
  }
}
