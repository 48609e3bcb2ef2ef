// Runs egress-proxy as a process and observes it through the kernel; the number of its open files can be limited.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { EGRESS_PROXY } from './egress-process.ts'
import { tempDir } from './temp.ts'

export interface WatchedEgress {
  readonly pid: number
  /** Port of the forward listener. */
  readonly port: number
  /** The warnings in its log so far. */
  readonly warnings: readonly string[]
  register(ip: string, allowlist: readonly string[]): Promise<void>
  /** Sends SIGTERM, waits for the exit and returns the exit code. */
  stop(): Promise<number | null>
}

export interface WatchedOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Flags for its Node. */
  readonly flags?: readonly string[]
  /** The limit of open files; the maximum of the machine by default. */
  readonly files?: number
}

export async function startWatchedEgress(
  t: TestContext,
  { env = {}, flags = [], files }: WatchedOptions = {},
): Promise<WatchedEgress> {
  const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--transparent', '']
  const limit = `ulimit -n ${files ?? '"$(ulimit -H -n)"'}`
  const dir = tempDir(t)
  const child = spawn('sh', ['-c', `${limit} && exec "$@"`, 'sh', process.execPath, ...flags, EGRESS_PROXY, ...args], {
    env: { PATH: process.env.PATH, HOME: dir, EGRESS_STATE_PATH: join(dir, 'state.json'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const warnings: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (line.includes('"level":"warn"')) warnings.push(line)
  })
  const stop = async (): Promise<number | null> => {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGTERM')
    await ended
    return child.exitCode
  }
  t.after(stop)
  const bound = new Map<string, string>()
  for await (const line of createInterface({ input: child.stdout })) {
    if (line === 'ready') break
    const [what = '', where = ''] = line.split(' ')
    bound.set(what, where)
  }
  const [forward, admin] = [bound.get('forward'), bound.get('admin')]
  if (child.pid === undefined || !forward || !admin) throw new Error(`it did not start:\n${warnings.join('\n')}`)
  const register = async (ip: string, allowlist: readonly string[]): Promise<void> => {
    const headers = { 'Content-Type': 'application/json' }
    const body = JSON.stringify({ ip, id: `test-${ip}`, allowlist })
    const answer = await fetch(`http://${admin}/v1/register`, { method: 'POST', headers, body })
    if (!answer.ok) throw new Error(`register answered ${answer.status}: ${await answer.text()}`)
  }
  return { pid: child.pid, port: Number(forward.split(':').at(-1)), warnings, register, stop }
}

export function openFiles(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length
}

/** Its IPv4 connections, as listed by the kernel: addresses and state in hexadecimal. */
export function connectionsOf(pid: number): string[] {
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => linkOf(`/proc/${pid}/fd/${fd}`))
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state !== '0A' && links.includes(`socket:[${inode}]`))
    .map(([, local, remote, state]) => `${local} ${remote} ${state}`)
}

/** A descriptor may be closed between listing and reading. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

export function residentMib(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024
}
