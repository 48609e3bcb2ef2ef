// Relays a message body from one connection to another, translating the framing, without buffering.

import type { TcpConnection } from '../transport/transport.ts'
import { type BodyReader, openBody } from './body.ts'
import type { HttpMessageFraming } from './framing.ts'
import { writeTrailers } from './head-writer.ts'
import { WRITE_BUFFER } from './write-buffer.ts'

const PIECES: number[] = []

export class BodyPipe {
  readonly #reader: BodyReader
  readonly #isChunked: boolean
  readonly #passesTrailers: boolean
  /** False when the last write was queued. */
  hasRoom = true

  constructor(framing: HttpMessageFraming, isChunked: boolean, passesTrailers: boolean) {
    this.#reader = openBody(framing)
    this.#isChunked = isChunked
    this.#passesTrailers = passesTrailers
  }

  get isDone(): boolean {
    return this.#reader.isDone
  }

  get fault(): string | undefined {
    return this.#reader.fault
  }

  /** Sends the contents of the write buffer and the part of `bytes` from `at` that is body. Returns where the body's part ends. */
  pass(bytes: Buffer, at: number, to: TcpConnection): number {
    PIECES.length = 0
    const end = this.#reader.read(bytes, at, PIECES)
    // The pieces before an error are not trustworthy either.
    if (this.fault !== undefined) this.hasRoom = WRITE_BUFFER.flushTo(to)
    else if (this.#isChunked) this.hasRoom = this.#sendChunk(bytes, to)
    else this.hasRoom = sendPieces(bytes, to)
    return end
  }

  /** Writes all pieces as one chunk, which drops the sender's chunk extensions. */
  #sendChunk(bytes: Buffer, to: TcpConnection): boolean {
    let size = 0
    for (let at = 0; at < PIECES.length; at += 2) size += (PIECES[at + 1] ?? 0) - (PIECES[at] ?? 0)
    if (size > 0) {
      WRITE_BUFFER.appendText(`${size.toString(16)}\r\n`)
      appendPieces(bytes)
      WRITE_BUFFER.appendText('\r\n')
    }
    if (this.isDone)
      WRITE_BUFFER.appendText(`0\r\n${this.#passesTrailers ? writeTrailers(this.#reader.trailers) : ''}\r\n`)
    return WRITE_BUFFER.flushTo(to)
  }
}

function sendPieces(bytes: Buffer, to: TcpConnection): boolean {
  const [start, end] = PIECES
  if (PIECES.length === 2 && start !== undefined && end !== undefined)
    return WRITE_BUFFER.flushWith(to, bytes, start, end)
  appendPieces(bytes)
  return WRITE_BUFFER.flushTo(to)
}

function appendPieces(bytes: Buffer): void {
  for (let at = 0; at < PIECES.length; at += 2) WRITE_BUFFER.appendBytes(bytes, PIECES[at] ?? 0, PIECES[at + 1] ?? 0)
}
