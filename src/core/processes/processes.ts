// Processes that serve the instance. Each removes its row when it ends as intended: a row whose process is gone says that it
// ended unexpectedly. See docs/decisions.md#rows-that-end-their-process.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { Timestamp } from '../values.ts'

export const ServingProcessRow = z.object({
  id: z.string(),
  machine: z.string().describe('Boot and host name'),
  namespace: z.string().describe('Process namespace'),
  pid: z.int(),
  start: z.string().describe('Start time in clock ticks since the boot'),
  started_at: Timestamp,
  daemons: z.array(z.string()).describe('Daemons that it runs'),
})
export type ServingProcessRow = z.output<typeof ServingProcessRow>

export const processes = new Table({
  name: 'processes',
  row: ServingProcessRow,
  key: 'id',
  storage: [
    `create table processes (
       id text primary key, machine text not null, namespace text not null, pid bigint not null, start text not null,
       started_at text not null, daemons text not null)`,
  ],
})

/** A row of a machine that has not come back after this time is removed. */
const FORGOTTEN_MS = 30 * 24 * 3_600_000

/** Removes the rows of processes that have ended without removing them, and returns them. */
export async function takeEndedProcesses(
  tx: Tx,
  now: number,
  hasEnded: (row: ServingProcessRow) => boolean,
): Promise<{ readonly ended: ServingProcessRow[]; readonly forgotten: ServingProcessRow[] }> {
  const rows = await processes.list(tx)
  const ended: ServingProcessRow[] = []
  const forgotten: ServingProcessRow[] = []
  for (const row of rows) {
    const isForgotten = Date.parse(row.started_at) < now - FORGOTTEN_MS
    if (!hasEnded(row) && !isForgotten) continue
    // Another process may have taken it since.
    if ((await processes.remove(tx, { id: row.id })) > 0) (hasEnded(row) ? ended : forgotten).push(row)
  }
  return { ended, forgotten }
}
