// Result of a benchmark: a ratio to a baseline measured in the same run, and its goal.
export interface Result {
  readonly name: string
  readonly ratio: number
  /** The wanted ratio, as text. */
  readonly goal: string
  /** The figures behind it. */
  readonly detail: string
}

/** The machine lacks a requirement of a benchmark; the message says which and how to install it. */
export class MissingRequirement extends Error {}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

/** The first and third quartile. */
export function middleHalf(values: readonly number[]): readonly [number, number] {
  return [quantile(values, 0.25), quantile(values, 0.75)]
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
