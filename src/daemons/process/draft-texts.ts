// The drafts of running turns, as far as this process has received them. See docs/decisions.md#drafts.
import { countCodePoints, type DraftPiece, indexOfCodePoint, isActivity } from '../../core/turns/drafts.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { Signals } from '../../lib/commit-signals.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { SIGN_OF_LIFE_MS } from './draft-relay.ts'

/** A draft whose run shows no sign of life for longer is over: its process has ended, or does not react. */
export const LOST_MS = 3 * SIGN_OF_LIFE_MS
const LENGTH_MAX = 64 * 1024 * 1024

export interface Draft {
  /** The last piece. */
  readonly piece: DraftPiece
  readonly text: string
  /** Its length in code points. */
  readonly points: number
  /** Increases with each piece. */
  readonly n: number
  /** Changes when the text begins again. */
  readonly version: number
}

interface OpenDraft extends Draft {
  piece: DraftPiece
  text: string
  points: number
  n: number
  version: number
  seenAt: number
}

interface DraftTextsOptions {
  /** Characters of all drafts. */
  readonly limit?: number
  readonly clock?: Clock
}

export class DraftTexts {
  /** Each draft that has changed, in the state of its last piece, or `dropped`. */
  readonly changes: Signals<[draft: Draft, state: DraftPiece['state']]>
  readonly #faults: InstanceHost['faults']
  readonly #limit: number
  readonly #clock: Clock
  readonly #drafts = new Map<string, OpenDraft>()
  #length = 0
  /** Runs while there are drafts. */
  #timer: NodeJS.Timeout | undefined

  constructor(
    { drafts, faults }: Pick<InstanceHost, 'drafts' | 'faults'>,
    { limit = LENGTH_MAX, clock = monotonicClock }: DraftTextsOptions = {},
  ) {
    this.#faults = faults
    this.#limit = limit
    this.#clock = clock
    this.changes = new Signals(faults.handler('signal'))
    drafts.on((piece) => {
      if (!isActivity(piece)) this.#receive(piece)
    })
  }

  get(turn: string): Draft | undefined {
    return this.#drafts.get(turn)
  }

  values(): Iterable<Draft> {
    return this.#drafts.values()
  }

  #receive(piece: DraftPiece): void {
    const { turn, fence, part, state } = piece
    const known = this.#drafts.get(turn)
    if (known && (fence - known.piece.fence || part - known.piece.part) < 0) return
    if (!known && state !== 'open') return
    // The next try of the turn begins a draft of its own.
    const isRetry = known !== undefined && fence !== known.piece.fence
    if (isRetry) this.#end(known, 'dropped')
    const created: OpenDraft = { piece, text: '', points: 0, n: known?.n ?? 0, version: 0, seenAt: 0 }
    const draft = isRetry ? created : (known ?? created)
    this.#drafts.set(turn, draft)
    this.#startTimer()
    const isNewPart = part !== draft.piece.part
    if (isNewPart) this.#clear(draft)
    draft.piece = piece
    draft.n++
    draft.seenAt = this.#clock.now()
    const hasGrown = this.#append(draft, piece)
    if (state === 'stored' || state === 'dropped') this.#end(draft, state)
    else if (isNewPart || hasGrown || state === 'complete') this.changes.emit(draft, state)
  }

  #clear(draft: OpenDraft): void {
    this.#length -= draft.text.length
    draft.text = ''
    draft.points = 0
    draft.version++
  }

  /** Whether something was added. Text after a gap is ignored: the whole text follows. */
  #append(draft: OpenDraft, { from, text }: DraftPiece): boolean {
    const isGap = from > draft.points
    const added = isGap ? '' : text.slice(indexOfCodePoint(text, draft.points - from))
    if (added === '' || this.#length + added.length > this.#limit) return false
    draft.text += added
    draft.points += countCodePoints(added)
    this.#length += added.length
    return true
  }

  #end(draft: OpenDraft, state: 'stored' | 'dropped'): void {
    this.#length -= draft.text.length
    this.#drafts.delete(draft.piece.turn)
    if (this.#drafts.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    this.changes.emit(draft, state)
  }

  #startTimer(): void {
    const check = this.#faults.guard('signal', () => this.#dropLost())
    this.#timer ??= setInterval(check, SIGN_OF_LIFE_MS).unref()
  }

  #dropLost(): void {
    const before = this.#clock.now() - LOST_MS
    for (const draft of [...this.#drafts.values()]) if (draft.seenAt < before) this.#end(draft, 'dropped')
  }
}

const shared = new WeakMap<object, DraftTexts>()

/** All readers in this process share one. */
export function draftTextsOf(host: Pick<InstanceHost, 'drafts' | 'faults'>): DraftTexts {
  const texts = shared.get(host.drafts) ?? new DraftTexts(host)
  shared.set(host.drafts, texts)
  return texts
}
