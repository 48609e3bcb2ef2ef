// The processes of a served instance, by their role.
import { readdirSync, readFileSync } from 'node:fs'
import { until } from './until.ts'

export interface SvcProcess {
  readonly pid: number
  readonly role: 'front' | 'runner'
  /** The only turn that it runs. */
  readonly turnId: string | undefined
}

/** Running processes below the parent, which is what `svc serve` started. */
export function svcProcesses(parent: number): SvcProcess[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  const parents = new Map(pids.map((pid) => [Number(pid), parentOf(Number(pid))]))
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid > 1 && (pid === parent || isBelow(parents.get(pid)))
  return [...parents.keys()].flatMap((pid) => {
    const { SVC_PROCESS: role, SVC_TURN: turnId } = environmentOf(pid)
    return (role === 'front' || role === 'runner') && isSvc(pid) && isBelow(pid) ? [{ pid, role, turnId }] : []
  })
}

/** Waits for a process of this role that is not one of those. */
export async function processOf(
  parent: number,
  role: SvcProcess['role'],
  { turnId, not = [] }: { turnId?: string; not?: readonly number[] } = {},
): Promise<number> {
  const find = (): number | undefined =>
    svcProcesses(parent).find((each) => each.role === role && each.turnId === turnId && !not.includes(each.pid))?.pid
  await until(() => find() !== undefined)
  return find() ?? 0
}

function parentOf(pid: number): number | undefined {
  const stat = read(`/proc/${pid}/stat`)
  const [state, parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return state === undefined || state === 'Z' ? undefined : Number(parent)
}

function environmentOf(pid: number): Record<string, string> {
  const pairs = read(`/proc/${pid}/environ`).split('\0')
  return Object.fromEntries(pairs.map((pair) => [pair.split('=', 1)[0] ?? '', pair.slice(pair.indexOf('=') + 1)]))
}

/** Programs that svc starts inherit its variables. */
function isSvc(pid: number): boolean {
  return read(`/proc/${pid}/cmdline`).includes('bin/svc.js\0serve')
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
