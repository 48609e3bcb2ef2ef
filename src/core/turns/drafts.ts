// What running turns show of themselves: the texts that agents are writing, before their messages are stored, and what they do
// meanwhile. Nothing here is stored, and nothing depends on it: a piece that is lost delays the text on a page, and the stored
// message replaces the draft anyway. See docs/decisions.md#drafts and docs/decisions.md#what-readers-see-of-tool-calls.
import { z } from 'zod'
import type { Signals } from '../../lib/commit-signals.ts'

const TURN_OF_PIECE = {
  turn: z.string().max(64),
  /** Of the attempt: that of a later one is higher. */
  fence: z.int(),
  jid: z.string().max(512),
  topic: z.string().max(512),
  folder: z.string().max(512),
  /** Ids of the rounds that it answers. */
  rounds: z.array(z.string().max(64)).max(1000),
}

/** Part of a draft. Pieces may be lost and repeated, so each says where its text begins. */
export const DraftPiece = z.strictObject({
  ...TURN_OF_PIECE,
  /** Counts the texts of the attempt: one that turned out not to be the answer is followed by another. */
  part: z.int(),
  /** Offset of the text in code points. */
  from: z.int().min(0),
  text: z.string(),
  /** `complete`: its message is being stored. The others: it has ended with its message, or without one. */
  state: z.enum(['open', 'complete', 'stored', 'dropped']),
})
export type DraftPiece = z.output<typeof DraftPiece>

/** Calls of one turn that are shown as running at the same time; later ones are not shown. */
export const RUNNING_CALLS_MAX = 32
/** Characters of the name of a tool. */
export const TOOL_MAX = 100
/** Characters of a call's arguments. */
export const CALL_ARGS_MAX = 300

/** A tool call, for people who may see the log of the turn. */
export const CallNote = z.strictObject({
  /** Counts the calls of the attempt. */
  n: z.int(),
  tool: z.string().max(TOOL_MAX),
  /** Without credentials. */
  args: z.string().max(CALL_ARGS_MAX),
  /** In milliseconds since 1970. */
  at: z.int(),
  state: z.enum(['running', 'ok', 'failed']),
  /** Its duration. */
  ms: z.int().optional(),
})
export type CallNote = z.output<typeof CallNote>

/** What a turn does now. Each piece has the whole state, so pieces may be lost and repeated; only calls that were lost are missing. */
export const ActivityPiece = z.strictObject({
  ...TURN_OF_PIECE,
  /** Counts the pieces of the attempt. */
  n: z.int(),
  /** A phrase that tells nothing of the inside; empty if no call is under way. */
  doing: z.string().max(80),
  /** Calls that have changed. */
  calls: z.array(CallNote).max(8),
  /** The numbers of the calls that have not ended. */
  running: z.array(z.int()).max(RUNNING_CALLS_MAX),
  isOver: z.boolean(),
})
export type ActivityPiece = z.output<typeof ActivityPiece>

export const LivePiece = z.union([DraftPiece, ActivityPiece])
export type LivePiece = DraftPiece | ActivityPiece

/** From turns of this process (`isLocal`) and of others to readers in this process. */
export type DraftSignals = Signals<[piece: LivePiece, isLocal: boolean]>

export function isActivity(piece: LivePiece): piece is ActivityPiece {
  return 'doing' in piece
}

/** Pieces of drafts that have at most `max` bytes each as JSON. Without the text, a piece must be smaller. */
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
