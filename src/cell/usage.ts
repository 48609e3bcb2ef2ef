// Watches what all processes of a run use together, once a second while it runs, and says when it is too much.
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { formatDuration } from '../lib/duration.ts'
import type { RunLimits } from './limits.ts'

const SAMPLE_MS = 1000
/** `USER_HZ`, the unit of times in /proc, is 100 on every machine that Node runs on. */
const TICK_MS = 10
/** A tree this large is over any limit of processes; the walk ends there. */
const PROCESSES_MAX = 10_000

export interface Usage {
  readonly memoryBytes: number
  readonly cpuMs: number
}

/** Calls `over` once, with a sentence. The returned function ends the watch. */
export function watchUsage(pid: number, limits: RunLimits, over: (sentence: string) => void): () => void {
  const stopping = new AbortController()
  void watch(pid, limits, stopping.signal).then((sentence) => {
    if (sentence !== undefined && !stopping.signal.aborted) over(sentence)
  })
  return () => stopping.abort()
}

async function watch(pid: number, limits: RunLimits, signal: AbortSignal): Promise<string | undefined> {
  for (;;) {
    await pause(SAMPLE_MS, undefined, { ref: false, signal }).catch(() => undefined)
    if (signal.aborted) return undefined
    const fault = await usageFault(pid, limits)
    if (fault !== undefined) return fault
  }
}

export async function usageFault(pid: number, { memoryBytes, cpuMs }: RunLimits): Promise<string | undefined> {
  const pids = await treeOf(pid)
  const used = await usageOf(pids)
  if (used.cpuMs > cpuMs) return `it used more than ${formatDuration(cpuMs)} of processor time`
  // Pages that processes share count once in the second look, which costs more and is seldom needed.
  if (used.memoryBytes > memoryBytes && (await proportionalBytes(pids)) > memoryBytes)
    return `it used more than ${Math.round(memoryBytes / 1_048_576)} MiB of memory`
  return undefined
}

/** The process and all below it. One that ends meanwhile is left out. */
export async function treeOf(pid: number): Promise<number[]> {
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

export async function usageOf(pids: readonly number[]): Promise<Usage> {
  let [memoryBytes, cpuMs] = [0, 0]
  for (const pid of pids) {
    const stat = await read(`/proc/${pid}/stat`)
    // The name in parentheses may hold anything; the fields are counted from behind it, the state being the third of all.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const field = (number: number): number => Number(fields[number - 3] ?? 0)
    // Times of its own, and of children that have ended.
    cpuMs += (field(14) + field(15) + field(16) + field(17)) * TICK_MS
    memoryBytes += await residentBytes(pid)
  }
  return { memoryBytes, cpuMs }
}

async function proportionalBytes(pids: readonly number[]): Promise<number> {
  let bytes = 0
  for (const pid of pids) {
    const [, kilobytes] = /^Pss:\s+(\d+) kB$/m.exec(await read(`/proc/${pid}/smaps_rollup`)) ?? []
    // A process that hides its share counts with all that it has mapped.
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
