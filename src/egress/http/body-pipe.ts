// A body on its way from one wire to another: read by one framing, written by another, never kept.

import type { Wire } from '../wire.ts'
import { type BodyReader, openBody } from './body.ts'
import type { Framing } from './framing.ts'
import { GATHER } from './gather.ts'
import { writeTrailers } from './head-text.ts'

const PIECES: number[] = []

export class BodyPipe {
  readonly #reader: BodyReader
  readonly #isChunked: boolean
  readonly #passesTrailers: boolean
  /** Whether the last write went out whole. */
  hasRoom = true

  constructor(framing: Framing, isChunked: boolean, passesTrailers: boolean) {
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

  /** Sends what was gathered, and then what of `bytes` from `at` is body. Says where the body's share ended. */
  pass(bytes: Buffer, at: number, to: Wire): number {
    PIECES.length = 0
    const end = this.#reader.read(bytes, at, PIECES)
    // The pieces before a fault are as doubtful as what follows.
    if (this.fault !== undefined) this.hasRoom = GATHER.send(to)
    else if (this.#isChunked) this.hasRoom = this.#sendChunk(bytes, to)
    else this.hasRoom = sendPieces(bytes, to)
    return end
  }

  /** All pieces as one chunk: how the sender cut them says nothing, and what he wrote between them is not passed on. */
  #sendChunk(bytes: Buffer, to: Wire): boolean {
    let size = 0
    for (let at = 0; at < PIECES.length; at += 2) size += (PIECES[at + 1] ?? 0) - (PIECES[at] ?? 0)
    if (size > 0) {
      GATHER.text(`${size.toString(16)}\r\n`)
      gatherPieces(bytes)
      GATHER.text('\r\n')
    }
    if (this.isDone) GATHER.text(`0\r\n${this.#passesTrailers ? writeTrailers(this.#reader.trailers) : ''}\r\n`)
    return GATHER.send(to)
  }
}

function sendPieces(bytes: Buffer, to: Wire): boolean {
  const [start, end] = PIECES
  if (PIECES.length === 2 && start !== undefined && end !== undefined) return GATHER.sendWith(to, bytes, start, end)
  gatherPieces(bytes)
  return GATHER.send(to)
}

function gatherPieces(bytes: Buffer): void {
  for (let at = 0; at < PIECES.length; at += 2) GATHER.bytes(bytes, PIECES[at] ?? 0, PIECES[at + 1] ?? 0)
}
