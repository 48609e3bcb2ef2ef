// The findings of `svc doctor` and how checks create them.
import { Refusal } from '../../lib/refusal.ts'

/** A safe correction of a finding, for `--fix`. */
export interface DoctorFix {
  /** What it does: "set the mode of … to 600". */
  readonly detail: string
  /** Whether it removes something, which needs a confirmation. */
  readonly isRemoval: boolean
  apply(): Promise<void>
}

export interface DoctorFinding {
  readonly check: string
  /** A `note` is worth knowing but not a fault. */
  readonly status: 'ok' | 'note' | 'wrong'
  readonly detail: string
  /** The command to type. */
  readonly next?: string
  readonly fix?: DoctorFix | undefined
}

/** One finding for all faults of a check; `next` is the command that fixes the first of them. */
export function makeFinding(check: string, faults: readonly string[], fine: string, next?: string): DoctorFinding {
  if (faults.length === 0) return { check, status: 'ok', detail: fine }
  const detail = faults.slice(0, 5).join('; ') + (faults.length > 5 ? `; and ${faults.length - 5} more` : '')
  return { check, status: 'wrong', detail, ...(next === undefined ? {} : { next }) }
}

/** Reports a fault as a note only. */
export function asNote(finding: DoctorFinding): DoctorFinding {
  return finding.status === 'wrong' ? { ...finding, status: 'note' } : finding
}

/** Reports a refusal as a fault. `next` defaults to the hint of the refusal. */
export async function runCheck(
  check: string,
  work: () => Promise<DoctorFinding>,
  next?: string,
): Promise<DoctorFinding> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return makeFinding(check, [error.message], '', next ?? error.hint)
  }
}
