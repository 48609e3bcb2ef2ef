// Enters this process in the store while it serves the instance, and finds out which ones ended unexpectedly.
import { randomUUID } from 'node:crypto'
import { suspectDeliveries } from '../../core/delivery/suspect-deliveries.ts'
import { lockMessageOrder } from '../../core/messages/messages.ts'
import { processes, type ServingProcessRow, takeEndedProcesses } from '../../core/processes/processes.ts'
import { setAside } from '../../core/processes/set-aside.ts'
import { ENDED_TWICE, releaseSuspects, takeNotedSuspects } from '../../core/processes/suspects.ts'
import { suspectUnrouted } from '../../core/routing/unrouted-messages.ts'
import { suspectDueTasks } from '../../core/schedule/suspect-tasks.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { suspectTurnsOf } from '../../core/turns/suspect-turns.ts'
import { timestamp } from '../../lib/clock.ts'
import { hasEnded, type ProcessIdentity, processIdentity } from '../../lib/process-identity.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

export interface ProcessEntry {
  readonly id: string
  /** Rows that processes were handling when they ended unexpectedly become suspects. Returns the number of such processes. */
  findCrashes(): Promise<number>
  /** The process ends as intended. */
  leave(): Promise<void>
}

type EntryHost = Pick<InstanceHost, 'engine' | 'clock' | 'random'>

export async function enterProcess(
  host: EntryHost,
  daemons: readonly string[],
  own: ProcessIdentity = processIdentity(),
): Promise<ProcessEntry> {
  const { engine, clock } = host
  const id = randomUUID()
  const suspect = async (tx: Tx): Promise<number> => {
    const { ended, forgotten } = await takeEndedProcesses(tx, clock.now(), (row) => hasEnded(row, own))
    for (const row of ended) await suspectRowsOf(tx, host, row)
    for (const row of forgotten) await releaseSuspects(tx, row.id)
    return ended.length
  }
  await engine.transaction(async (tx) => {
    await suspect(tx)
    await processes.insert(tx, { id, ...own, started_at: timestamp(clock.now()), daemons: [...daemons] })
  })
  return {
    id,
    findCrashes: () => engine.transaction(suspect),
    leave: async () => {
      try {
        await engine.transaction(async (tx) => {
          await releaseSuspects(tx, id)
          await processes.remove(tx, { id })
        })
      } catch (error) {
        // Without the store the row stays, and the next start finds nothing that this process was handling.
        if (!(error instanceof Refusal)) throw error
      }
    },
  }
}

/**
 * A suspect that the process was handling is set aside; what it may have been handling becomes a suspect. Only ids are read,
 * because the content of such a row may end this process, too.
 */
async function suspectRowsOf(tx: Tx, host: EntryHost, { id, daemons }: ServingProcessRow): Promise<void> {
  await lockMessageOrder(tx, host.engine.dialect)
  await suspectTurnsOf(tx, id)
  for (const noted of await takeNotedSuspects(tx, id)) await setAside(tx, writeContextOf(host), noted, ENDED_TWICE)
  if (daemons.includes('routd')) {
    await suspectUnrouted(tx)
    await suspectDeliveries(tx, host.clock.now())
  }
  if (daemons.includes('timed')) await suspectDueTasks(tx, host.clock.now())
}
