// The name of one run, which everything that is made for it carries. It says which process started the run, so that the
// next run can tell what a dead one has left behind.
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { diskCode } from '../../lib/atomic-file.ts'

export const PREFIX = 'egress-proxy-'

const TAG = /^([0-9a-f]{8})-(\d+)-(\d+)-[0-9a-f]{8}$/

/** `<machine>-<process>-<when it started>-<chance>`. */
export function makeTag(): string {
  return [machine(), process.pid, startOf(process.pid) ?? 0, randomBytes(4).toString('hex')].join('-')
}

/** Names end with the part they are of: `egress-proxy-<tag>-proxy`. */
export function tagOf(name: string): string | undefined {
  const tag = name.startsWith(PREFIX) ? name.slice(PREFIX.length, name.lastIndexOf('-')) : ''
  return TAG.test(tag) ? tag : undefined
}

/** Whether the process that started this run is gone for sure. Of another machine's processes nothing is known. */
export function isOfTheDead(tag: string): boolean {
  const [, where, pid, started] = TAG.exec(tag) ?? []
  if (where !== machine()) return false
  const start = startOf(Number(pid))
  return start === undefined || String(start) !== started
}

/** Where the numbers of processes mean the same: one boot of one machine, in one namespace. */
function machine(): string {
  const place = [hostname(), attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))]
  place.push(attempt(() => readlinkSync('/proc/self/ns/pid')))
  return createHash('sha256').update(place.join('\n')).digest('hex').slice(0, 8)
}

/** When a process started, in ticks of the machine; 0 where the system does not say, nothing where there is none. */
function startOf(pid: number): number | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  // The name of the program stands in parentheses, and may have any character in it.
  if (stat) return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  try {
    process.kill(pid, 0)
    return 0
  } catch (error) {
    return diskCode(error) === 'EPERM' ? 0 : undefined
  }
}

function attempt(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}
