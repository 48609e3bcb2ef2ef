// The tag of a run, part of the name of everything created for it. It identifies the process that started the run, so that the
// next run can find what a dead one has left.
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { errnoCode } from '../../lib/files/atomic-file.ts'

export const PREFIX = 'egress-proxy-'

const TAG = /^([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}$/

/** `<machine>-<process>-<start time>-<random>`. */
export function makeTag(): string {
  return [machine(), process.pid, startOf(process.pid) ?? 0, randomBytes(4).toString('hex')].join('-')
}

/** Names end with their component: `egress-proxy-<tag>-proxy`. */
export function runTagOf(name: string): string | undefined {
  const tag = name.startsWith(PREFIX) ? name.slice(PREFIX.length, name.lastIndexOf('-')) : ''
  return TAG.test(tag) ? tag : undefined
}

/** Whether the process of this run is certainly gone. False for other machines' processes. */
export function isOrphanedRun(tag: string): boolean {
  const [, where, pid, started] = TAG.exec(tag) ?? []
  if (where !== machine()) return false
  const start = startOf(Number(pid))
  return start === undefined || String(start) !== started
}

/** Identifies one boot of one machine in one pid namespace. */
function machine(): string {
  const parts = [hostname(), attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))]
  parts.push(attempt(() => readlinkSync('/proc/self/ns/pid')))
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 8)
}

/** Start time of a process in ticks; 0 if the system does not report it, undefined if the process does not exist. */
function startOf(pid: number): number | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  // The program name in parentheses may contain any character.
  if (stat) return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  try {
    process.kill(pid, 0)
    return 0
  } catch (error) {
    return errnoCode(error) === 'EPERM' ? 0 : undefined
  }
}

function attempt(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}
