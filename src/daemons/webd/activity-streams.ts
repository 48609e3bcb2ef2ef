// Tells readers of event streams what the agent does meanwhile, at most 20 times a second: a phrase, and the tool calls for people
// who may see the log of the turn. See docs/decisions.md#what-readers-see-of-tool-calls.
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { formatSseActivity } from '../../lib/http/sse-writer.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { TurnActivities, TurnActivity } from '../process/turn-activities.ts'
import { type DraftReader, feedsOf, shownTurn } from './draft-streams.ts'

const EVERY_MS = 50
/** Calls of an event: the latest ones. */
const CALLS_MAX = 8

export interface ActivityReader extends DraftReader {
  /** The folder whose calls the reader may see. */
  readonly detailsOf?: string | undefined
}

interface OpenReader {
  readonly reader: ActivityReader
  /** The last event, by turn; none if the turn does nothing. */
  readonly shown: Map<string, string>
}

export class ActivityStreams {
  readonly #activities: TurnActivities
  readonly #faults: InstanceHost['faults']
  readonly #clock: Clock
  readonly #readers = new Map<string, Set<OpenReader>>()
  /** By turn: what readers may not know yet. */
  readonly #changed = new Map<string, TurnActivity>()
  readonly #stopListening: () => void
  #timer: NodeJS.Timeout | undefined
  #sentAt = Number.NEGATIVE_INFINITY

  constructor(activities: TurnActivities, faults: InstanceHost['faults'], clock = monotonicClock) {
    this.#activities = activities
    this.#faults = faults
    this.#clock = clock
    this.#stopListening = activities.changes.on((activity) => {
      if (feedsOf(activity.piece).every((feed) => !this.#readers.has(feed))) return
      this.#changed.set(activity.piece.turn, activity)
      this.#flushSoon()
    })
  }

  /** Sends what is being done now. Returns a function that removes the reader. */
  add(reader: ActivityReader): () => void {
    const open: OpenReader = { reader, shown: new Map() }
    const readers = this.#readers.get(reader.feed) ?? new Set()
    this.#readers.set(reader.feed, readers.add(open))
    for (const activity of this.#activities.values())
      if (feedsOf(activity.piece).includes(reader.feed)) this.#send(activity, reader.feed, [open])
    return () => {
      readers.delete(open)
      if (readers.size === 0 && this.#readers.get(reader.feed) === readers) this.#readers.delete(reader.feed)
    }
  }

  close(): void {
    this.#stopListening()
    clearTimeout(this.#timer)
  }

  #flushSoon(): void {
    const waitMs = Math.max(0, this.#sentAt + EVERY_MS - this.#clock.now())
    this.#timer ??= setTimeout(
      this.#faults.guard('stream', () => this.#flush()),
      waitMs,
    ).unref()
  }

  #flush(): void {
    this.#timer = undefined
    this.#sentAt = this.#clock.now()
    const changed = [...this.#changed.values()]
    this.#changed.clear()
    for (const activity of changed)
      for (const feed of feedsOf(activity.piece)) this.#send(activity, feed, this.#readers.get(feed) ?? [])
  }

  #send(activity: TurnActivity, feed: string, readers: Iterable<OpenReader>): void {
    const { piece } = activity
    const events = new Map<boolean, string>()
    for (const { reader, shown } of readers) {
      if (!reader.accepts(piece)) continue
      const hasDetails = reader.detailsOf === piece.folder
      const event = events.get(hasDetails) ?? formatEvent(activity, feed, hasDetails)
      events.set(hasDetails, event)
      const isNothing = activity.doing === '' && !(hasDetails && activity.calls.length > 0)
      if (isNothing ? !shown.has(piece.turn) : shown.get(piece.turn) === event) continue
      if (!reader.write(Buffer.from(event))) {
        // A slow reader gets only the latest.
        if (!this.#changed.has(piece.turn)) this.#changed.set(piece.turn, activity)
        this.#flushSoon()
      } else if (isNothing) shown.delete(piece.turn)
      else shown.set(piece.turn, event)
    }
  }
}

function formatEvent({ piece, doing, calls }: TurnActivity, feed: string, hasDetails: boolean): string {
  const detail = calls
    .slice(-CALLS_MAX)
    .map(({ n, tool, args, state, ms }) => ({ n, tool, arguments: args, state, ...(ms === undefined ? {} : { ms }) }))
  return formatSseActivity({ turn_id: shownTurn(piece, feed), text: doing, ...(hasDetails ? { detail } : {}) })
}
