// Incremental parsers of message bodies: find the body's bytes and the end of the message. Nothing is copied; pieces are
// reported as pairs of offsets.

import type { HttpMessageFraming } from './framing.ts'
import { type HeaderField, parseHeaderFields } from './header-field.ts'

export interface BodyReader {
  readonly isDone: boolean
  /** The parse error. Nothing is read after it. */
  readonly fault: string | undefined
  /** Trailer fields of a chunked body, once it is done. */
  readonly trailers: readonly HeaderField[]
  /** Reads on from `at`, appends start and end of each piece to `pieces`, and returns where it stopped. */
  read(bytes: Buffer, at: number, pieces: number[]): number
}

export function openBody(framing: HttpMessageFraming): BodyReader {
  if (framing.kind === 'chunked') return new ChunkedBody()
  if (framing.kind === 'until-close') return new CountedBody(Number.POSITIVE_INFINITY)
  return new CountedBody(framing.kind === 'length' ? framing.length : 0)
}

const NO_TRAILERS: readonly HeaderField[] = []

class CountedBody implements BodyReader {
  readonly fault = undefined
  readonly trailers = NO_TRAILERS
  #left: number

  constructor(length: number) {
    this.#left = length
  }

  get isDone(): boolean {
    return this.#left === 0
  }

  read(bytes: Buffer, at: number, pieces: number[]): number {
    const end = Math.min(bytes.length, at + this.#left)
    if (end === at) return at
    pieces.push(at, end)
    this.#left -= end - at
    return end
  }
}

const CR = 0x0d
const LF = 0x0a
const SEMICOLON = 0x3b

/** Limit of chunk extensions. */
const LINE_MAX = 1024
const DIGITS_MAX = 13
const TRAILERS_MAX = 16_384

type State = 'size' | 'extension' | 'size-end' | 'data' | 'data-cr' | 'data-lf' | 'trailers' | 'done'

class ChunkedBody implements BodyReader {
  fault: string | undefined
  trailers = NO_TRAILERS
  #state: State = 'size'
  #left = 0
  #digits = 0
  #lineBytes = 0
  #text = ''

  get isDone(): boolean {
    return this.#state === 'done'
  }

  read(bytes: Buffer, start: number, pieces: number[]): number {
    let at = start
    while (at < bytes.length && this.#state !== 'done' && this.fault === undefined) {
      if (this.#state === 'data') at = this.#readData(bytes, at, pieces)
      else if (this.#state === 'trailers') at = this.#readTrailers(bytes, at)
      else this.#readByte(bytes[at++] ?? 0)
    }
    return at
  }

  #readData(bytes: Buffer, at: number, pieces: number[]): number {
    const end = Math.min(bytes.length, at + this.#left)
    pieces.push(at, end)
    this.#left -= end - at
    if (this.#left === 0) this.#state = 'data-cr'
    return end
  }

  #readByte(code: number): void {
    if (this.#state === 'size') this.#readSize(code)
    else if (this.#state === 'extension') this.#readExtension(code)
    else if (this.#state === 'size-end') this.#startChunk(code)
    else if (code !== (this.#state === 'data-cr' ? CR : LF)) this.fault = 'chunk does not match its size'
    else this.#state = this.#state === 'data-cr' ? 'data-lf' : 'size'
  }

  #readSize(code: number): void {
    const digit = hexDigitOf(code)
    if (digit >= 0) {
      // Thirteen hexadecimal digits make up to 2^52: larger numbers would be rounded.
      if (++this.#digits > DIGITS_MAX) this.fault = 'chunk size too large'
      this.#left = this.#left * 16 + digit
    } else if (this.#digits === 0) this.fault = 'invalid chunk size'
    else if (code === CR) this.#state = 'size-end'
    else if (code === SEMICOLON) this.#state = 'extension'
    else this.fault = 'invalid chunk size'
  }

  #readExtension(code: number): void {
    if (++this.#lineBytes > LINE_MAX) this.fault = 'chunk extension too long'
    else if (code === CR) this.#state = 'size-end'
    else if ((code < 0x20 && code !== 0x09) || code === 0x7f) this.fault = 'control character in chunk extension'
  }

  #startChunk(code: number): void {
    if (code !== LF) this.fault = 'chunk size line does not end in CRLF'
    else this.#state = this.#left === 0 ? 'trailers' : 'data'
    this.#digits = 0
    this.#lineBytes = 0
  }

  /** Reads up to the empty line. `#text` holds the trailers received so far. */
  #readTrailers(bytes: Buffer, at: number): number {
    const lineFeed = bytes.indexOf(LF, at)
    const end = lineFeed < 0 ? bytes.length : lineFeed + 1
    this.#lineBytes += end - at
    if (this.#lineBytes > TRAILERS_MAX) this.fault = 'trailers too large'
    else this.#text += bytes.toString('latin1', at, end)
    if (lineFeed < 0 || this.fault !== undefined) return end
    if (!this.#text.endsWith('\r\n')) this.fault = 'line feed without carriage return'
    else if (this.#text === '\r\n' || this.#text.endsWith('\r\n\r\n')) this.#finish()
    return end
  }

  #finish(): void {
    const fields = parseHeaderFields(this.#text.slice(0, -2), 0)
    this.#text = ''
    if (typeof fields === 'string') this.fault = fields
    else {
      this.trailers = fields
      this.#state = 'done'
    }
  }
}

function hexDigitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
