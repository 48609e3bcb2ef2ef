// Rates of tasks that run once. Each may run at once, but a chain of tasks that schedule tasks must not run faster than a task
// that repeats: see docs/decisions.md#rates-of-tasks-that-run-once.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import type { Reach } from '../access/reach.ts'
import { envelopes } from '../messages/envelopes.ts'
import { type ScheduledTask, scheduledTasks } from './tasks.ts'

/** Tasks that a person's turns schedule for one chat and that may run at once. */
const BURST = 10

/** Until when the runs so far use up the rate; a rate without a row is unused. */
export const taskRates = new Table({
  name: 'task_rates',
  row: z.object({ rate: z.string(), used_until: z.int() }),
  key: 'rate',
  storage: ['create table task_rates (rate text primary key, used_until bigint not null)'],
})

/** The rate of each task that has one. */
export const ratedTasks = new Table({
  name: 'rated_tasks',
  row: z.object({ task_id: z.string(), rate: z.string(), interval_ms: z.int(), burst: z.int() }),
  key: 'task_id',
  storage: [
    `create table rated_tasks (
       task_id text primary key references scheduled_tasks (id) on delete cascade, rate text not null,
       interval_ms bigint not null, burst integer not null)`,
    'create index rated_tasks_of_rate on rated_tasks (rate)',
  ],
})

export interface TaskRate {
  readonly rate: string
  readonly interval_ms: number
  readonly burst: number
}

/** The turn that schedules a task. */
interface SchedulingTurn {
  readonly is_timed: boolean
  readonly last_seq: number
}

interface NewTask {
  readonly owner: string
  readonly chat_jid: string
  readonly reach: Reach
}

/**
 * Turns that no person started, but a task or another agent, share one rate without a burst. A turn with a larger reach can
 * name any number of chats, so its rate is that of the folder.
 */
export async function rateOf(
  tx: Tx,
  { owner, chat_jid, reach }: NewTask,
  turn: SchedulingTurn | undefined,
  interval_ms: number,
): Promise<TaskRate> {
  const isChained = turn !== undefined && (turn.is_timed || (await isFromAgent(tx, turn)))
  const place = isChained && reach !== 'chat' ? [owner] : [owner, chat_jid]
  const rate = JSON.stringify([isChained ? 'chained' : 'direct', ...place])
  return { rate, interval_ms, burst: isChained ? 1 : BURST }
}

async function isFromAgent(tx: Tx, { last_seq }: SchedulingTurn): Promise<boolean> {
  return (await envelopes.find(tx, { message_seq: last_seq }))?.from_turn !== undefined
}

/** When a new task can run: at `wanted`, or later behind the tasks of its rate that wait. */
export async function firstRunAt(
  tx: Tx,
  { rate, interval_ms, burst }: TaskRate,
  wanted: number,
  now: number,
): Promise<number> {
  // It is never used for longer, unless the clock was set back.
  const used = Math.min(await usedUntil(tx, rate), now + burst * interval_ms)
  const start = Math.max(now, used) - (burst - 1) * interval_ms
  let at = Math.max(wanted, start)
  let ahead = 0
  for (const { next_run } of await waitingTasks(tx, rate)) {
    if (Date.parse(next_run) > at) break
    ahead++
    at = Math.max(at, start + ahead * interval_ms)
  }
  return at
}

/** Uses the rate for a due task. If it is used up, sets a later run and returns true. The caller holds `lockMessageOrder`. */
export async function delayIfTooFast(
  tx: Tx,
  { id, cron }: Pick<ScheduledTask, 'id' | 'cron'>,
  now: number,
): Promise<boolean> {
  const rated = cron === undefined ? await ratedTasks.find(tx, { task_id: id }) : undefined
  if (!rated) return false
  const { rate, interval_ms, burst } = rated
  const stored = await usedUntil(tx, rate)
  // It is never used for longer, unless the clock was set back or the interval was shortened.
  const used = stored > now + burst * interval_ms ? now : Math.max(now, stored)
  const allowedAt = used - (burst - 1) * interval_ms
  if (allowedAt > now) await scheduledTasks.update(tx, { id }, { status: 'active', next_run: timestamp(allowedAt) })
  else await taskRates.upsert(tx, { rate, used_until: used + interval_ms })
  return allowedAt > now
}

async function usedUntil(tx: Tx, rate: string): Promise<number> {
  return (await taskRates.find(tx, { rate }))?.used_until ?? 0
}

/** In the order of their runs. */
function waitingTasks(tx: Tx, rate: string): Promise<{ next_run: string }[]> {
  return query(
    tx,
    { next_run: text },
    `select t.next_run from rated_tasks r join scheduled_tasks t on t.id = r.task_id
     where r.rate = $1 and t.status in ('active', 'firing') and t.next_run is not null and t.cron is null
     order by t.next_run`,
    [rate],
  )
}

/** A rate that is not used up at all is the same without a row. */
export function removeUnusedRates(tx: Tx, now: number): Promise<number> {
  return execute(tx, 'delete from task_rates where used_until <= $1', [now])
}
