// The cost of a running turn. A run reports its usage while it goes on; svc adds it up in fractions of a cent and writes it with
// the next renewal of the lease, tool call or end of the run, so that it counts even if the turn fails or its process dies.
import type { MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { type BookedCost, COST_CENTS, costLog, type ModelUsage, roundCosts, TOKENS } from './costs.ts'

const MODELS_MAX = 32
const MODEL_NAME_MAX = 128

/** Parses usage that a process in a cell reports; undefined if it is malformed. */
export function parseModelUsage(value: unknown): readonly ModelUsage[] | undefined {
  if (!Array.isArray(value) || value.length > MODELS_MAX) return undefined
  const used: ModelUsage[] = []
  for (const each of value) {
    if (typeof each !== 'object' || each === null) return undefined
    const { model, input, output, cents } = each
    if (typeof model !== 'string' || model === '' || ![input, output, cents].every(isAmount)) return undefined
    used.push({ model, input, output, cents })
  }
  return used
}

function isAmount(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0
}

/** In the whole cents that are recorded. */
export function sumWholeCents(used: readonly ModelUsage[]): number {
  return roundCosts(used).reduce((sum, { cost_cents }) => sum + cost_cents, 0)
}

/** What earlier attempts of the turn have cost. */
export async function readTurnCosts(tx: Tx, turn: { id: string; folder: string }): Promise<readonly ModelUsage[]> {
  const rows = await costLog.list(tx, { folder: turn.folder, turn_id: turn.id })
  return rows.map(({ model, input_tokens: input, output_tokens: output, cost_cents, microcents }) => ({
    ...{ model, input, output },
    cents: microcents === undefined ? cost_cents : microcents / 1e6,
  }))
}

export class TurnCost {
  readonly #lease: { readonly id: string; readonly fence: number }
  readonly #earlier: readonly ModelUsage[]
  #current: readonly ModelUsage[] = []
  /** What is in the store. */
  #booked: readonly BookedCost[]
  #isPending = false

  constructor(lease: { readonly id: string; readonly fence: number }, earlier: readonly ModelUsage[] = []) {
    this.#lease = lease
    this.#earlier = earlier
    this.#booked = roundCosts(earlier)
  }

  get fence(): number {
    return this.#lease.fence
  }

  /** Sets what the current run has used so far. */
  report(used: readonly ModelUsage[]): void {
    this.#current = used
    this.#isPending = true
  }

  /**
   * Writes the cost so far, by one statement and only if it has changed. It replaces what was written before and needs the fence
   * of the turn, so it may be repeated, and an expired run writes nothing.
   */
  async book(tx: Tx, metrics: MetricRegistry | undefined, now: string): Promise<void> {
    if (!this.#isPending) return
    const reported = this.#current
    const costs = roundCosts(addUsage(this.#earlier, reported))
    if (costs.length === 0) return
    const changes = await execute(tx, bookSql(costs.length), [
      ...[this.#lease.id, this.#lease.fence, now],
      ...costs.flatMap(({ model, input_tokens, output_tokens, cost_cents, microcents }) => [
        ...[model, input_tokens, output_tokens, cost_cents, microcents],
      ]),
    ])
    if (changes === 0) return
    tx.onCommit(() => {
      if (metrics) countChanges(metrics, this.#booked, costs)
      this.#booked = costs
      if (this.#current === reported) this.#isPending = false
    })
  }
}

/** The sums by model, in the order of their first report, with names that the store accepts. */
function addUsage(...reports: readonly (readonly ModelUsage[])[]): readonly ModelUsage[] {
  const sums = new Map<string, ModelUsage>()
  for (const { input, output, cents, ...named } of reports.flat()) {
    const model = named.model.replaceAll('\u0000', '').slice(0, MODEL_NAME_MAX)
    const sum = sums.get(model) ?? { model, input: 0, output: 0, cents: 0 }
    sums.set(model, { model, input: sum.input + input, output: sum.output + output, cents: sum.cents + cents })
  }
  return [...sums.values()]
}

const VALUE_TYPES = ['text', 'bigint', 'bigint', 'bigint', 'bigint']

function bookSql(rows: number): string {
  const values = Array.from({ length: rows }, (_, row) => {
    const casts = VALUE_TYPES.map((type, at) => `cast($${4 + row * VALUE_TYPES.length + at} as ${type})`)
    return `(${casts.join(', ')})`
  })
  return `insert into cost_log (folder, turn_id, user_sub, chat_jid, recorded_at, model, input_tokens, output_tokens, cost_cents, microcents)
    select t.folder, t.id, t.user_sub, t.jid, cast($3 as text), v.column1, v.column2, v.column3, v.column4, v.column5
    from turns t cross join (values ${values.join(', ')}) as v where t.id = $1 and t.fence = $2
    on conflict (folder, turn_id, model) do update set recorded_at = excluded.recorded_at,
      input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
      cost_cents = excluded.cost_cents, microcents = excluded.microcents`
}

/** An agent's own figure may be lower than the estimate before it; counters only rise. */
function countChanges(metrics: MetricRegistry, before: readonly BookedCost[], after: readonly BookedCost[]): void {
  const risen = (name: 'cost_cents' | 'input_tokens' | 'output_tokens'): number => {
    const [old, now] = [before, after].map((costs) => costs.reduce((sum, cost) => sum + cost[name], 0))
    return Math.max(0, (now ?? 0) - (old ?? 0))
  }
  metrics.add(COST_CENTS, {}, risen('cost_cents'))
  metrics.add(TOKENS, { direction: 'input' }, risen('input_tokens'))
  metrics.add(TOKENS, { direction: 'output' }, risen('output_tokens'))
}
