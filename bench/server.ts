// Runs a server as a child process and reads its resource usage from /proc.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ROLE_VARIABLE } from '../src/supervisor/messages.ts'

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
export async function openServer(
  name: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  node = process.execPath,
): Promise<Server> {
  const child = spawn('sh', ['-c', MANY_FILES, 'sh', node, ...args], {
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

/** The children of a process. */
function childrenOf(pid: number): number[] {
  const read = (thread: string): string => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
  return readdirSync(`/proc/${pid}/task`).flatMap((thread) => read(thread).split(' ').filter(Boolean).map(Number))
}

/** What a process that `svc serve` has started does; undefined for every other process. */
function roleOf(pid: number): string | undefined {
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0')
  return environment.find((line) => line.startsWith(`${ROLE_VARIABLE}=`))?.slice(ROLE_VARIABLE.length + 1)
}

/** The process that serves requests: of `svc serve` its front, of other servers and earlier versions the only one. */
export function frontOf({ pid }: Pick<Server, 'pid'>): number {
  return childrenOf(pid).find((child) => roleOf(child) === 'front') ?? pid
}

/** The adapter of the only channel account that it connects. */
export function adapterOf(server: Pick<Server, 'pid'>): number {
  const front = frontOf(server)
  const found = childrenOf(front).find((child) =>
    readFileSync(`/proc/${child}/cmdline`, 'utf8').includes('channels/process/main'),
  )
  if (found === undefined) throw new Error('no adapter runs')
  return found
}

/** The server, without agents and helpers: of `svc serve` the parent, the front and the runner. */
function processesOf({ pid }: Pick<Server, 'pid'>): number[] {
  return [pid, ...childrenOf(pid).filter((child) => roleOf(child) !== undefined)]
}

/** A process and its descendants. */
function treeOf(pid: number): number[] {
  return [pid, ...childrenOf(pid).flatMap(treeOf)]
}

function threadMicros(pid: number, thread: number | string): number {
  return Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1000
}

/** Processor time of all threads of a process since its start, in microseconds. */
export function processMicros(pid: number): number {
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + threadMicros(pid, thread), 0)
}

export interface Cpu {
  /** Processor time of the main thread that serves requests since the start, in microseconds. */
  readonly main: number
  /** That of all threads of all processes of the server. */
  readonly all: number
}

export function cpuOf(server: Server): Cpu {
  const front = frontOf(server)
  return {
    main: threadMicros(front, front),
    all: processesOf(server).reduce((sum, pid) => sum + processMicros(pid), 0),
  }
}

/** Processor time of the ended children of a process and their descendants, in microseconds. */
function childrenMicros(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[13]) + Number(fields[14])) * TICK_MICROS
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
  const uses = treeOf(pid).map((each) => ({
    micros: processMicros(each) + childrenMicros(each),
    residentKiB: residentOf(each),
    writtenBytes: Number(/^write_bytes: (\d+)$/m.exec(readFileSync(`/proc/${each}/io`, 'utf8'))?.[1]),
  }))
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

/** Resident memory of the process that serves requests. */
export function residentKiB(server: Pick<Server, 'pid'>): number {
  return residentOf(frontOf(server))
}

function residentOf(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1])
}

/** Memory of a server and its children; a page that several processes share counts in parts. */
export function proportionalKiB({ pid }: Pick<Server, 'pid'>): number {
  const read = (each: number): string => readFileSync(`/proc/${each}/smaps_rollup`, 'utf8')
  return treeOf(pid).reduce((sum, each) => sum + Number(/^Pss:\s+(\d+) kB$/m.exec(read(each))?.[1]), 0)
}
