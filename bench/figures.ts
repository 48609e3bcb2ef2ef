// Formats the figures of load bursts for results.
import { type BenchScope, flushMs } from './bench-scope.ts'
import { median } from './result.ts'
import { type Measurement, othersIn, type Round } from './rounds.ts'

export const rateOf = ({ rate }: Measurement): number => rate
export const p99Of = ({ p99Ms }: Measurement): number => p99Ms
export const count = (value: number): string => Math.round(value).toLocaleString('en')

export function middleOf<N extends string>(
  rounds: readonly Round<N>[],
  name: N,
  figure: (measured: Measurement) => number,
): number {
  return median(rounds.map((round) => figure(round[name])))
}

/** The rate of answers, with the share of refusals, because those count as answers. */
export function shownRate<N extends string>(rounds: readonly Round<N>[], name: N): string {
  const refused = middleOf(rounds, name, ({ refused, answers }) => refused / answers)
  return `${count(middleOf(rounds, name, rateOf))}/s${refused > 0 ? ` (${(refused * 100).toFixed(0)} % refused)` : ''}`
}

/** How busy the machine was with other work, and how fast its disk is. */
export function describeMachine(
  rounds: readonly Readonly<Record<string, Measurement>>[],
  { root }: BenchScope,
): string {
  const others = (median(rounds.map(othersIn)) * 100).toFixed(0)
  return `other processes had ${others} % of the machine; a flush of the disk takes ${flushMs(root).toFixed(2)} ms`
}

export function shownMicros<N extends string>(rounds: readonly Round<N>[], name: N): string {
  const main = middleOf(rounds, name, ({ mainMicros }) => mainMicros)
  const all = middleOf(rounds, name, ({ allMicros }) => allMicros)
  return `${main.toFixed(1)} µs of processor a request on the main thread, ${all.toFixed(1)} µs on all`
}
