// Slots that a scheduler elsewhere has taken over HTTP (/v1/tasks/due): such a task is `firing` until the scheduler says when
// it runs next. One that died loses the slot after a while, and another scheduler fires it.
import { z } from 'zod'
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { type ScheduledTask, scheduledTasks } from './tasks.ts'

export const taskLeases = new Table({
  name: 'task_leases',
  row: z.object({ task_id: z.string(), leased_until: z.int() }),
  key: 'task_id',
  storage: [
    `create table task_leases (
       task_id text primary key references scheduled_tasks (id) on delete cascade, leased_until bigint not null)`,
    'create index task_leases_until on task_leases (leased_until)',
  ],
})

export interface LeaseRequest {
  readonly now: number
  readonly forMs: number
  readonly limit: number
}

/** Takes what is due, the one that has waited longest first. Behind `queueUp`. */
export async function leaseDue(tx: Tx, { now, forMs, limit }: LeaseRequest): Promise<ScheduledTask[]> {
  await expireLeases(tx, now)
  const { rows } = await run(
    tx,
    `update scheduled_tasks set status = 'firing' where id in (select id from scheduled_tasks
       where status = 'active' and next_run <= $1 order by next_run, id limit $2)
     returning ${scheduledTasks.columns.join(', ')}`,
    [timestamp(now), limit],
  )
  const taken = rows.map((row) => scheduledTasks.decode(row))
  for (const { id } of taken) await taskLeases.upsert(tx, { task_id: id, leased_until: now + forMs })
  return taken.toSorted((one, other) => ((one.next_run ?? '') < (other.next_run ?? '') ? -1 : 1))
}

export async function hasExpired(tx: Tx, now: number): Promise<boolean> {
  const { rows } = await run(tx, 'select 1 as one from task_leases where leased_until <= $1 limit 1', [now])
  return rows.length > 0
}

/** What a scheduler did not finish in time is due again, at the slot that it had. */
export async function expireLeases(tx: Tx, now: number): Promise<void> {
  if (!(await hasExpired(tx, now))) return
  await run(
    tx,
    `update scheduled_tasks set status = 'active' where status = 'firing'
       and id in (select task_id from task_leases where leased_until <= $1)`,
    [now],
  )
  await run(tx, 'delete from task_leases where leased_until <= $1', [now])
}

/** How a task stands after the slot that was taken: paused meanwhile, it stays paused. Whether the slot was still held. */
export async function finishSlot(
  tx: Tx,
  { id, status }: ScheduledTask,
  next: { readonly status: 'active' | 'completed'; readonly next_run?: string | undefined },
): Promise<boolean> {
  const isLeased = (await taskLeases.remove(tx, { task_id: id })) > 0
  // Paused and resumed meanwhile, it has its next slot already.
  if (!isLeased || (status !== 'firing' && status !== 'paused')) return false
  const stays = status === 'paused' && next.status === 'active'
  await scheduledTasks.update(tx, { id }, { next_run: next.next_run, status: stays ? 'paused' : next.status })
  return true
}
