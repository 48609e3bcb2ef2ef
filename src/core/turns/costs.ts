// Costs of turns and daily caps of people. Caps of folders are in their group rows.
import { z } from 'zod'
import { defineCounter, type MetricRegistry } from '../../lib/log/metric-registry.ts'
import type { Tx } from '../../store/engine.ts'
import { subtree } from '../../store/sql-conditions.ts'
import { integer, queryOne } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Cents } from '../groups/groups.ts'
import { Sub, Timestamp } from '../values.ts'

export const DailyCap = z.int().min(0).max(1_000_000_000_000).describe('Cents per day; 0 removes the cap')

export const User = z.object({
  sub: Sub,
  cost_cap_cents_per_day: Cents.optional(),
  warned_on: z.string().optional().describe('Day and cap of the last budget warning'),
})

export const users = new Table({
  name: 'users',
  row: User,
  key: 'sub',
  storage: [
    'create table users (sub text primary key, cost_cap_cents_per_day bigint)',
    'alter table users add column warned_on text',
  ],
})

const Cost = z.object({
  folder: z.string(),
  turn_id: z.string(),
  model: z.string(),
  user_sub: z.string().optional(),
  chat_jid: z.string().optional(),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost_cents: z.int(),
  microcents: z.int().optional().describe('The cost of a turn in millionths of a cent, before it is rounded'),
  recorded_at: Timestamp,
})

export const costLog = new Table({
  name: 'cost_log',
  row: Cost,
  key: ['folder', 'turn_id', 'model'],
  storage: [
    `create table cost_log (
       folder text not null, turn_id text not null, model text not null, user_sub text, chat_jid text,
       input_tokens bigint not null, output_tokens bigint not null, cost_cents bigint not null,
       recorded_at text not null, primary key (folder, turn_id, model))`,
    'create index cost_log_of_folder on cost_log (folder, recorded_at)',
    'create index cost_log_of_user on cost_log (user_sub, recorded_at)',
    // Replaced by the table daily_costs.
    'drop index cost_log_of_folder',
    'drop index cost_log_of_user',
    'create index cost_log_newest on cost_log (recorded_at, folder, cost_cents)',
    'alter table cost_log add column microcents bigint',
  ],
})

export const COST_CENTS = defineCounter('svc_cost_cents_total', 'Cost that turns reported, in cents')
export const TOKENS = defineCounter('svc_tokens_total', 'Tokens of models that turns reported', {
  direction: ['input', 'output'],
})

/** Records a cost once, and counts it after the commit. */
export async function recordCost(
  tx: Tx,
  metrics: MetricRegistry | undefined,
  cost: z.output<typeof Cost>,
): Promise<void> {
  if (!(await costLog.insertIfMissing(tx, cost)) || !metrics) return
  tx.onCommit(() => {
    metrics.add(COST_CENTS, {}, cost.cost_cents)
    metrics.add(TOKENS, { direction: 'input' }, cost.input_tokens)
    metrics.add(TOKENS, { direction: 'output' }, cost.output_tokens)
  })
}

const CostPayer = z.enum(['folder', 'user_sub'])

/** Trigger body that adds the cost of `row` to the sums of its day, or subtracts it. */
const countSql = (row: 'new' | 'old', sign: '' | '-'): string => `
  insert into daily_costs (payer, name, day, cents)
  select payer, name, substr(${row}.recorded_at, 1, 10), ${sign}${row}.cost_cents from
    (select 'folder' as payer, ${row}.folder as name union all select 'user_sub', ${row}.user_sub) as paid
  where name is not null
  on conflict (payer, name, day) do update set cents = daily_costs.cents + excluded.cents`

const sumsSql = (payer: z.output<typeof CostPayer>): string => `
  select '${payer}', ${payer}, substr(recorded_at, 1, 10), cast(sum(cost_cents) as bigint) from cost_log
  where ${payer} is not null group by ${payer}, substr(recorded_at, 1, 10)`

