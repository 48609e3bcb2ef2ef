// Incremental reader of the first bytes of a connection, until they are a complete ClientHello or cannot become one.
import { type ClientHelloResult, isVersion, readClientHello, u8, u16, unreadable } from './client-hello-message.ts'

const ALERT = 21
const HANDSHAKE = 22
const RECORD_TYPES = { first: 20, last: 24 }
const CLIENT_HELLO = 1
const RECORD_HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
const HEADERS_BYTES = RECORD_HEADER_BYTES + MESSAGE_HEADER_BYTES
/** Limit of a plaintext record. */
const MAX_RECORD_BYTES = 2 ** 14
const ALERT_BYTES = 2
/** Including record headers. Real clients send less than 4 KiB, plus session tickets. */
const MAX_BYTES = 2 ** 16
const FIRST_ROOM_BYTES = 2048

const MORE: ClientHelloResult = { kind: 'more' }
const NOT_TLS: ClientHelloResult = { kind: 'not-tls' }
const TOO_LONG = unreadable('it is longer than 64 KiB')
/** The server would read the other message unchecked. */
const TRAILING_DATA = unreadable('something follows it in its record')
/** No server reads a ClientHello of this length (OpenSSL's limit, the highest, is half of it), so it is encrypted data. */
export const HELLO_TOO_LONG: ClientHelloResult = unreadable('it is longer than any server reads')
const UNREADABLE_BYTES = 2 ** 18
/** The client has already got a ServerHello. */
export const NOT_CLIENT_HELLO: ClientHelloResult = unreadable('the handshake starts with another message')
const NOTHING = new Uint8Array(0)

/** The result does not depend on how the bytes are split into calls. The first result other than `more` is final. */
export class ClientHelloReader {
  /** Offset after the ClientHello in the bytes of the last call. */
  end = 0
  #result: ClientHelloResult = MORE
  #seenBytes = 0
  // The current record.
  #headerBytes = 0
  #type = HANDSHAKE
  #version = 0
  #recordBytes = 0
  #recordLeft = 0
  // The handshake message within the records.
  #messageHeaderBytes = 0
  #messageLength = 0
  #message = NOTHING
  #messageBytes = 0

  push(bytes: Uint8Array): ClientHelloResult {
    if (this.#result !== MORE) return this.#result
    const inPlace = this.#seenBytes === 0 ? readInOneRecord(bytes) : undefined
    if (inPlace) this.end = RECORD_HEADER_BYTES + u16(bytes, 3)
    this.#result = inPlace ?? this.#take(bytes)
    if (this.#result !== MORE) this.#message = NOTHING
    return this.#result
  }

  #take(bytes: Uint8Array): ClientHelloResult {
    const end = Math.min(bytes.length, MAX_BYTES - this.#seenBytes)
    this.#seenBytes += end
    for (let at = 0; at < end; ) {
      const isBody = this.#recordLeft > 0 && this.#messageHeaderBytes === MESSAGE_HEADER_BYTES
      const next = isBody ? Math.min(at + this.#recordLeft, end) : at + 1
      const result = isBody ? this.#takeBody(bytes.subarray(at, next)) : this.#takeHeaderByte(bytes[at] ?? 0)
      this.end = next
      if (result !== MORE) return result
      at = next
    }
    return this.#seenBytes < MAX_BYTES ? MORE : TOO_LONG
  }

  #takeHeaderByte(byte: number): ClientHelloResult {
    return this.#recordLeft > 0 ? this.#takeMessageHeaderByte(byte) : this.#takeRecordHeaderByte(byte)
  }

  #takeRecordHeaderByte(byte: number): ClientHelloResult {
    const index = this.#headerBytes++
    if (index === 0) return this.#takeType(byte)
    if (index <= 2) this.#version = ((this.#version & 0xff) << 8) | byte
    else this.#recordBytes = ((this.#recordBytes & 0xff) << 8) | byte
    if (index < RECORD_HEADER_BYTES - 1) return MORE
    this.#headerBytes = 0
    return this.#type === HANDSHAKE ? this.#startRecord() : this.#checkOtherRecord()
  }

  #takeType(type: number): ClientHelloResult {
    if (type === HANDSHAKE) return MORE
    const isFirst = this.#recordBytes === 0
    if (!isFirst) return unreadable('another record comes in between')
    this.#type = type
    return type >= RECORD_TYPES.first && type <= RECORD_TYPES.last ? MORE : NOT_TLS
  }

