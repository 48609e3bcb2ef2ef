// Reads what a TLS server sends first: whether it has accepted a hello of the client, or asks for another one
// (HelloRetryRequest). Until it has accepted one, the name in the client's next hello is the one that the server goes by.

const CHANGE_CIPHER_SPEC = 20
const HANDSHAKE = 22
const MAJOR_VERSION = 3
const HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
const SERVER_HELLO = 2
const VERSION_BYTES = 2
/** The random of a ServerHello that asks for another hello (RFC 8446, 4.1.3). */
export const RETRY_RANDOM: Uint8Array = Buffer.from(
  'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c',
  'hex',
)

/** However the bytes are cut into calls, the answer is the same. Keeps none of them. */
export class ServerHelloReader {
  /** The server accepts no further hello: it has accepted one, or it does not speak TLS. */
  isSettled = false
  // The record.
  #headerBytes = 0
  #type = HANDSHAKE
  #recordLeft = 0
  // The handshake message that the records carry.
  #messageHeaderBytes = 0
  #messageType = 0
  #messageLeft = 0
  #bodyBytes = 0

  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && !this.isSettled; ) {
      const isInRecord = this.#headerBytes === 0 && this.#recordLeft > 0
      at += isInRecord ? this.#takePayload(bytes, at) : this.#takeHeaderByte(bytes[at] ?? 0)
    }
  }

  #takeHeaderByte(byte: number): number {
    const place = this.#headerBytes++
    if (place === 0) this.#type = byte
    if (place >= 3) this.#recordLeft = (this.#recordLeft << 8) | byte
    if (this.#headerBytes === HEADER_BYTES) this.#headerBytes = 0
    // Encrypted data before any ServerHello is no TLS either.
    const isTls = place === 0 ? byte >= CHANGE_CIPHER_SPEC && byte <= HANDSHAKE : place > 1 || byte === MAJOR_VERSION
    if (!isTls) this.isSettled = true
    return 1
  }

  /** Says how many bytes it took. Alerts may come first: a warning about the name does. */
  #takePayload(bytes: Uint8Array, at: number): number {
    const there = Math.min(this.#recordLeft, bytes.length - at)
    const taken = this.#type === HANDSHAKE ? this.#takeMessage(bytes, at, there) : there
    this.#recordLeft -= taken
    return taken
  }

  #takeMessage(bytes: Uint8Array, at: number, there: number): number {
    if (this.#messageHeaderBytes < MESSAGE_HEADER_BYTES) return this.#takeMessageHeaderByte(bytes[at] ?? 0)
    const place = this.#bodyBytes - VERSION_BYTES
    const isRandom = this.#messageType === SERVER_HELLO && place >= 0 && place < RETRY_RANDOM.length
    if (isRandom && bytes[at] !== RETRY_RANDOM[place]) this.isSettled = true
    const isBeforeRandomEnds = this.#messageType === SERVER_HELLO && place < RETRY_RANDOM.length
    const taken = isBeforeRandomEnds ? 1 : Math.min(there, this.#messageLeft)
    this.#bodyBytes += taken
    this.#messageLeft -= taken
    this.#endMessage()
    return taken
  }

  #takeMessageHeaderByte(byte: number): number {
    const place = this.#messageHeaderBytes++
    if (place === 0) this.#messageType = byte
    else this.#messageLeft = (this.#messageLeft << 8) | byte
    if (this.#messageHeaderBytes === MESSAGE_HEADER_BYTES) this.#endMessage()
    return 1
  }

  #endMessage(): void {
    if (this.#messageLeft > 0) return
    this.#messageHeaderBytes = 0
    this.#bodyBytes = 0
  }
}
