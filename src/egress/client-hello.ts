// The first bytes of a connection, as they come, until they are a whole ClientHello or can no longer be one. The bytes
// stay the caller's: it passes them on, or not.
import { type Hello, isVersion, readMessage, u8, u16, unreadable } from './hello-message.ts'

export type { Hello } from './hello-message.ts'

const ALERT = 21
const HANDSHAKE = 22
const RECORD_TYPES = { first: 20, last: 24 }
const CLIENT_HELLO = 1
const RECORD_HEADER_BYTES = 5
const MESSAGE_HEADER_BYTES = 4
const HEADERS_BYTES = RECORD_HEADER_BYTES + MESSAGE_HEADER_BYTES
/** Of a record in the clear. The 256 bytes more (2048 before TLS 1.3) are for encrypted ones. */
const MAX_RECORD_BYTES = 2 ** 14
const ALERT_BYTES = 2
/** Record headers and all. What real clients send is below 4 KiB, and a ticket or two more. */
const MAX_BYTES = 2 ** 16
const FIRST_ROOM_BYTES = 2048

const MORE: Hello = { kind: 'more' }
const NOT_TLS: Hello = { kind: 'not-tls' }
const TOO_LONG = unreadable('it is longer than 64 KiB')
/** Another message would be read by the server, and by nobody before it. */
const NOT_ALONE = unreadable('something follows it in its record')
/** No server reads a hello of this length; OpenSSL, at half of it, reads the longest. What says it is none: it is encrypted. */
export const BEYOND_ALL: Hello = unreadable('it is longer than any server reads')
const BEYOND_ALL_BYTES = 2 ** 18
/** What a client sends who has been answered. */
export const OTHER_MESSAGE: Hello = unreadable('the handshake starts with another message')
const NOTHING = new Uint8Array(0)

/** However the bytes are cut into calls, the answer is the same, and the first answer that is not `more` is the last. */
export class HelloReader {
  /** Where in the bytes of the last call the hello ended. */
  end = 0
  #answer: Hello = MORE
  #seenBytes = 0
  // The header of the record, as far as it came, and how much of the record is still to come.
  #headerBytes = 0
  #type = HANDSHAKE
  #version = 0
  #recordBytes = 0
  #recordLeft = 0
  // The message that the records carry.
  #messageHeaderBytes = 0
  #messageLength = 0
  #message = NOTHING
  #messageBytes = 0

  push(bytes: Uint8Array): Hello {
    if (this.#answer !== MORE) return this.#answer
    const whole = this.#seenBytes === 0 ? readWhole(bytes) : undefined
    if (whole) this.end = RECORD_HEADER_BYTES + u16(bytes, 3)
    this.#answer = whole ?? this.#take(bytes)
    if (this.#answer !== MORE) this.#message = NOTHING
    return this.#answer
  }

  #take(bytes: Uint8Array): Hello {
    const end = Math.min(bytes.length, MAX_BYTES - this.#seenBytes)
    this.#seenBytes += end
    for (let at = 0; at < end; ) {
      const isBody = this.#recordLeft > 0 && this.#messageHeaderBytes === MESSAGE_HEADER_BYTES
      const next = isBody ? Math.min(at + this.#recordLeft, end) : at + 1
      const answer = isBody ? this.#takeBody(bytes.subarray(at, next)) : this.#takeHeaderByte(bytes[at] ?? 0)
      this.end = next
      if (answer !== MORE) return answer
      at = next
    }
    return this.#seenBytes < MAX_BYTES ? MORE : TOO_LONG
  }

  #takeHeaderByte(byte: number): Hello {
    return this.#recordLeft > 0 ? this.#takeMessageHeaderByte(byte) : this.#takeRecordHeaderByte(byte)
  }

  #takeRecordHeaderByte(byte: number): Hello {
    const place = this.#headerBytes++
    if (place === 0) return this.#takeType(byte)
    if (place <= 2) this.#version = ((this.#version & 0xff) << 8) | byte
    else this.#recordBytes = ((this.#recordBytes & 0xff) << 8) | byte
    if (place < RECORD_HEADER_BYTES - 1) return MORE
    this.#headerBytes = 0
    return this.#type === HANDSHAKE ? this.#startRecord() : this.#judgeOther()
  }

  #takeType(type: number): Hello {
    if (type === HANDSHAKE) return MORE
    const isFirst = this.#recordBytes === 0
    if (!isFirst) return unreadable('another record comes in between')
    this.#type = type
    return type >= RECORD_TYPES.first && type <= RECORD_TYPES.last ? MORE : NOT_TLS
  }

