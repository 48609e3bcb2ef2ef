// Applies the fixes of findings: `svc doctor --fix`.

import type { DoctorFinding } from '../../daemons/doctor/findings.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { SvcContext } from '../command.ts'

/** Returns a finding for each fix that was applied or failed. Asks before anything is removed. */
export async function applyFixes(
  svc: SvcContext,
  findings: readonly DoctorFinding[],
  isConfirmed: boolean,
): Promise<DoctorFinding[]> {
  const applied: DoctorFinding[] = []
  for (const { check, fix } of findings) {
    if (!fix || (fix.isRemoval && !isConfirmed && !(await confirmRemoval(svc, fix.detail)))) continue
    try {
      await fix.apply()
      applied.push({ check, status: 'ok', detail: `fixed: ${fix.detail}` })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      applied.push({ check, status: 'wrong', detail: `not fixed: ${error.message}` })
    }
  }
  return applied
}

async function confirmRemoval({ io, print }: SvcContext, detail: string): Promise<boolean> {
  if (!io.prompt) {
    print.say(`not done without --yes: ${detail}`)
    return false
  }
  return /^y(es)?$/i.test((await io.prompt(`${detail}? [y/N]`)).trim())
}
