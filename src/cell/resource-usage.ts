// Samples the memory and processor time of all processes of a run once a second, and reports when a limit is exceeded.
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { formatDuration } from '../lib/text/duration.ts'
import type { RunLimits } from './limits.ts'

const SAMPLE_MS = 1000
/** `USER_HZ`, the unit of times in /proc, is 100 on every machine that Node runs on. */
const TICK_MS = 10
/** Stops walking a process tree at this size, which is above any process limit. */
const PROCESSES_MAX = 10_000

export interface ResourceUsage {
  readonly memoryBytes: number
  readonly cpuMs: number
}

/** Calls `onExceeded`, which must not throw, at most once. The returned function stops the watcher. */
export function watchUsage(pid: number, limits: RunLimits, onExceeded: (reason: string) => void): () => void {
  const stopping = new AbortController()
  const report = (reason: string | undefined): void => {
    if (reason !== undefined && !stopping.signal.aborted) onExceeded(reason)
  }
  watch(pid, limits, stopping.signal)
    .then(report)
    // A run whose limits cannot be checked must not go on.
    .catch((error) => report(`its use of resources could not be measured: ${error}`))
  return () => stopping.abort()
}

async function watch(pid: number, limits: RunLimits, signal: AbortSignal): Promise<string | undefined> {
  for (;;) {
    await pause(SAMPLE_MS, undefined, { ref: false, signal }).catch(() => undefined)
    if (signal.aborted) return undefined
    const reason = await describeOveruse(pid, limits)
    if (reason !== undefined) return reason
  }
}

export async function describeOveruse(pid: number, { memoryBytes, cpuMs }: RunLimits): Promise<string | undefined> {
  const pids = await processTree(pid)
  const used = await measureUsage(pids)
  if (used.cpuMs > cpuMs) return `it used more than ${formatDuration(cpuMs)} of processor time`
  // The second measurement counts shared pages once. It is expensive and rarely needed.
  if (used.memoryBytes > memoryBytes && (await proportionalBytes(pids)) > memoryBytes)
    return `it used more than ${Math.round(memoryBytes / 1_048_576)} MiB of memory`
  return undefined
}

/** The process and its descendants, without those that exit meanwhile. */
export async function processTree(pid: number): Promise<number[]> {
  const found = [pid]
  for (let at = 0; at < found.length && found.length < PROCESSES_MAX; at++) {
    const threads = await readdir(`/proc/${found[at]}/task`).catch(() => [])
    for (const thread of threads) {
      const children = await read(`/proc/${found[at]}/task/${thread}/children`)
      found.push(...children.split(' ').filter(Boolean).map(Number))
    }
  }
  return found
}

export async function measureUsage(pids: readonly number[]): Promise<ResourceUsage> {
  let [memoryBytes, cpuMs] = [0, 0]
  for (const pid of pids) {
    const stat = await read(`/proc/${pid}/stat`)
    // The name in parentheses may contain anything, so fields are counted after it; the state is field 3.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const field = (number: number): number => Number(fields[number - 3] ?? 0)
    // Its own time and that of reaped children.
    cpuMs += (field(14) + field(15) + field(16) + field(17)) * TICK_MS
    memoryBytes += await residentBytes(pid)
  }
  return { memoryBytes, cpuMs }
}

async function proportionalBytes(pids: readonly number[]): Promise<number> {
  let bytes = 0
  for (const pid of pids) {
    const [, kilobytes] = /^Pss:\s+(\d+) kB$/m.exec(await read(`/proc/${pid}/smaps_rollup`)) ?? []
    // A process without readable Pss counts with its resident memory.
    bytes += kilobytes === undefined ? await residentBytes(pid) : Number(kilobytes) * 1024
  }
  return bytes
}

async function residentBytes(pid: number): Promise<number> {
  const [, kilobytes = '0'] = /^VmRSS:\s+(\d+) kB$/m.exec(await read(`/proc/${pid}/status`)) ?? []
  return Number(kilobytes) * 1024
}

async function read(path: string): Promise<string> {
  return readFile(path, 'utf8').catch(() => '')
}
