// What one run does: publishes a phrase and the tool calls of its turn, at most 20 times a second. Each piece has the whole state,
// because pieces may be lost. See docs/decisions.md#what-readers-see-of-tool-calls.
import { z } from 'zod'
import {
  type ActivityPiece,
  CALL_ARGS_MAX,
  type CallNote,
  RUNNING_CALLS_MAX,
  TOOL_MAX,
} from '../../core/turns/drafts.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { type Clock, monotonicClock } from '../../lib/clock.ts'
import { summaryWithContent } from '../../registry/audit.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { DraftText, ProgramCalls, StartedCall } from '../../runtimes/runtime.ts'
import { SIGN_OF_LIFE_MS } from '../process/draft-relay.ts'

const EVERY_MS = 50
/** Most calls take a few milliseconds: a phrase stays for this long, so that people can read it, unless text follows. */
const SHOWN_MS = 1000
/** Calls of a piece, which must fit into a notification of PostgreSQL. */
const CALLS_MAX = 4
/** Other rounds of the turn show only its text. */
const ROUNDS_MAX = 50
export const DEFAULT_PHRASE = 'Working'

/** Arguments of a program's own tools have no schema here. */
const ANY_ARGUMENTS = z.object({})

interface OpenCall {
  readonly n: number
  readonly tool: string
  readonly phrase: string | undefined
  readonly at: number
  /** Without credentials. Made when the call is first published: most calls of a fast loop are not. */
  args: string | (() => string)
  state: CallNote['state']
  ms?: number
}

export class ActivityWriter implements ProgramCalls {
  readonly #host: Pick<InstanceHost, 'drafts' | 'faults' | 'clock'>
  readonly #about: Pick<ActivityPiece, 'turn' | 'fence' | 'jid' | 'topic' | 'folder' | 'rounds'>
  readonly #clock: Clock
  readonly #running = new Map<number, OpenCall>()
  /** The latest ones that have changed, oldest first. */
  #changed: OpenCall[] = []
  #calls = 0
  #pieces = 0
  #phrase = ''
  #shownUntil = 0
  #sentAt = Number.NEGATIVE_INFINITY
  #timer: NodeJS.Timeout | undefined
  #lifeTimer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(host: Pick<InstanceHost, 'drafts' | 'faults' | 'clock'>, claimed: ClaimedTurn, clock = monotonicClock) {
    this.#host = host
    this.#clock = clock
    const { id, fence, jid, chat_topic, folder, is_isolated } = claimed.turn
    const messages = is_isolated ? [] : claimed.messages
    const rounds = messages.flatMap(({ message }) => (message.turn_id === undefined ? [] : [message.id]))
    this.#about = { turn: id, fence, jid, topic: chat_topic, folder, rounds: rounds.slice(0, ROUNDS_MAX) }
  }

  /** Returns a function that ends the call. */
  start({ tool, phrase, args: given }: StartedCall, schema = ANY_ARGUMENTS): (isFailed: boolean) => void {
    if (this.#isOver || this.#running.size >= RUNNING_CALLS_MAX) return () => undefined
    const args = (): string => summaryWithContent(given, schema).slice(0, CALL_ARGS_MAX)
    const at = this.#host.clock.now()
    const call: OpenCall = { tool: tool.slice(0, TOOL_MAX), phrase, at, args, n: ++this.#calls, state: 'running' }
    const startedAt = this.#clock.now()
    this.#running.set(call.n, call)
    this.#phrase = phrase ?? DEFAULT_PHRASE
    this.#shownUntil = startedAt + SHOWN_MS
    this.#change(call)
    return (isFailed) => {
      if (!this.#running.delete(call.n)) return
      call.state = isFailed ? 'failed' : 'ok'
      call.ms = Math.round(this.#clock.now() - startedAt)
      this.#phrase = [...this.#running.values()].at(-1)?.phrase ?? this.#phrase
      this.#change(call)
    }
  }

  /** The draft, where text ends the phrase of a call before. */
  watch(draft: DraftText): DraftText {
    const add = (text: string): void => {
      this.#onText()
      draft.add(text)
    }
    return { add, restart: () => draft.restart() }
  }

  #onText(): void {
    if (this.#shownUntil === 0) return
    this.#shownUntil = 0
    if (this.#running.size === 0) this.#sendWithin(0)
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    clearInterval(this.#lifeTimer)
    this.#running.clear()
    this.#shownUntil = 0
    if (this.#calls > 0) this.#publish()
  }

  get #doing(): string {
    return this.#running.size > 0 || this.#clock.now() < this.#shownUntil ? this.#phrase : ''
  }

  #change(call: OpenCall): void {
    if (this.#isOver) return
    this.#changed = [...this.#changed.filter(({ n }) => n !== call.n), call].slice(-CALLS_MAX)
    this.#sendWithin(0)
  }

  #sendWithin(ms: number): void {
    const waitMs = Math.max(ms, this.#sentAt + EVERY_MS - this.#clock.now(), 0)
    const { faults } = this.#host
    if (ms === 0) clearTimeout(this.#timer)
    else if (this.#timer) return
    this.#timer = setTimeout(
      faults.guard('turn', () => this.#publish()),
      waitMs,
    ).unref()
    this.#lifeTimer ??= setInterval(
      faults.guard('turn', () => this.#publish()),
      SIGN_OF_LIFE_MS,
    ).unref()
  }

  #publish(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#sentAt = this.#clock.now()
    const calls = this.#changed.map(noteOf)
    const [doing, running, isOver] = [this.#doing, [...this.#running.keys()], this.#isOver]
    this.#host.drafts.emit({ ...this.#about, n: ++this.#pieces, doing, calls, running, isOver }, true)
    // A phrase of a call that has ended.
    if (doing !== '' && running.length === 0) this.#sendWithin(this.#shownUntil - this.#sentAt)
  }
}

function noteOf(call: OpenCall): CallNote {
  if (typeof call.args !== 'string') call.args = call.args()
  const { n, tool, args, at, state, ms } = call
  return { n, tool, args, at, state, ...(ms === undefined ? {} : { ms }) }
}
