// What a benchmark says: a ratio against a baseline that was measured in the same run, and the goal it is held against.
export interface Result {
  readonly name: string
  readonly ratio: number
  /** What the ratio should be, in words. */
  readonly goal: string
  /** The figures behind it. */
  readonly detail: string
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}
