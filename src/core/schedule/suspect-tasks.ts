// Tasks that a process may have been firing when it ended unexpectedly. They are fired one at a time.
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { addSuspects } from '../processes/suspects.ts'
import { FIRING_BATCH } from './task-firing.ts'

/** Makes the tasks that are fired next suspects. */
export async function suspectDueTasks(tx: Tx, now: number): Promise<void> {
  const due = `select id, 0 as position from scheduled_tasks where status = 'active' and next_run <= $1
    order by next_run, id limit ${FIRING_BATCH}`
  await addSuspects(tx, 'task', due, [timestamp(now)])
}
