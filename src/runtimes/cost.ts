// What a run has used, in the whole cents that are recorded.
import type { ModelCost } from '../core/turns/turns.ts'

export interface ModelUsage {
  readonly model: string
  readonly input: number
  readonly output: number
  /** With its fractions. */
  readonly cents: number
}

/** The sum is rounded up, once: a limit must not be passed in steps that are too small to count. */
export function toWholeCents(used: readonly ModelUsage[]): readonly ModelCost[] {
  let [sum, counted] = [0, 0]
  return used.map(({ model, input, output, cents }) => {
    sum += cents
    // Without the dust of floating point: 0.07 dollars are 7.000000000000001 cents.
    const cost_cents = Math.max(0, Math.ceil(Math.round(sum * 1e6) / 1e6) - counted)
    counted += cost_cents
    return { model, input_tokens: Math.round(input), output_tokens: Math.round(output), cost_cents }
  })
}
