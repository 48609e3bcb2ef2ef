// Reports on costs: sums per day, folder, model and person, and budgets that are nearly spent. Triggers maintain the sums, so
// a report reads the days that it shows and not the turns.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import { integer, placeholders, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { budgetStatus } from './costs.ts'

/** Trigger body that adds the cost of `row` to the sums of its day, or subtracts it. */
const addSql = (row: 'new' | 'old', sign: '' | '-'): string => `
  insert into daily_spend (day, folder, model, user_sub, cents, input_tokens, output_tokens, turns)
  values (substr(${row}.recorded_at, 1, 10), ${row}.folder, ${row}.model, coalesce(${row}.user_sub, ''),
    ${sign}${row}.cost_cents, ${sign}${row}.input_tokens, ${sign}${row}.output_tokens, ${sign}1)
  on conflict (day, folder, model, user_sub) do update set cents = daily_spend.cents + excluded.cents,
    input_tokens = daily_spend.input_tokens + excluded.input_tokens,
    output_tokens = daily_spend.output_tokens + excluded.output_tokens, turns = daily_spend.turns + excluded.turns`

export const dailySpend = new Table({
  name: 'daily_spend',
  row: z.object({
    day: z.string().describe('In UTC, as 2026-01-31'),
    folder: z.string(),
    model: z.string(),
    user_sub: z.string().describe('Empty for turns of no person'),
    cents: z.int(),
    input_tokens: z.int(),
    output_tokens: z.int(),
    turns: z.int(),
  }),
  key: ['day', 'folder', 'model', 'user_sub'],
  storage: [
    ({ clusteredSql }) => `create table daily_spend (
       day text not null, folder text not null, model text not null, user_sub text not null, cents bigint not null,
       input_tokens bigint not null, output_tokens bigint not null, turns bigint not null,
       primary key (day, folder, model, user_sub))${clusteredSql}`,
    `insert into daily_spend (day, folder, model, user_sub, cents, input_tokens, output_tokens, turns)
     select substr(recorded_at, 1, 10), folder, model, coalesce(user_sub, ''), cast(sum(cost_cents) as bigint),
       cast(sum(input_tokens) as bigint), cast(sum(output_tokens) as bigint), count(*) from cost_log
     group by substr(recorded_at, 1, 10), folder, model, coalesce(user_sub, '')`,
    ({ onInsert }) => onInsert('cost_log', 'cost_log_spent', addSql('new', '')),
    ({ onDelete }) => onDelete('cost_log', 'cost_log_unspent', addSql('old', '-')),
    ({ onUpdate }) => onUpdate('cost_log', 'cost_log_respent', `${addSql('old', '-')};${addSql('new', '')}`),
  ],
})

export const SPEND_GROUPS = ['day', 'folder', 'model', 'user_sub'] as const

export const Spend = z.object({
  name: z.string().describe('A day, a folder, a model or a person; empty for turns of no person'),
  cents: z.int(),
  input_tokens: z.int(),
  output_tokens: z.int(),
  turns: z.int().describe('Number of turns that reported a cost, once for each model'),
})
export type Spend = z.output<typeof Spend>

/** What a report counts: everything, or what folders cost and what a person caused. */
export interface SpendScope {
  /** Undefined: all folders. */
  readonly folders?: readonly string[] | undefined
  /** Also the costs of this person in other folders. */
  readonly person?: string | undefined
}

export interface SpendRequest extends SpendScope {
  readonly by: (typeof SPEND_GROUPS)[number]
  /** First day. */
  readonly since: string
  readonly limit: number
}

const SPEND = { name: text, cents: integer, input_tokens: integer, output_tokens: integer, turns: integer }
const SUMS = ['cents', 'input_tokens', 'output_tokens', 'turns']
  .map((column) => `cast(sum(${column}) as bigint) as ${column}`)
  .join(', ')

/** Days in order, without days that cost nothing; all others by cost, highest first. */
export async function sumSpend(tx: Tx, request: SpendRequest): Promise<Spend[]> {
  const { by, since, limit } = request
  const { sql, values } = scopeCondition(request, 1)
  const order = by === 'day' ? 'name' : 'cents desc, name'
  return query(
    tx,
    SPEND,
    `select ${by} as name, ${SUMS} from daily_spend where day >= $1${sql} group by ${by} order by ${order} limit ${limit}`,
    [since, ...values],
  )
}

