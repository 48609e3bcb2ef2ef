// The texts that agents are writing, before their messages are stored. Nothing here is stored, and nothing depends on it: a
// piece that is lost delays the text on a page, and the stored message replaces the draft anyway.
// See docs/decisions.md#drafts.
import { z } from 'zod'
import type { Signals } from '../../lib/commit-signals.ts'

/** Part of a draft. Pieces may be lost and repeated, so each says where its text begins. */
export const DraftPiece = z.strictObject({
  turn: z.string().max(64),
  /** Of the attempt: that of a later one is higher. */
  fence: z.int(),
  /** Counts the texts of the attempt: one that turned out not to be the answer is followed by another. */
  part: z.int(),
  jid: z.string().max(512),
  topic: z.string().max(512),
  folder: z.string().max(512),
  /** Ids of the rounds that it answers. */
  rounds: z.array(z.string().max(64)).max(1000),
  /** Offset of the text in code points. */
  from: z.int().min(0),
  text: z.string(),
  /** `complete`: its message is being stored. The others: it has ended with its message, or without one. */
  state: z.enum(['open', 'complete', 'stored', 'dropped']),
})
export type DraftPiece = z.output<typeof DraftPiece>

/** From turns of this process (`isLocal`) and of others to readers in this process. */
export type DraftSignals = Signals<[piece: DraftPiece, isLocal: boolean]>

/** Pieces that have at most `max` bytes each as JSON. Without the text, a piece must be smaller. */
export function splitDraftPiece(piece: DraftPiece, max: number): DraftPiece[] {
  if (piece.text.length < 2 || Buffer.byteLength(JSON.stringify(piece)) <= max) return [piece]
  const at = boundaryBefore(piece.text, Math.ceil(piece.text.length / 2))
  const [first, second] = [piece.text.slice(0, at), piece.text.slice(at)]
  if (first === '' || second === '') return [piece]
  return [
    ...splitDraftPiece({ ...piece, text: first, state: 'open' }, max),
    ...splitDraftPiece({ ...piece, text: second, from: piece.from + countCodePoints(first) }, max),
  ]
}

/** The index itself, or the one before if it is inside of a surrogate pair. */
export function boundaryBefore(text: string, index: number): number {
  return isHighSurrogate(text.charCodeAt(index - 1)) ? index - 1 : index
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff
}

export function countCodePoints(text: string): number {
  let count = 0
  for (let at = 0; at < text.length; at++) {
    if (isHighSurrogate(text.charCodeAt(at)) && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) at++
    count++
  }
  return count
}

/** Index of the code point with this number, or the end of the text. */
export function indexOfCodePoint(text: string, number: number): number {
  let at = 0
  for (let count = 0; count < number && at < text.length; count++)
    at += isHighSurrogate(text.charCodeAt(at)) && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00 ? 2 : 1
  return at
}
