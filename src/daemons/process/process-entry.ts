// Enters this process in the store while it serves the instance, and finds out which ones ended unexpectedly.
import { randomUUID } from 'node:crypto'
import { processes, takeEndedProcesses } from '../../core/processes/processes.ts'
import { suspectTurnsOf } from '../../core/turns/suspect-turns.ts'
import { timestamp } from '../../lib/clock.ts'
import { hasEnded, type ProcessIdentity, processIdentity } from '../../lib/process-identity.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

export interface ProcessEntry {
  readonly id: string
  /** Turns that ran in processes which have ended unexpectedly become suspects. Returns the number of such processes. */
  findCrashes(): Promise<number>
  /** The process ends as intended. */
  leave(): Promise<void>
}

export async function enterProcess(
  { engine, clock }: Pick<InstanceHost, 'engine' | 'clock'>,
  own: ProcessIdentity = processIdentity(),
): Promise<ProcessEntry> {
  const id = randomUUID()
  const suspect = async (tx: Tx): Promise<number> => {
    const ended = await takeEndedProcesses(tx, clock.now(), (row) => hasEnded(row, own))
    for (const processId of ended) await suspectTurnsOf(tx, processId)
    return ended.length
  }
  await engine.transaction(async (tx) => {
    await suspect(tx)
    await processes.insert(tx, { id, ...own, started_at: timestamp(clock.now()) })
  })
  return {
    id,
    findCrashes: () => engine.transaction(suspect),
    leave: async () => {
      try {
        await engine.transaction((tx) => processes.remove(tx, { id }))
      } catch (error) {
        // Without the store the row stays, and the next start finds no turns of this process.
        if (!(error instanceof Refusal)) throw error
      }
    },
  }
}
