// Metrics of turns that this process runs.
import { FAILURE_MESSAGES, type TurnFailure } from '../../core/turns/turn-failures.ts'
import { defineCounter, defineGauge, defineHistogram, knownLabel } from '../../lib/log/metric-registry.ts'
import { RUNTIME_NAMES } from '../../runtimes/settings.ts'

const BOUNDS_S = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600] as const
/** `other`: it ended before its runtime was known. */
const RUNTIMES = [...RUNTIME_NAMES, 'other'] as const
const OUTCOMES = ['answered', 'silent', 'failed', 'refused', 'other'] as const

export const TURNS = defineCounter('svc_turns_total', 'Turns that ended', { outcome: OUTCOMES, runtime: RUNTIMES })
export const TURN_TIME = defineHistogram(
  'svc_turn_seconds',
  'Time from the first claim of a turn to its end',
  BOUNDS_S,
  {
    runtime: RUNTIMES,
  },
)
export const TURN_WAIT = defineHistogram(
  'svc_turn_wait_seconds',
  'Time from the first message of a turn to its first claim',
  BOUNDS_S,
)
/** `postponed`: it could not run yet and does not count; `aborted`: another process continues it. */
export const TURN_ATTEMPTS = defineCounter('svc_turn_attempts_total', 'Runs of agents', {
  result: ['completed', 'failed', 'retried', 'postponed', 'aborted'],
})
export type AttemptResult = (typeof TURN_ATTEMPTS.labels.result)[number]
/** Kinds of FAILURE_MESSAGES, and `budget`: it was refused because the budget is spent. */
export const TURN_FAILURES = defineCounter('svc_turn_failures_total', 'Turns that failed or were refused', {
  kind: [...Object.keys(FAILURE_MESSAGES).map(snakeCase), 'budget'],
})
export const TURNS_RUNNING = defineGauge('svc_turns_running', 'Turns that this process runs')

export const TURN_METRICS = [TURNS, TURN_TIME, TURN_WAIT, TURN_ATTEMPTS, TURN_FAILURES]

export function runtimeLabel(name: string | undefined): (typeof RUNTIMES)[number] {
  return knownLabel(RUNTIMES, name ?? '')
}

export function outcomeLabel(outcome: string): (typeof OUTCOMES)[number] {
  return knownLabel(OUTCOMES, outcome)
}

export function failureLabel(failure: TurnFailure): string {
  return snakeCase(failure)
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
