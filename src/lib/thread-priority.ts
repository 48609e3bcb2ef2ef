// Lowers the scheduling priority of the current thread.
import { readlinkSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { basename } from 'node:path'

/** For threads whose work can wait. */
export function lowerPriority(): void {
  try {
    // "<process>/task/<thread>": setPriority accepts a thread id in place of a process id.
    const thread = Number(basename(readlinkSync('/proc/thread-self')))
    setPriority(thread, Math.max(getPriority(thread), constants.priority.PRIORITY_BELOW_NORMAL))
  } catch {
    // Systems other than Linux do not expose thread ids; the thread then keeps its priority.
  }
}
