// Faults of the machine that may pass: no disk space, memory, processes or open files left, or a service that does not answer.
import { errnoCode } from './files/atomic-file.ts'
import { Refusal } from './refusal.ts'

const ERRORS: ReadonlySet<string | undefined> = new Set([
  ...['EAGAIN', 'EDQUOT', 'EIO', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'ENOSPC', 'EROFS', 'ETOOMANYREFS', 'EUSERS'],
])

/** Whether the same call may succeed later, without any change by its caller. */
export function isHostFault(error: unknown): boolean {
  return error instanceof Refusal ? error.code === 'unavailable' : ERRORS.has(errnoCode(error) ?? '')
}
