// What turns have cost, and the caps of people. The caps of folders stand on their groups.
import { z } from 'zod'
import type { Tx } from '../store/engine.ts'
import { on, Table } from '../store/table.ts'
import { Cents } from './groups.ts'
import { Sub, Timestamp } from './values.ts'

/** What a cap may be set to: 0 removes it. */
export const DailyCap = z.int().min(0).max(1_000_000_000_000).describe('Cents a day; 0 removes the cap')

export const User = z.object({
  sub: Sub,
  cost_cap_cents_per_day: Cents.optional(),
  warned_on: z.string().optional().describe('The day and the cap of which it was last said that it is nearly spent'),
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

export const Cost = z.object({
  folder: z.string(),
  turn_id: z.string(),
  model: z.string(),
  user_sub: z.string().optional(),
  chat_jid: z.string().optional(),
  input_tokens: z.int(),
  output_tokens: z.int(),
  cost_cents: z.int(),
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
  ],
})

/** Cents recorded since 00:00 UTC of the day that `now` lies in. */
export async function spentToday(tx: Tx, by: 'folder' | 'user_sub', who: string, now: string): Promise<number> {
  const { cents } = await on(tx, { cost_log: costLog })
    .selectFrom('cost_log')
    .select(({ fn }) => fn.sum<number | null>('cost_cents').as('cents'))
    .where(by, '=', who)
    .where('recorded_at', '>=', `${now.slice(0, 10)}T00:00:00.000Z`)
    .executeTakeFirstOrThrow()
  // The sum of nothing is NULL.
  return cents ?? 0
}

export const BudgetStatus = z.enum(['ok', 'WARN', 'EXHAUSTED'])
export type BudgetStatus = z.output<typeof BudgetStatus>

/** How a folder or a person stands today; without a cap there is no status. */
export const Budget = z.object({ cap: z.int().optional(), spent: z.int(), status: BudgetStatus.optional() })

export function budgetOf(spent: number, cap: number | undefined): z.output<typeof Budget> {
  return { spent, ...(cap === undefined ? {} : { cap, status: budgetStatus(spent, cap) }) }
}

/** A turn is refused when the day's spend exceeds the cap, and `EXHAUSTED` is said exactly then (decision T5). */
export function budgetStatus(spent: number, cap: number): BudgetStatus {
  if (spent > cap) return 'EXHAUSTED'
  return spent * 100 >= cap * 80 ? 'WARN' : 'ok'
}
