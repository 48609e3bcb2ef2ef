// The load generator and the origin servers. They are C programs, built on demand, because they must be much faster than the
// proxies.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { z } from 'zod'

const SOURCES = import.meta.dirname

const LoadReport = z.object({
  /** Completed tunnels or requests, and the connections that they used. */
  count: z.int(),
  connections: z.int(),
  bytes: z.int(),
  ms: z.number(),
  /** CPU time of the proxy with all its threads, and of the load generator. */
  proxyMs: z.number(),
  loadMs: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  maxMs: z.number(),
})
export type Load = z.infer<typeof LoadReport>

export type Mode = 'bulk' | 'tunnels' | 'paced' | 'idle' | 'http'
export type Options = Readonly<Record<string, number | string>>

/** Compiles a program of this directory and returns its path. */
export function build(program: 'load' | 'origin' | 'soak', directory: string): string {
  const file = join(directory, program)
  execFileSync('cc', ['-O2', '-o', file, join(SOURCES, `${program}.c`)], { stdio: ['ignore', 'ignore', 'inherit'] })
  return file
}

export interface Origin {
  readonly pid: number
  /** The ports of one kind, separated by commas. */
  ports(kind: string): string
  stop(): Promise<void>
}

/** `before` is the start of the command line, such as `taskset`. */
export async function openOrigin(program: string, before: readonly string[] = []): Promise<Origin> {
  const [command = program, ...args] = [...before, program]
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ports = new Map<string, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') break
    const [kind = '', ...numbers] = line.split(' ')
    ports.set(kind, numbers.join(','))
  }
  if (child.pid === undefined || ports.size === 0) throw new Error('the origin exited before it was ready')
  const stop = async (): Promise<void> => {
    const ended = child.exitCode === null ? once(child, 'exit') : undefined
    child.stdin.end()
    await ended
  }
  return { pid: child.pid, ports: (kind) => ports.get(kind) ?? '', stop }
}

/** Arguments of the load generator. */
export function argsOf(mode: Mode, options: Options): string[] {
  return [mode, ...Object.entries(options).map(([name, value]) => `${name}=${value}`)]
}

export async function runLoad(program: readonly string[], mode: Mode, options: Options): Promise<Load> {
  const [command = '', ...before] = program
  const { stdout } = await promisify(execFile)(command, [...before, ...argsOf(mode, options)])
  return readLoad(stdout)
}

/** Reads what the load generator prints. */
export function readLoad(output: string): Load {
  return LoadReport.parse(JSON.parse(output))
}

/** Keeps tunnels open while `work` runs. */
export async function holdTunnels<T>(program: readonly string[], options: Options, work: () => Promise<T>): Promise<T> {
  const [command = '', ...before] = program
  const child = spawn(command, [...before, ...argsOf('idle', options)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  for await (const line of createInterface({ input: child.stdout })) if (line === 'held') break
  if (child.exitCode !== null) throw new Error('the tunnels could not be opened')
  const result = await work()
  child.stdin.end()
  await ended
  return result
}

/** CPU time of a process with one thread. */
export function threadMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
}