/** Daily sums of `cost_log`, maintained by triggers, so that the budget check reads one row. */
export const dailyCosts = new Table({
  name: 'daily_costs',
  row: z.object({ payer: CostPayer, name: z.string(), day: z.string(), cents: z.int() }),
  key: ['payer', 'name', 'day'],
  storage: [
    ({ clusteredSql }) => `create table daily_costs (
       payer text not null, name text not null, day text not null, cents bigint not null,
       primary key (payer, name, day))${clusteredSql}`,
    `insert into daily_costs (payer, name, day, cents) ${sumsSql('folder')} union all ${sumsSql('user_sub')}`,
    ({ onInsert }) => onInsert('cost_log', 'cost_log_counted', countSql('new', '')),
    ({ onDelete }) => onDelete('cost_log', 'cost_log_uncounted', countSql('old', '-')),
    ({ onUpdate }) => onUpdate('cost_log', 'cost_log_recounted', `${countSql('old', '-')};${countSql('new', '')}`),
    // The costs of a day below a folder.
    'create index daily_costs_of_day on daily_costs (payer, day, name, cents)',
  ],
})

/** $2 and below it: $3 and $4 are the ends of the index range, which also has names such as `team-b` for `team`. */
const IN_SUBTREE = `name >= $2 and name < $4 and (name = $2 or name >= $3)`

/**
 * Cents recorded since 00:00 UTC; for a folder, with those of all folders below it. Includes later days, in case the clock was
 * set back.
 */
export async function sumSpentToday(tx: Tx, by: z.output<typeof CostPayer>, who: string, now: string): Promise<number> {
  const day = now.slice(0, 10)
  const { cents } = await (by === 'folder'
    ? queryOne(
        tx,
        { cents: integer },
        `select coalesce(sum(cents), 0) as cents from (
           select cents from daily_costs where payer = 'folder' and day = $1 and ${IN_SUBTREE}
           union all select cents from daily_costs where payer = 'folder' and day > $1 and ${IN_SUBTREE}) as spent`,
        [day, ...subtree(who)],
      )
    : queryOne(
        tx,
        { cents: integer },
        'select coalesce(sum(cents), 0) as cents from daily_costs where payer = $1 and name = $2 and day >= $3',
        [by, who, day],
      ))
  return cents
}

const BudgetStatus = z.enum(['ok', 'WARN', 'EXHAUSTED'])
type BudgetStatus = z.output<typeof BudgetStatus>

/** The status is absent without a cap. */
export const DailyBudget = z.object({
  cap: z.int().optional(),
  spent: z.int().describe('Of a folder: with all folders below it'),
  status: BudgetStatus.optional().describe('The worst of all caps that apply'),
  /** Without amounts: they are for those who administer that folder. */
  above: z
    .array(z.object({ folder: z.string(), status: BudgetStatus }))
    .optional()
    .describe('The folders above that have a cap'),
})

export function budgetOf(spent: number, cap: number | undefined): z.output<typeof DailyBudget> {
  return { spent, ...(cap === undefined ? {} : { cap, status: budgetStatus(spent, cap) }) }
}

export function worstStatus(statuses: readonly BudgetStatus[]): BudgetStatus | undefined {
  return BudgetStatus.options.findLast((status) => statuses.includes(status))
}

/** `EXHAUSTED` exactly when turns are refused. See docs/decisions.md#budgets. */
export function budgetStatus(spent: number, cap: number): BudgetStatus {
  if (spent > cap) return 'EXHAUSTED'
  return spent * 100 >= cap * 80 ? 'WARN' : 'ok'
}

/** What a run has used of a model so far. */
export interface ModelUsage {
  readonly model: string
  readonly input: number
  readonly output: number
  /** Not rounded. */
  readonly cents: number
}

/** Larger reports are mistakes; sums of smaller ones stay exact. */
const CENTS_MAX = 1_000_000_000
const TOKENS_MAX = 1_000_000_000_000

export interface BookedCost {
  readonly model: string
  readonly input_tokens: number
  readonly output_tokens: number
  readonly cost_cents: number
  readonly microcents: number
}

/** Rounds the sum up once, so that many small costs cannot stay below a limit, and not each of them. */
export function roundCosts(used: readonly ModelUsage[]): readonly BookedCost[] {
  let [sum, counted] = [0, 0]
  return used.map(({ model, input, output, cents }) => {
    const microcents = Math.round(Math.min(cents, CENTS_MAX) * 1e6)
    sum += microcents
    const cost_cents = Math.ceil(sum / 1e6) - counted
    counted += cost_cents
    const [input_tokens, output_tokens] = [input, output].map((tokens) => Math.round(Math.min(tokens, TOKENS_MAX)))
    return { model, input_tokens: input_tokens ?? 0, output_tokens: output_tokens ?? 0, cost_cents, microcents }
  })
}
