// What running turns do, as far as this process has been told. See docs/decisions.md#what-readers-see-of-tool-calls.
import { type ActivityPiece, type CallNote, isActivity } from '../../core/turns/drafts.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { Signals } from '../../lib/commit-signals.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { SIGN_OF_LIFE_MS } from './draft-relay.ts'
import { LOST_MS } from './draft-texts.ts'

/** Calls that are kept of a turn, the latest ones; all are in its log. */
const CALLS_MAX = 50

/** `ended`: how was lost. */
export type ShownCall = Omit<CallNote, 'state'> & { readonly state: CallNote['state'] | 'ended' }

export interface TurnActivity {
  /** The last one. */
  readonly piece: ActivityPiece
  /** A phrase, or empty. */
  readonly doing: string
  /** Oldest first. */
  readonly calls: readonly ShownCall[]
}

interface OpenActivity extends TurnActivity {
  readonly seenAt: number
}

export class TurnActivities {
  /** Each turn that does something else now. One that is over does nothing. */
  readonly changes: Signals<[activity: TurnActivity]>
  readonly #faults: InstanceHost['faults']
  readonly #clock: Clock
  readonly #open = new Map<string, OpenActivity>()
  /** Runs while there are any. */
  #timer: NodeJS.Timeout | undefined

  constructor({ drafts, faults }: Pick<InstanceHost, 'drafts' | 'faults'>, clock = monotonicClock) {
    this.#faults = faults
    this.#clock = clock
    this.changes = new Signals(faults.handler('signal'))
    drafts.on((piece) => {
      if (isActivity(piece)) this.#receive(piece)
    })
  }

  get(turn: string): TurnActivity | undefined {
    return this.#open.get(turn)
  }

  values(): Iterable<TurnActivity> {
    return this.#open.values()
  }

  #receive(piece: ActivityPiece): void {
    const { turn, fence, n, doing, isOver } = piece
    const known = this.#open.get(turn)
    if (known && (fence - known.piece.fence || n - known.piece.n) <= 0) return
    if (isOver) {
      if (known) this.#end(known)
      return
    }
    const calls = addCalls(known?.piece.fence === fence ? known.calls : [], piece)
    const activity = { piece, doing, calls, seenAt: this.#clock.now() }
    this.#open.set(turn, activity)
    const check = this.#faults.guard('signal', () => this.#dropLost())
    this.#timer ??= setInterval(check, SIGN_OF_LIFE_MS).unref()
    if (known?.doing !== doing || !areSame(known.calls, calls)) this.changes.emit(activity)
  }

  #end(activity: TurnActivity): void {
    this.#open.delete(activity.piece.turn)
    if (this.#open.size === 0) {
      clearInterval(this.#timer)
      this.#timer = undefined
    }
    this.changes.emit({ ...activity, doing: '', calls: [] })
  }

  #dropLost(): void {
    const before = this.#clock.now() - LOST_MS
    for (const activity of [...this.#open.values()]) if (activity.seenAt < before) this.#end(activity)
  }
}

/** A call that is no longer running has ended, even if the piece that said so was lost. */
function addCalls(known: readonly ShownCall[], { calls, running }: ActivityPiece): readonly ShownCall[] {
  const byNumber = new Map<number, ShownCall>()
  for (const call of [...known, ...calls]) byNumber.set(call.n, call)
  const open = new Set(running)
  return [...byNumber.values()]
    .sort((a, b) => a.n - b.n)
    .slice(-CALLS_MAX)
    .map((call) => (call.state === 'running' && !open.has(call.n) ? { ...call, state: 'ended' } : call))
}

/** The state is all that changes of a call. */
function areSame(some: readonly ShownCall[], others: readonly ShownCall[]): boolean {
  return (
    some.length === others.length &&
    some.every(({ n, state }, at) => n === others[at]?.n && state === others[at]?.state)
  )
}

const shared = new WeakMap<object, TurnActivities>()

/** All readers in this process share one. */
export function turnActivitiesOf(host: Pick<InstanceHost, 'drafts' | 'faults'>): TurnActivities {
  const activities = shared.get(host.drafts) ?? new TurnActivities(host)
  shared.set(host.drafts, activities)
  return activities
}
