// Reports the processes of a served instance, and whether one of them had to be started again.
import type { ProcessStatus } from '../../supervisor/messages.ts'
import { asNote, type DoctorFinding, makeFinding } from './findings.ts'

/** No finding for an instance that is not served, or whose daemons run in processes of their own. */
export function checkProcesses(processes: readonly ProcessStatus[] = []): DoctorFinding[] {
  if (processes.length === 0) return []
  const faults = processes.flatMap(({ role, restarts, last_end }) =>
    last_end
      ? [
          `the ${role} was started again ${restarts === 1 ? 'once' : `${restarts} times`}: ${last_end.reason} (${last_end.at})`,
        ]
      : [],
  )
  const fine = processes.map(({ role, pid }) =>
    pid === undefined ? `${role} starts with the first turn` : `${role} is process ${pid}`,
  )
  return [asNote(makeFinding('processes', faults, fine.join(', '), 'read the log around that time'))]
}