  #startRecord(): ClientHelloResult {
    if (!isVersion(this.#version)) return unreadable('the version of a record is not one of TLS')
    if (this.#recordBytes === 0) return unreadable('a record is empty')
    if (this.#recordBytes > MAX_RECORD_BYTES) return unreadable('a record is longer than 16 KiB')
    this.#recordLeft = this.#recordBytes
    return MORE
  }

  /** Go servers ignore warning alerts of any version before the ClientHello, so it would follow unchecked. */
  #checkOtherRecord(): ClientHelloResult {
    const isTls = isVersion(this.#version) || (this.#type === ALERT && this.#recordBytes <= ALERT_BYTES)
    return isTls ? unreadable('another record comes before it') : NOT_TLS
  }

  #takeMessageHeaderByte(byte: number): ClientHelloResult {
    this.#recordLeft--
    const index = this.#messageHeaderBytes++
    if (index === 0) return byte === CLIENT_HELLO ? MORE : NOT_CLIENT_HELLO
    this.#messageLength = (this.#messageLength << 8) | byte
    if (index < MESSAGE_HEADER_BYTES - 1) return MORE
    if (this.#messageLength >= UNREADABLE_BYTES) return HELLO_TOO_LONG
    if (HEADERS_BYTES + this.#messageLength > MAX_BYTES) return TOO_LONG
    return this.#messageLength === 0 ? readClientHello(NOTHING, 0, 0) : MORE
  }

  #takeBody(bytes: Uint8Array): ClientHelloResult {
    this.#recordLeft -= bytes.length
    const wanted = bytes.subarray(0, this.#messageLength - this.#messageBytes)
    this.#makeRoom(this.#messageBytes + wanted.length)
    this.#message.set(wanted, this.#messageBytes)
    this.#messageBytes += wanted.length
    if (this.#messageBytes < this.#messageLength) return MORE
    const isComplete = this.#recordLeft === 0 && wanted.length === bytes.length
    return isComplete ? readClientHello(this.#message, 0, this.#messageLength) : TRAILING_DATA
  }

  /** Grows with the received bytes, not the announced length: idle clients that announce 64 KiB must not cost that much. */
  #makeRoom(bytes: number): void {
    if (bytes <= this.#message.length) return
    const room = Math.max(bytes, FIRST_ROOM_BYTES, 2 * this.#message.length)
    const larger = new Uint8Array(Math.min(room, this.#messageLength))
    larger.set(this.#message.subarray(0, this.#messageBytes))
    this.#message = larger
  }
}

/** Fast path: a ClientHello in one record and one read is parsed in index. */
function readInOneRecord(bytes: Uint8Array): ClientHelloResult | undefined {
  if (bytes.length < HEADERS_BYTES || bytes[0] !== HANDSHAKE || bytes[5] !== CLIENT_HELLO) return undefined
  const [recordBytes, messageLength] = [u16(bytes, 3), (u8(bytes, 6) << 16) | u16(bytes, 7)]
  const isWholeRecord = MESSAGE_HEADER_BYTES + messageLength === recordBytes && recordBytes <= MAX_RECORD_BYTES
  if (!isVersion(u16(bytes, 1)) || !isWholeRecord || HEADERS_BYTES + messageLength > bytes.length) return undefined
  return readClientHello(bytes, HEADERS_BYTES, HEADERS_BYTES + messageLength)
}
