// The body of a message: fed with bytes as they come, it says which of them are body, and where the message ends.
// Nothing is copied: the body is told as pairs of places in the bytes that were given.
import { type Field, readFields } from './field.ts'
import type { Framing } from './framing.ts'

export interface BodyReader {
  readonly isDone: boolean
  /** What was wrong with it. Nothing is read after that. */
  readonly fault: string | undefined
  /** The fields behind a chunked body, once it is done. */
  readonly trailers: readonly Field[]
  /** Reads on from `at`, adds where each piece starts and ends to `pieces`, and says where it stopped. */
  read(bytes: Buffer, at: number, pieces: number[]): number
}

export function openBody(framing: Framing): BodyReader {
  if (framing.kind === 'chunked') return new ChunkedBody()
  if (framing.kind === 'until-close') return new CountedBody(Number.POSITIVE_INFINITY)
  return new CountedBody(framing.kind === 'length' ? framing.length : 0)
}

const NO_TRAILERS: readonly Field[] = []

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

/** A line with the size of a chunk: what is longer carries something else. */
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
  #line = 0
  #text = ''

  get isDone(): boolean {
    return this.#state === 'done'
  }

  read(bytes: Buffer, start: number, pieces: number[]): number {
    let at = start
    while (at < bytes.length && this.#state !== 'done' && this.fault === undefined) {
      if (this.#state === 'data') at = this.#readData(bytes, at, pieces)
      else if (this.#state === 'trailers') at = this.#readTrailers(bytes, at)
      else this.#readCode(bytes[at++] ?? 0)
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

  #readCode(code: number): void {
    if (this.#state === 'size') this.#readSize(code)
    else if (this.#state === 'extension') this.#readExtension(code)
    else if (this.#state === 'size-end') this.#startChunk(code)
    else if (code !== (this.#state === 'data-cr' ? CR : LF)) this.fault = 'a chunk that does not end where it says'
    else this.#state = this.#state === 'data-cr' ? 'data-lf' : 'size'
  }

  #readSize(code: number): void {
    const digit = digitOf(code)
    if (digit >= 0) {
      // Thirteen digits count to 2^52: beyond that, arithmetic would round.
      if (++this.#digits > DIGITS_MAX) this.fault = 'a chunk size that is too large'
      this.#left = this.#left * 16 + digit
    } else if (this.#digits === 0) this.fault = 'a chunk size that is no number'
    else if (code === CR) this.#state = 'size-end'
    else if (code === SEMICOLON) this.#state = 'extension'
    else this.fault = 'a chunk size that is no number'
  }

  #readExtension(code: number): void {
    if (++this.#line > LINE_MAX) this.fault = 'a chunk extension that is too long'
    else if (code === CR) this.#state = 'size-end'
    else if ((code < 0x20 && code !== 0x09) || code === 0x7f) this.fault = 'a control character in a chunk extension'
  }

  #startChunk(code: number): void {
    if (code !== LF) this.fault = 'a chunk size without an end of line'
    else this.#state = this.#left === 0 ? 'trailers' : 'data'
    this.#digits = 0
    this.#line = 0
  }

  /** Up to the empty line. `#text` holds what came before, in whole or half lines. */
  #readTrailers(bytes: Buffer, at: number): number {
    const feed = bytes.indexOf(LF, at)
    const end = feed < 0 ? bytes.length : feed + 1
    this.#line += end - at
    if (this.#line > TRAILERS_MAX) this.fault = 'trailers that are too large'
    else this.#text += bytes.toString('latin1', at, end)
    if (feed < 0 || this.fault !== undefined) return end
    if (!this.#text.endsWith('\r\n')) this.fault = 'a line feed without a carriage return'
    else if (this.#text === '\r\n' || this.#text.endsWith('\r\n\r\n')) this.#finish()
    return end
  }

  #finish(): void {
    const fields = readFields(this.#text.slice(0, -2), 0)
    this.#text = ''
    if (typeof fields === 'string') this.fault = fields
    else {
      this.trailers = fields
      this.#state = 'done'
    }
  }
}

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1
}
