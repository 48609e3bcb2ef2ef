// Leases of slots for schedulers that use HTTP (/v1/tasks/due): a leased task is `firing` until the scheduler reports its next
// run. When a lease expires, another scheduler fires the slot.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { delayIfTooFast } from './task-rates.ts'
import { type ScheduledTask, scheduledTasks } from './tasks.ts'

export const TASK_LEASE_MS = 60_000

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

interface LeaseRequest {
  readonly now: number
  readonly forMs: number
  readonly limit: number
}

/** Leases due tasks, the longest overdue first. The caller holds `lockMessageOrder`. */
export async function leaseDueTasks(tx: Tx, { now, forMs, limit }: LeaseRequest): Promise<ScheduledTask[]> {
  await expireLeases(tx, now)
  const leased = await query(
    tx,
    scheduledTasks.decode,
    `update scheduled_tasks set status = 'firing' where id in (select id from scheduled_tasks
       where status = 'active' and next_run <= $1 order by next_run, id limit $2)
     returning ${scheduledTasks.columns.join(', ')}`,
    [timestamp(now), limit],
  )
  const allowed: ScheduledTask[] = []
  for (const task of leased.toSorted((one, other) => ((one.next_run ?? '') < (other.next_run ?? '') ? -1 : 1))) {
    if (await delayIfTooFast(tx, task, now)) continue
    await taskLeases.upsert(tx, { task_id: task.id, leased_until: now + forMs })
    allowed.push(task)
  }
  return allowed
}

/** A lease that ends too far in the future also counts as expired: the clock was set back. */
export async function hasExpiredLease(tx: Tx, now: number): Promise<boolean> {
  const rows = await query(
    tx,
    {},
    'select 1 as one from task_leases where leased_until <= $1 or leased_until > $2 limit 1',
    [now, now + TASK_LEASE_MS],
  )
  return rows.length > 0
}

/** Makes tasks of expired leases due again, at the same slot. */
export async function expireLeases(tx: Tx, now: number): Promise<void> {
  if (!(await hasExpiredLease(tx, now))) return
  // After the clock was set back: shorten the lease to the usual time from now, for schedulers that are still running.
  await execute(tx, 'update task_leases set leased_until = $1 where leased_until > $1', [now + TASK_LEASE_MS])
  await execute(
    tx,
    `update scheduled_tasks set status = 'active' where status = 'firing'
       and id in (select task_id from task_leases where leased_until <= $1)`,
    [now],
  )
  await execute(tx, 'delete from task_leases where leased_until <= $1', [now])
}

/** Sets the task's next run after a leased slot; a task paused meanwhile stays paused. Returns false if the lease was lost. */
export async function finishSlot(
  tx: Tx,
  { id, status }: ScheduledTask,
  next: { readonly status: 'active' | 'completed'; readonly next_run?: string | undefined },
): Promise<boolean> {
  const isLeased = (await taskLeases.remove(tx, { task_id: id })) > 0
  // A task that was paused and resumed meanwhile already has its next slot.
  if (!isLeased || (status !== 'firing' && status !== 'paused')) return false
  const staysPaused = status === 'paused' && next.status === 'active'
  await scheduledTasks.update(tx, { id }, { next_run: next.next_run, status: staysPaused ? 'paused' : next.status })
  return true
}
