// What a benchmark says: a ratio against a baseline that was measured in the same run, and the goal it is held against.
export interface Result {
  readonly name: string
  readonly ratio: number
  /** What the ratio should be, in words. */
  readonly goal: string
  /** The figures behind it. */
  readonly detail: string
}

/** The machine lacks what a benchmark needs; the sentence says what, and how it comes. */
export class MissingRequirement extends Error {}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}

/** The bounds of the half of the values that lies around the median. */
export function middleHalf(values: readonly number[]): readonly [number, number] {
  return [quantile(values, 0.25), quantile(values, 0.75)]
}

export function quantile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}
