// Tells whether a process that another process wrote down is still running. Only Linux has what it needs.
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

export interface ProcessIdentity {
  /** This boot of this machine or container; empty where it is unknown. */
  readonly machine: string
  /** The namespace that `pid` belongs to. */
  readonly namespace: string
  readonly pid: number
  /** Start time of the process in clock ticks since the boot: a process id is used again. */
  readonly start: string
}

/** Of this process. */
export function processIdentity(): ProcessIdentity {
  const { pid } = process
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
    const namespace = readlinkSync('/proc/self/ns/pid')
    return { machine: `${boot} ${hostname()}`, namespace, pid, start: startOf(pid) ?? '' }
  } catch {
    return { machine: '', namespace: '', pid, start: '' }
  }
}

/**
 * Whether the process has certainly ended: it ran on this machine since its boot. In a container that was started again, no
 * process of the namespace before is left.
 */
export function hasEnded(other: ProcessIdentity, own: ProcessIdentity): boolean {
  if (own.machine === '' || other.machine !== own.machine) return false
  return other.namespace !== own.namespace || startOf(other.pid) !== other.start
}

/** The 22nd field; the second one, the name in parentheses, may contain blanks. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    // A zombie has ended.
    return state === 'Z' ? undefined : fields[18]
  } catch {
    return undefined
  }
}