const DAY = { day: text, cents: integer }

/** What turns of this person cost, by day; without days that cost nothing. */
export function listPersonCosts(tx: Tx, person: string, since: string): Promise<{ day: string; cents: number }[]> {
  return query(
    tx,
    DAY,
    `select day, cents from daily_costs where payer = 'user_sub' and name = $1 and day >= $2 order by day`,
    [person, since],
  )
}

function scopeCondition(
  { folders, person }: SpendScope,
  after: number,
): { readonly sql: string; readonly values: readonly Value[] } {
  if (folders === undefined) return { sql: '', values: [] }
  const arms = [
    ...(folders.length > 0 ? [`folder in (${placeholders(folders.length, after)})`] : []),
    ...(person === undefined ? [] : [`user_sub = $${after + folders.length + 1}`]),
  ]
  const values = [...folders, ...(person === undefined ? [] : [person])]
  return { sql: ` and (${arms.join(' or ') || 'false'})`, values }
}

export const NearBudget = z.object({
  by: z.enum(['folder', 'person']),
  name: z.string(),
  cap: z.int(),
  spent: z.int(),
  status: z.enum(['WARN', 'EXHAUSTED']),
})
type NearBudget = z.output<typeof NearBudget>

const BUDGETS_MAX = 50
const CAPPED = { by: text, name: text, cap: integer, spent: integer }

/**
 * Budgets of today of which 80 percent or more is spent; the one with the largest share first. A folder pays for all folders
 * below it: their costs of one day are an index range. SQLite keeps the order of a cross join.
 */
export async function listNearBudgets(tx: Tx, { folders, person }: SpendScope, now: string): Promise<NearBudget[]> {
  const day = now.slice(0, 10)
  const ofFolders = await query(
    tx,
    CAPPED,
    `select 'folder' as by, g.folder as name, g.cost_cap_cents_per_day as cap, cast(sum(d.cents) as bigint) as spent
     from (select distinct day from daily_costs where payer = 'folder' and day >= $1) as days
       cross join groups g cross join daily_costs d
     where d.payer = 'folder' and d.day = days.day and d.name >= g.folder and d.name < g.folder || '0'
       and (d.name = g.folder or d.name >= g.folder || '/') and g.cost_cap_cents_per_day is not null${folders ? ` and g.folder in (${placeholders(folders.length, 1) || 'null'})` : ''}
     ${NEARLY_SPENT('g.folder', 'g.cost_cap_cents_per_day')}`,
    [day, ...(folders ?? [])],
  )
  const ofPeople = await query(
    tx,
    CAPPED,
    `select 'person' as by, u.sub as name, u.cost_cap_cents_per_day as cap, cast(sum(d.cents) as bigint) as spent
     from users u join daily_costs d on d.payer = 'user_sub' and d.name = u.sub and d.day >= $1
     where u.cost_cap_cents_per_day is not null${folders ? ' and u.sub = $2' : ''}
     ${NEARLY_SPENT('u.sub', 'u.cost_cap_cents_per_day')}`,
    [day, ...(folders ? [person ?? ''] : [])],
  )
  return [...ofFolders, ...ofPeople].map(toNearBudget).toSorted((a, b) => b.spent / b.cap - a.spent / a.cap)
}

const NEARLY_SPENT = (name: string, cap: string): string =>
  `group by ${name}, ${cap} having sum(d.cents) * 100 >= ${cap} * 80
   order by sum(d.cents) * 100 / ${cap} desc, ${name} limit ${BUDGETS_MAX}`

function toNearBudget({ by, cap, spent, ...budget }: { by: string; name: string; cap: number; spent: number }) {
  const status = budgetStatus(spent, cap) === 'EXHAUSTED' ? 'EXHAUSTED' : 'WARN'
  return { ...budget, by: by === 'folder' ? 'folder' : 'person', cap, spent, status } satisfies NearBudget
}
