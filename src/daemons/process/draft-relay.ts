// Passes drafts and what turns do between processes: over the lines between them, or by broadcasts of the store.
import { isActivity, LivePiece, splitDraftPiece } from '../../core/turns/drafts.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { PeerMessage } from '../../supervisor/messages.ts'

/** Turns publish something of each draft at least this often. */
export const SIGN_OF_LIFE_MS = 1000
/** Pieces that wait while a message is being sent. More are dropped: turns repeat their drafts. */
const PENDING_MAX = 1000
/** Pieces in a message on a line, and bytes of each; LINE_MESSAGE_MAX is more. */
export const LINE_PIECES_MAX = 7
const LINE_PIECE_BYTES = 64 * 1024

interface DraftRoute {
  /** Bytes of a piece. */
  readonly pieceMax: number
  /** Pieces in a message. */
  readonly piecesMax: number
  send(pieces: readonly LivePiece[]): void | Promise<void>
}

/** Sends the drafts of this process. Pieces that come while a message is being sent go with the next. Returns a function that stops it. */
function sendDrafts({ drafts, faults }: InstanceHost, { pieceMax, piecesMax, send }: DraftRoute): () => void {
  const pending: LivePiece[] = []
  let isSending = false
  const flush = async (): Promise<void> => {
    try {
      while (pending.length > 0) await send(pending.splice(0, piecesMax))
    } finally {
      pending.length = 0
      isSending = false
    }
  }
  const guardedFlush = faults.guard('signal', flush)
  return drafts.on((piece, isLocal) => {
    if (!isLocal || pending.length >= PENDING_MAX) return
    pending.push(...(isActivity(piece) ? [piece] : splitDraftPiece(piece, pieceMax)))
    if (isSending) return
    isSending = true
    queueMicrotask(guardedFlush)
  })
}

/** Sends the drafts of this process over a line. */
export function sendDraftsOver(
  line: { sendToPeer(message: PeerMessage): void | Promise<void> },
  host: InstanceHost,
): () => void {
  const send = (pieces: readonly LivePiece[]) => line.sendToPeer({ kind: 'drafts', pieces })
  return sendDrafts(host, { pieceMax: LINE_PIECE_BYTES, piecesMax: LINE_PIECES_MAX, send })
}

/** Takes the drafts out of a message of another process of this version. `isLocal` sends them on as drafts of this process. */
export function receiveDrafts(
  message: PeerMessage,
  { drafts }: Pick<InstanceHost, 'drafts'>,
  { isLocal = false } = {},
): void {
  if (message.kind !== 'drafts') return
  for (const piece of message.pieces as readonly LivePiece[]) drafts.emit(piece, isLocal)
}

/** For processes on several machines. A draft that cannot be sent is lost, which only delays its text. */
export function broadcastDrafts(host: InstanceHost): () => void {
  const { broadcast } = host.engine
  if (!broadcast) return () => undefined
  const send = async ([piece]: readonly LivePiece[]): Promise<void> => {
    await broadcast.send(JSON.stringify(piece)).catch(() => undefined)
  }
  return sendDrafts(host, { pieceMax: broadcast.max, piecesMax: 1, send })
}

export function receiveBroadcastDrafts({ engine, drafts }: InstanceHost): () => void {
  const receive = (payload: string): void => {
    const { data } = LivePiece.safeParse(tryParseJson(payload))
    if (data) drafts.emit(data, false)
  }
  return engine.broadcast?.listen(receive) ?? (() => undefined)
}
