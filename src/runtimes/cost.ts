// Model usage of a run, rounded to the whole cents that the store records.
import type { ModelCost } from '../core/turns/turns.ts'

export interface ModelUsage {
  readonly model: string
  readonly input: number
  readonly output: number
  /** Not rounded. */
  readonly cents: number
}

/** Rounds the sum up once, so that many small costs cannot stay below a limit. */
export function toWholeCents(used: readonly ModelUsage[]): readonly ModelCost[] {
  let [sum, counted] = [0, 0]
  return used.map(({ model, input, output, cents }) => {
    sum += cents
    // Drop floating-point errors: 0.07 dollars are 7.000000000000001 cents.
    const cost_cents = Math.max(0, Math.ceil(Math.round(sum * 1e6) / 1e6) - counted)
    counted += cost_cents
    return { model, input_tokens: Math.round(input), output_tokens: Math.round(output), cost_cents }
  })
}
