// Counts one run of a turn for the metrics, and traces it.
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import type { TurnFailure } from '../../core/turns/turn-failures.ts'
import type { TurnEnd } from '../../core/turns/turns.ts'
import type { InstanceHost } from '../../registry/context.ts'
import {
  type AttemptResult,
  failureLabel,
  outcomeLabel,
  runtimeLabel,
  TURN_ATTEMPTS,
  TURN_FAILURES,
  TURN_TIME,
  TURN_WAIT,
  TURNS,
} from './turn-metrics.ts'

type ReportHost = Pick<InstanceHost, 'clock' | 'metrics' | 'tracer'>

export class TurnReport {
  readonly #host: ReportHost
  readonly #claimed: ClaimedTurn
  readonly #startMs: number
  /** Set when the run is prepared. */
  runtime: string | undefined

  constructor(host: ReportHost, claimed: ClaimedTurn) {
    this.#host = host
    this.#claimed = claimed
    this.#startMs = host.clock.now()
    const { turn, messages } = claimed
    const [first] = messages
    if (turn.fence !== 1 || !first) return
    const waitMs = Date.parse(turn.started_at) - Date.parse(first.message.created_at)
    host.metrics.observe(TURN_WAIT, {}, waitMs / 1000)
  }

  /** A run of the agent ended. */
  attempt(result: AttemptResult, failure: TurnFailure = 'failed'): void {
    const { metrics, tracer, clock } = this.#host
    metrics.add(TURN_ATTEMPTS, { result })
    tracer?.attempted(this.#claimed.turn, {
      runtime: this.runtime,
      result,
      error: result === 'failed' || result === 'retried' ? failureLabel(failure) : undefined,
      startMs: this.#startMs,
      endMs: clock.now(),
    })
  }

  /** The turn is over, in this process. */
  end({ outcome, failure = 'failed' }: TurnEnd): void {
    const { metrics, tracer, clock } = this.#host
    const { turn, messages } = this.#claimed
    const endMs = clock.now()
    const runtime = runtimeLabel(this.runtime)
    metrics.add(TURNS, { outcome: outcomeLabel(outcome), runtime })
    metrics.observe(TURN_TIME, { runtime }, (endMs - Date.parse(turn.started_at)) / 1000)
    const error = outcome === 'refused' ? 'budget' : outcome === 'failed' ? failureLabel(failure) : undefined
    if (error !== undefined) metrics.add(TURN_FAILURES, { kind: error })
    tracer?.ended(turn, {
      runtime: this.runtime,
      outcome,
      error,
      endMs,
      messages: messages.map(({ message }) => message.id),
    })
  }
}
