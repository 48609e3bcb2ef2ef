// The load generator and the servers behind the proxies, built from the C beside this file when they are needed: what
// measures must be much quicker than what is measured.
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { z } from 'zod'

const SOURCES = import.meta.dirname

const Said = z.object({
  /** Tunnels or requests that were completed, and connections they took. */
  count: z.int(),
  connections: z.int(),
  bytes: z.int(),
  ms: z.number(),
  /** Milliseconds on a processor of the proxy with all its threads, and of the load generator. */
  proxyMs: z.number(),
  loadMs: z.number(),
  p50Ms: z.number(),
  p99Ms: z.number(),
  maxMs: z.number(),
})
export type Load = z.infer<typeof Said>

export type Mode = 'bulk' | 'tunnels' | 'paced' | 'idle' | 'http'
export type Options = Readonly<Record<string, number | string>>

/** One program of this folder, as a file that runs. */
export function build(program: 'load' | 'origin' | 'soak', folder: string): string {
  const file = join(folder, program)
  execFileSync('cc', ['-O2', '-o', file, join(SOURCES, `${program}.c`)], { stdio: ['ignore', 'ignore', 'inherit'] })
  return file
}

export interface Origin {
  readonly pid: number
  /** The ports of a kind, with commas between them. */
  ports(kind: string): string
  stop(): Promise<void>
}

/** `before` is what stands before the program on its command line. */
export async function openOrigin(program: string, before: readonly string[] = []): Promise<Origin> {
  const [command = program, ...args] = [...before, program]
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ports = new Map<string, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') break
    const [kind = '', ...numbers] = line.split(' ')
    ports.set(kind, numbers.join(','))
  }
  if (child.pid === undefined || ports.size === 0) throw new Error('the origin ended before it was ready')
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
  return Said.parse(JSON.parse(output))
}

/** Tunnels that stay open until the caller has looked. */
export async function holdTunnels<T>(program: readonly string[], options: Options, look: () => Promise<T>): Promise<T> {
  const [command = '', ...before] = program
  const child = spawn(command, [...before, ...argsOf('idle', options)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  for await (const line of createInterface({ input: child.stdout })) if (line === 'held') break
  if (child.exitCode !== null) throw new Error('the tunnels could not be opened')
  const seen = await look()
  child.stdin.end()
  await ended
  return seen
}

/** Milliseconds on a processor of a process with one thread. */
export function threadMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6
}
