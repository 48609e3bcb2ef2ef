// Sends drafts to the event streams that ask for them: the text so far to a reader who joins, then what was added, at most 20
// times a second. A reader who is slow gets larger pieces.
import { boundaryBefore, countCodePoints, type DraftPiece, indexOfCodePoint } from '../../core/turns/drafts.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { formatSseDelta } from '../../lib/http/sse-writer.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { SIGN_OF_LIFE_MS } from '../process/draft-relay.ts'

const EVERY_MS = 50
/** A draft whose run shows no sign of life for longer is over: its process has ended, or does not react. */
const LOST_MS = 3 * SIGN_OF_LIFE_MS
const LENGTH_MAX = 64 * 1024 * 1024
/** Characters of one event. */
const EVENT_MAX = 64 * 1024

export interface DraftReader {
  /** `round <id>` or `chat <jid>`. */
  readonly feed: string
  readonly accepts: (about: { readonly topic: string; readonly folder: string }) => boolean
  /** False if it cannot take this much now. */
  readonly write: (bytes: Uint8Array) => boolean
}

interface Draft {
  /** The last piece. */
  piece: DraftPiece
  readonly feeds: readonly string[]
  text: string
  points: number
  /** Increases with each piece. */
  n: number
  /** Changes when the text begins again. */
  version: number
  seenAt: number
}

interface Position {
  version: number
  /** Index in the text. */
  index: number
  points: number
}

interface DraftStreamsOptions {
  /** Characters of all drafts. */
  readonly limit?: number
  readonly clock?: Clock
}

interface OpenReader {
  readonly reader: DraftReader
  /** By turn. */
  readonly positions: Map<string, Position>
}

