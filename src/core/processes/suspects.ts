// Suspects: unrouted messages, due tasks and deliveries that a process may have been handling when it ended unexpectedly. The next
// process handles them one at a time and notes each one first, so that a second end shows which one is the cause. Turns have
// columns of their own. See docs/decisions.md#rows-that-end-their-process.
import { z } from 'zod'
import type { Tx, Value } from '../../store/engine.ts'
import { execute, query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'

/** Reason of rows that are set aside. */
export const ENDED_TWICE = 'the process that ran it ended twice'

export const SuspectWork = z.enum(['routing', 'task', 'delivery'])
export type SuspectWork = z.output<typeof SuspectWork>

export const Suspect = z.object({
  work: SuspectWork,
  id: z.string().describe('Id of the message or task'),
  position: z.int().describe('Suspects are handled in this order'),
  process: z.string().optional().describe('Process that handles it now'),
})
export type Suspect = z.output<typeof Suspect>

export const suspects = new Table({
  name: 'suspects',
  row: Suspect,
  key: ['work', 'id'],
  storage: [
    `create table suspects (
       work text not null, id text not null, position bigint not null, process text, primary key (work, id))`,
  ],
})

/** `rows` is a query of ids and positions. */
export async function addSuspects(
  tx: Tx,
  work: SuspectWork,
  rows: string,
  values: readonly Value[] = [],
): Promise<void> {
  await execute(
    tx,
    `insert into suspects (work, id, position) select '${work}', r.id, r.position from (${rows}) r where true
     on conflict do nothing`,
    values,
  )
}

/** Removes the suspect `done`, which has ended no process, and notes that this process handles the next one. */
export async function noteNextSuspect(
  tx: Tx,
  work: SuspectWork,
  process: string,
  done?: Suspect,
): Promise<Suspect | undefined> {
  if (done !== undefined) await suspects.remove(tx, { work, id: done.id })
  const [next] = await query(
    tx,
    suspects.decode,
    `select ${suspects.columns.join(', ')} from suspects where work = $1 and process is null order by position, id limit 1`,
    [work],
  )
  if (next) await suspects.update(tx, { work, id: next.id }, { process })
  return next
}

/** Removes and returns the suspects that this process was handling. */
export async function takeNotedSuspects(tx: Tx, process: string): Promise<Suspect[]> {
  return query(
    tx,
    suspects.decode,
    `delete from suspects where process = $1 returning ${suspects.columns.join(', ')}`,
    [process],
  )
}

/** For a process that no longer handles them. */
export async function releaseSuspects(tx: Tx, process: string): Promise<void> {
  await execute(tx, 'update suspects set process = null where process = $1', [process])
}
