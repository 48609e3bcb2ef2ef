// Sends drafts to the event streams that ask for them: the text so far to a reader who joins, then what was added, at most 20
// times a second. A reader who is slow gets larger pieces.
import { boundaryBefore, countCodePoints, type LivePiece } from '../../core/turns/drafts.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { formatSseDelta } from '../../lib/http/sse-writer.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Draft, DraftTexts } from '../process/draft-texts.ts'

const EVERY_MS = 50
/** Characters of one event. */
const EVENT_MAX = 64 * 1024

export interface DraftReader {
  /** `round <id>` or `chat <jid>`. */
  readonly feed: string
  readonly accepts: (about: { readonly topic: string; readonly folder: string }) => boolean
  /** False if it cannot take this much now. */
  readonly write: (bytes: Uint8Array) => boolean
}

interface Position {
  version: number
  /** Index in the text. */
  index: number
  points: number
}

interface OpenReader {
  readonly reader: DraftReader
  /** By turn. */
  readonly positions: Map<string, Position>
}

export class DraftStreams {
  readonly #texts: DraftTexts
  readonly #faults: InstanceHost['faults']
  readonly #clock: Clock
  readonly #readers = new Map<string, Set<OpenReader>>()
  /** Turns with text that readers may not have yet. */
  readonly #dirty = new Set<string>()
  readonly #stopListening: () => void
  #timer: NodeJS.Timeout | undefined
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(texts: DraftTexts, faults: InstanceHost['faults'], clock = monotonicClock) {
    this.#texts = texts
    this.#faults = faults
    this.#clock = clock
    this.#stopListening = texts.changes.on((draft, state) => {
      this.#dirty.add(draft.piece.turn)
      if (state === 'open') this.#flushSoon()
      else if (state === 'complete') this.#flush()
      else this.#end(draft, state === 'dropped')
    })
  }

  /** Sends the drafts so far. Returns a function that removes the reader. */
  add(reader: DraftReader): () => void {
    const open: OpenReader = { reader, positions: new Map() }
    const readers = this.#readers.get(reader.feed) ?? new Set()
    this.#readers.set(reader.feed, readers.add(open))
    for (const draft of this.#texts.values())
      if (feedsOf(draft.piece).includes(reader.feed)) this.#send(draft, reader.feed, [open], new Map())
    return () => {
      readers.delete(open)
      if (readers.size === 0) this.#readers.delete(reader.feed)
    }
  }

  close(): void {
    this.#stopListening()
    clearTimeout(this.#timer)
  }

  /** What comes after a pause is sent at once: a timer would take a millisecond. */
  #flushSoon(): void {
    const flush = this.#faults.guard('stream', () => this.#flush())
    const waitMs = this.#sentAt + EVERY_MS - this.#clock.now()
    if (waitMs <= 0 && !this.#timer) flush()
    else this.#timer ??= setTimeout(flush, Math.max(0, waitMs)).unref()
  }

  #flush(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sentAt = this.#clock.now()
    const turns = [...this.#dirty]
    this.#dirty.clear()
    for (const turn of turns) {
      const draft = this.#texts.get(turn)
      if (draft)
        for (const feed of feedsOf(draft.piece)) this.#send(draft, feed, this.#readers.get(feed) ?? [], new Map())
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

  /** Tells its readers if it becomes no message. */
  #end({ piece, n }: Draft, isDropped: boolean): void {
    const { turn } = piece
    this.#dirty.delete(turn)
    for (const feed of feedsOf(piece)) {
      const delta = { turn_id: shownTurn(piece, feed), n, text: '', from: 0, done: true }
      const bytes = isDropped ? Buffer.from(formatSseDelta(delta)) : undefined
      for (const { reader, positions } of this.#readers.get(feed) ?? [])
        if (positions.delete(turn) && bytes) reader.write(bytes)
    }
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

/** Those of a turn that answers no round of a link are empty. */
export function feedsOf({ jid, rounds }: LivePiece): string[] {
  return rounds.length === 0 ? [] : [`chat ${jid}`, ...rounds.map((id) => `round ${id}`)]
}

/** In a chat, the turn that its message will have. */
export function shownTurn({ turn, rounds }: LivePiece, feed: string): string {
  if (feed.startsWith('round ')) return feed.slice('round '.length)
  return rounds.includes(turn) ? turn : (rounds[0] ?? turn)
}
