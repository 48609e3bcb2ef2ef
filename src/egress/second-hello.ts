// What a TLS client sends behind its hello, for as long as a second hello may be in it. A server that does not like the
// keys of the first asks for another (HelloRetryRequest), and goes by the name in that one, whatever the first one said.

const CHANGE_CIPHER_SPEC = 20
const HANDSHAKE = 22
const APPLICATION_DATA = 23
const HEADER_BYTES = 5
/** Servers pass over a quarter of this before they give up. */
const PASSED_MAX = 65_536

export class SecondHello {
  /** Nothing that comes can be a hello any more. */
  isRuledOut = false
  readonly #mayHoldData: boolean
  #type = CHANGE_CIPHER_SPEC
  #headerBytes = 0
  #left = 0
  #passed = 0

  /** With `early`, the first hello has announced data, and a server that asks again passes over it. */
  constructor(early: boolean) {
    this.#mayHoldData = early
  }

  /** Where, from `at`, a record begins that may hold a hello; the end of the bytes where none does. */
  find(bytes: Uint8Array, start: number): number {
    let at = start
    while (at < bytes.length && !this.isRuledOut) {
      if (this.#left === 0 && this.#headerBytes === 0 && bytes[at] === HANDSHAKE) return at
      at =
        this.#headerBytes === 0 && this.#left > 0 ? this.#pass(bytes.length, at) : this.#readHeader(bytes[at] ?? 0, at)
    }
    return bytes.length
  }

  #pass(end: number, at: number): number {
    const count = Math.min(this.#left, end - at)
    this.#left -= count
    this.#count(count)
    return at + count
  }

  #readHeader(byte: number, at: number): number {
    const place = this.#headerBytes++
    if (place === 0) this.#type = byte
    if (place >= 3) this.#left = (this.#left << 8) | byte
    this.#count(1)
    if (this.#headerBytes === HEADER_BYTES) this.#headerBytes = 0
    // Encrypted: the handshake has gone on without another hello.
    if (this.#type === APPLICATION_DATA && !this.#mayHoldData) this.isRuledOut = true
    return at + 1
  }

  #count(count: number): void {
    this.#passed += count
    if (this.#passed > PASSED_MAX) this.isRuledOut = true
  }
}
