// Finds records after a ClientHello that may hold a second one. A server that rejects the key shares of the first requests
// another (HelloRetryRequest), skips early data of any length, and uses the server name of the second ClientHello. Only the
// server's response ends the scan (see `server-hello.ts`); nothing that the client sends can.

const HANDSHAKE = 22
const HEADER_BYTES = 5

export class SecondHelloScanner {
  #headerBytes = 0
  #left = 0

  /** Returns the offset of the next handshake record, or the end of `bytes`. */
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
    const index = this.#headerBytes++
    if (index >= 3) this.#left = (this.#left << 8) | byte
    if (this.#headerBytes === HEADER_BYTES) this.#headerBytes = 0
  }
}
