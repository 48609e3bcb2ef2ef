// Detects whether a TLS server has accepted a ClientHello or requests another one (HelloRetryRequest). Until it has accepted
// one, it uses the server name of the client's next ClientHello.

const CHANGE_CIPHER_SPEC = 20
const HANDSHAKE = 22
const MAJOR_VERSION = 3
const HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
const SERVER_HELLO = 2
const VERSION_BYTES = 2
/** The random of a HelloRetryRequest (RFC 8446, 4.1.3). */
export const RETRY_RANDOM: Uint8Array = Buffer.from(
  'cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c',
  'hex',
)

/** The result does not depend on how the bytes are split into calls. */
export class ServerHelloReader {
  /** The server accepts no further ClientHello: it has accepted one or does not speak TLS. */
  isSettled = false
  #headerBytes = 0
  #type = HANDSHAKE
  #recordLeft = 0
  // The handshake message within the records.
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
    const index = this.#headerBytes++
    if (index === 0) this.#type = byte
    if (index >= 3) this.#recordLeft = (this.#recordLeft << 8) | byte
    if (this.#headerBytes === HEADER_BYTES) this.#headerBytes = 0
    // Encrypted data before a ServerHello is not TLS.
    const isTls = index === 0 ? byte >= CHANGE_CIPHER_SPEC && byte <= HANDSHAKE : index > 1 || byte === MAJOR_VERSION
    if (!isTls) this.isSettled = true
    return 1
  }

  /** Returns the number of consumed bytes. Alerts may come first, such as a warning about the server name. */
  #takePayload(bytes: Uint8Array, at: number): number {
    const available = Math.min(this.#recordLeft, bytes.length - at)
    const taken = this.#type === HANDSHAKE ? this.#takeMessage(bytes, at, available) : available
    this.#recordLeft -= taken
    return taken
  }

  #takeMessage(bytes: Uint8Array, at: number, available: number): number {
    if (this.#messageHeaderBytes < MESSAGE_HEADER_BYTES) return this.#takeMessageHeaderByte(bytes[at] ?? 0)
    const index = this.#bodyBytes - VERSION_BYTES
    const isRandom = this.#messageType === SERVER_HELLO && index >= 0 && index < RETRY_RANDOM.length
    if (isRandom && bytes[at] !== RETRY_RANDOM[index]) this.isSettled = true
    const isBeforeRandomEnds = this.#messageType === SERVER_HELLO && index < RETRY_RANDOM.length
    const taken = isBeforeRandomEnds ? 1 : Math.min(available, this.#messageLeft)
    this.#bodyBytes += taken
    this.#messageLeft -= taken
    this.#endMessage()
    return taken
  }

  #takeMessageHeaderByte(byte: number): number {
    const index = this.#messageHeaderBytes++
    if (index === 0) this.#messageType = byte
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
