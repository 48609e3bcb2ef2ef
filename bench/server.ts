// Runs a server as a child process and reads its resource usage from /proc.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const BARE = join(import.meta.dirname, 'bare-server.ts')
export const SVC = join(import.meta.dirname, '..', 'bin', 'svc.js')

/** Raises the limit of open files, as thousands of streams need. */
export const MANY_FILES = 'ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -H -n)"; exec "$@"'

/** Most files of /proc count processor time in hundredths of a second. */
const TICK_MICROS = 10_000

export interface Server {
  readonly pid: number
  readonly url: string
  /** Sends SIGTERM and waits until it exits. */
  stop(): Promise<void>
}

/** Starts a script that prints `<name> <url>` and then `ready`. Its log is discarded. */
export async function openServer(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Server> {
  const child = spawn('sh', ['-c', MANY_FILES, 'sh', process.execPath, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  // An interrupted benchmark must not leave a server running.
  const kill = (): void => void child.kill('SIGTERM')
  process.on('exit', kill)
  child.once('exit', () => process.off('exit', kill))
  const url = await urlOf(child, name)
  if (child.pid === undefined || url === undefined) throw new Error(`${args.join(' ')} ended before it was ready`)
  const stop = async (): Promise<void> => {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGTERM')
    await ended
  }
  return { pid: child.pid, url, stop }
}

/** With the path of a file, each POST is answered after two commits to it. */
export function openBareServer(store?: string): Promise<Server> {
  return openServer('bare', [BARE, ...(store === undefined ? [] : [store])])
}

async function urlOf({ stdout }: ChildProcess, name: string): Promise<string | undefined> {
  if (!stdout) return undefined
  let found: string | undefined
  for await (const line of createInterface({ input: stdout })) {
    if (line.startsWith(`${name} `)) found = line.slice(name.length + 1)
    if (line === 'ready') return found
  }
  return undefined
}

export interface Cpu {
  /** Processor time of the main thread since the start, in microseconds. */
  readonly main: number
  /** That of all threads. */
  readonly all: number
}

export function cpuOf({ pid }: Server): Cpu {
  const micros = (thread: string): number =>
    Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1000
  const all = readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + micros(thread), 0)
  return { main: micros(`${pid}`), all }
}

/** Processor time of ended children and their descendants, in microseconds. */
export function childrenMicros({ pid }: Server): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[13]) + Number(fields[14])) * TICK_MICROS
}

/** A process and its descendants. */
function treeOf(pid: number): number[] {
  const read = (thread: string): string => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
  const children = readdirSync(`/proc/${pid}/task`).flatMap((thread) => read(thread).split(' ').filter(Boolean))
  return [pid, ...children.flatMap((child) => treeOf(Number(child)))]
}

export interface TreeUse {
  /** Processor time in microseconds, including ended children. */
  readonly micros: number
  readonly residentKiB: number
  /** Bytes written to the disk. */
  readonly writtenBytes: number
}

/** Resources used by a server and its children. */
export function useOfTree({ pid }: Server): TreeUse {
  const uses = treeOf(pid).map((each) => {
    const server = { pid: each, url: '', stop: async () => {} }
    const written = /^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${each}/io`, 'utf8'))?.[1]
    return {
      micros: cpuOf(server).all + childrenMicros(server),
      residentKiB: residentKiB(server),
      writtenBytes: Number(written),
    }
  })
  const sum = (name: keyof TreeUse): number => uses.reduce((total, use) => total + use[name], 0)
  return { micros: sum('micros'), residentKiB: sum('residentKiB'), writtenBytes: sum('writtenBytes') }
}

/** Processor time in microseconds of the whole machine, and of this process with its ended children. */
export function busyMicros(): { readonly machine: number; readonly ours: number } {
  const ticks = (text: string, from: number, count: number): number[] =>
    text
      .split(/\s+/)
      .slice(from, from + count)
      .map(Number)
  const [user = 0, nice = 0, system = 0, , , irq = 0, soft = 0] = ticks(readFileSync('/proc/stat', 'utf8'), 1, 7)
  const own = ticks(readFileSync('/proc/self/stat', 'utf8').replace(/^.*\) /, ''), 11, 4)
  const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) * TICK_MICROS
  return { machine: sum([user, nice, system, irq, soft]), ours: sum(own) }
}

export function residentKiB({ pid }: Pick<Server, 'pid'>): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}