export class DraftStreams {
  readonly #host: Pick<InstanceHost, 'faults'>
  readonly #limit: number
  readonly #clock: Clock
  readonly #drafts = new Map<string, Draft>()
  readonly #readers = new Map<string, Set<OpenReader>>()
  /** Turns with text that readers may not have yet. */
  readonly #dirty = new Set<string>()
  readonly #stops: (() => void)[]
  #length = 0
  #timer: NodeJS.Timeout | undefined
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(
    host: Pick<InstanceHost, 'drafts' | 'faults'>,
    { limit = LENGTH_MAX, clock = monotonicClock }: DraftStreamsOptions = {},
  ) {
    this.#host = host
    this.#limit = limit
    this.#clock = clock
    const check = setInterval(
      host.faults.guard('stream', () => this.#dropLost()),
      SIGN_OF_LIFE_MS,
    ).unref()
    this.#stops = [() => clearInterval(check), host.drafts.on((piece) => this.#receive(piece))]
  }

  /** Sends the drafts so far. Returns a function that removes the reader. */
  add(reader: DraftReader): () => void {
    const open: OpenReader = { reader, positions: new Map() }
    const readers = this.#readers.get(reader.feed) ?? new Set()
    this.#readers.set(reader.feed, readers.add(open))
    for (const draft of this.#drafts.values())
      if (draft.feeds.includes(reader.feed)) this.#send(draft, reader.feed, [open], new Map())
    return () => {
      readers.delete(open)
      if (readers.size === 0) this.#readers.delete(reader.feed)
    }
  }

  close(): void {
    for (const stop of this.#stops) stop()
    clearTimeout(this.#timer)
  }

  #receive(piece: DraftPiece): void {
    const { turn, fence, part, state } = piece
    const known = this.#drafts.get(turn)
    if (known && (fence - known.piece.fence || part - known.piece.part) < 0) return
    if (!known && state !== 'open') return
    // The next try of the turn begins a draft of its own.
    const isRetry = known !== undefined && fence !== known.piece.fence
    if (isRetry) this.#drop(known)
    const created = { piece, feeds: feedsOf(piece), text: '', points: 0, n: known?.n ?? 0, version: 0, seenAt: 0 }
    const draft = isRetry ? created : (known ?? created)
    this.#drafts.set(turn, draft)
    if (part !== draft.piece.part) this.#clear(draft)
    draft.piece = piece
    draft.n++
    draft.seenAt = this.#clock.now()
    this.#append(draft, piece)
    this.#dirty.add(turn)
    if (state === 'stored') this.#forget(draft)
    else if (state === 'dropped') this.#drop(draft)
    else if (state === 'complete') this.#flush()
    else this.#flushSoon()
  }

  #clear(draft: Draft): void {
    this.#length -= draft.text.length
    draft.text = ''
    draft.points = 0
    draft.version++
  }

  /** Text after a gap is ignored: the whole text follows. */
  #append(draft: Draft, { from, text }: DraftPiece): void {
    const isGap = from > draft.points
    const added = isGap ? '' : text.slice(indexOfCodePoint(text, draft.points - from))
    if (this.#length + added.length > this.#limit) return
    draft.text += added
    draft.points += countCodePoints(added)
    this.#length += added.length
  }

  #flushSoon(): void {
    const waitMs = Math.max(0, this.#sentAt + EVERY_MS - this.#clock.now())
    this.#timer ??= setTimeout(
      this.#host.faults.guard('stream', () => this.#flush()),
      waitMs,
    ).unref()
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sentAt = this.#clock.now()
    const turns = [...this.#dirty]
    this.#dirty.clear()
    for (const turn of turns) {
      const draft = this.#drafts.get(turn)
      if (draft) for (const feed of draft.feeds) this.#send(draft, feed, this.#readers.get(feed) ?? [], new Map())
    }
  }

  /** Readers at the same position share the bytes of an event. */
  #send(draft: Draft, feed: string, readers: Iterable<OpenReader>, events: Map<string, DraftEvent>): void {
    const { turn, topic, folder } = draft.piece
    for (const { reader, positions } of readers) {
      if (!reader.accepts({ topic, folder })) continue
      const at = positions.get(turn)
      const isSame = at?.version === draft.version
      if (isSame ? at.index === draft.text.length : draft.text === '' && !at?.index) continue
      const [index, points] = isSame ? [at.index, at.points] : [0, 0]
      const event = events.get(`${index}`) ?? createEvent(draft, feed, index, points)
      events.set(`${index}`, event)
      if (!reader.write(event.bytes)) continue
      positions.set(turn, { version: draft.version, index: event.index, points: event.points })
      if (event.index < draft.text.length) {
        this.#dirty.add(turn)
        this.#flushSoon()
      }
    }
  }

  /** Tells the readers of a draft that becomes no message. */
  #drop(draft: Draft): void {
    const { turn } = draft.piece
    const { n } = draft
    for (const feed of draft.feeds) {
      const bytes = Buffer.from(
        formatSseDelta({ turn_id: shownTurn(draft.piece, feed), n, text: '', from: 0, done: true }),
      )
      for (const { reader, positions } of this.#readers.get(feed) ?? []) if (positions.has(turn)) reader.write(bytes)
    }
    this.#forget(draft)
  }

  #forget(draft: Draft): void {
    const { turn } = draft.piece
    this.#length -= draft.text.length
    this.#drafts.delete(turn)
    this.#dirty.delete(turn)
    for (const feed of draft.feeds) for (const { positions } of this.#readers.get(feed) ?? []) positions.delete(turn)
  }

  #dropLost(): void {
    const before = this.#clock.now() - LOST_MS
    for (const draft of this.#drafts.values()) if (draft.seenAt < before) this.#drop(draft)
  }
}

interface DraftEvent {
  readonly bytes: Uint8Array
  /** Where it ends. */
  readonly index: number
  readonly points: number
}

function createEvent(draft: Draft, feed: string, from: number, fromPoints: number): DraftEvent {
  const end = from + EVENT_MAX < draft.text.length ? boundaryBefore(draft.text, from + EVENT_MAX) : draft.text.length
  const text = draft.text.slice(from, end)
  const delta = { turn_id: shownTurn(draft.piece, feed), n: draft.n, text, from: fromPoints }
  return { bytes: Buffer.from(formatSseDelta(delta)), index: end, points: fromPoints + countCodePoints(text) }
}

function feedsOf({ jid, rounds }: DraftPiece): string[] {
  return [`chat ${jid}`, ...rounds.map((id) => `round ${id}`)]
}

/** In a chat, the turn that its message will have. */
function shownTurn({ turn, rounds }: DraftPiece, feed: string): string {
  if (feed.startsWith('round ')) return feed.slice('round '.length)
  return rounds.includes(turn) ? turn : (rounds[0] ?? turn)
}