  #startRecord(): Hello {
    if (!isVersion(this.#version)) return unreadable('the version of a record is not one of TLS')
    if (this.#recordBytes === 0) return unreadable('a record is empty')
    if (this.#recordBytes > MAX_RECORD_BYTES) return unreadable('a record is longer than 16 KiB')
    this.#recordLeft = this.#recordBytes
    return MORE
  }

  /** Go's servers pass over warnings that come before the hello, whatever their version: it would follow unseen. */
  #judgeOther(): Hello {
    const isTls = isVersion(this.#version) || (this.#type === ALERT && this.#recordBytes <= ALERT_BYTES)
    return isTls ? unreadable('another record comes before it') : NOT_TLS
  }

  #takeMessageHeaderByte(byte: number): Hello {
    this.#recordLeft--
    const place = this.#messageHeaderBytes++
    if (place === 0) return byte === CLIENT_HELLO ? MORE : OTHER_MESSAGE
    this.#messageLength = (this.#messageLength << 8) | byte
    if (place < MESSAGE_HEADER_BYTES - 1) return MORE
    if (this.#messageLength >= BEYOND_ALL_BYTES) return BEYOND_ALL
    if (HEADERS_BYTES + this.#messageLength > MAX_BYTES) return TOO_LONG
    return this.#messageLength === 0 ? readMessage(NOTHING, 0, 0) : MORE
  }

  #takeBody(bytes: Uint8Array): Hello {
    this.#recordLeft -= bytes.length
    const wanted = bytes.subarray(0, this.#messageLength - this.#messageBytes)
    this.#makeRoom(this.#messageBytes + wanted.length)
    this.#message.set(wanted, this.#messageBytes)
    this.#messageBytes += wanted.length
    if (this.#messageBytes < this.#messageLength) return MORE
    const isAlone = this.#recordLeft === 0 && wanted.length === bytes.length
    return isAlone ? readMessage(this.#message, 0, this.#messageLength) : NOT_ALONE
  }

  /** Grows with what came, not with what was announced: a thousand connections that say 64 KiB and wait must not cost that. */
  #makeRoom(bytes: number): void {
    if (bytes <= this.#message.length) return
    const room = Math.max(bytes, FIRST_ROOM_BYTES, 2 * this.#message.length)
    const larger = new Uint8Array(Math.min(room, this.#messageLength))
    larger.set(this.#message.subarray(0, this.#messageBytes))
    this.#message = larger
  }
}

/** The way of almost every hello: it came at once and in one record, and is read where it lies. Whatever is otherwise goes the long way. */
function readWhole(bytes: Uint8Array): Hello | undefined {
  if (bytes.length < HEADERS_BYTES || bytes[0] !== HANDSHAKE || bytes[5] !== CLIENT_HELLO) return undefined
  const [recordBytes, messageLength] = [u16(bytes, 3), (u8(bytes, 6) << 16) | u16(bytes, 7)]
  const isItsRecord = MESSAGE_HEADER_BYTES + messageLength === recordBytes && recordBytes <= MAX_RECORD_BYTES
  if (!isVersion(u16(bytes, 1)) || !isItsRecord || HEADERS_BYTES + messageLength > bytes.length) return undefined
  return readMessage(bytes, HEADERS_BYTES, HEADERS_BYTES + messageLength)
}
