// Runs egress-proxy as a process, with a directory that is removed after the test.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { type CleanupScope, tempDir } from './temp.ts'
import { until } from './until.ts'

export const EGRESS_PROXY = join(dirname(dirname(import.meta.dirname)), 'bin/egress-proxy.js')

export interface EgressExit {
  readonly code: number | null
  readonly signal: string | null
}

export interface EgressProcess {
  readonly child: ChildProcessWithoutNullStreams
  /** `host:port` by listener; the last one of several admin listeners. */
  readonly listeners: ReadonlyMap<string, string>
  readonly printed: readonly string[]
  /** The log so far. Fails if a line is not JSON. */
  logged(): Record<string, unknown>[]
  /** Waits for a line with this message. */
  untilLogged(msg: string): Promise<void>
  register(allowlist: readonly string[]): Promise<void>
  ended(): Promise<EgressExit>
}

export interface EgressWorkspace {
  readonly dir: string
  readonly env: NodeJS.ProcessEnv
  run(...args: string[]): { code: number | null; stdout: string; stderr: string }
  start(...args: string[]): ChildProcessWithoutNullStreams
  /** Starts `proxy serve` and waits until it is ready. By default without a transparent listener, on free loopback ports. */
  serve(...args: string[]): Promise<EgressProcess>
}

/** `inside` precedes the command, to run it in another network. */
export function openEgressWorkspace(
  t: CleanupScope,
  settings: Record<string, string> = {},
  inside: readonly string[] = [],
): EgressWorkspace {
  const dir = tempDir(t)
  const env = { PATH: process.env.PATH, HOME: dir, XDG_CACHE_HOME: join(dir, 'cache'), ...settings }
  const start = (...args: string[]): ChildProcessWithoutNullStreams => {
    const [program = '', ...words] = [...inside, process.execPath, EGRESS_PROXY, ...args]
    const child = spawn(program, words, { env, cwd: dir })
    t.after(() => void child.kill('SIGKILL'))
    return child
  }
  return {
    dir,
    env,
    run: (...args) => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [EGRESS_PROXY, ...args], { env, encoding: 'utf8' })
      return { code: status, stdout, stderr }
    },
    start,
    serve: (...args) => awaitEgressReady(start('proxy', 'serve', ...withDefaults(args))),
  }
}

function withDefaults(args: readonly string[]): string[] {
  const defaults = { '--listen': '127.0.0.1:0', '--admin': '127.0.0.1:0', '--transparent': '' }
  return [...Object.entries(defaults).flatMap(([flag, text]) => (args.includes(flag) ? [] : [flag, text])), ...args]
}

/** Waits for a process that prints its addresses and `ready`. */
export async function awaitEgressReady(child: ChildProcessWithoutNullStreams): Promise<EgressProcess> {
  let log = ''
  // Wait until its output is read, which is later than its exit.
  const closed = once(child, 'close')
  child.stderr.on('data', (chunk) => {
    log += chunk
  })
  const printed: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    printed.push(line)
    if (line === 'ready') break
  }
  // Keep reading, or the process would never be closed.
  child.stdout.resume()
  if (printed.at(-1) !== 'ready') throw new Error(`it ended before it was ready: ${log}`)
  const listeners = new Map(printed.slice(0, -1).map((line): [string, string] => [split(line, 0), split(line, 1)]))
  const logged = (): Record<string, unknown>[] =>
    log.split('\n').flatMap((line, at, all) => (at === all.length - 1 ? [] : [JSON.parse(line)]))
  return {
    child,
    listeners,
    printed,
    logged,
    untilLogged: (msg) => until(() => logged().some((line) => line.msg === msg)),
    register: async (allowlist) => {
      const body = JSON.stringify({ ip: '127.0.0.1', id: 'test', allowlist })
      const headers = { 'Content-Type': 'application/json' }
      const url = `http://${listeners.get('admin')}/v1/register`
      const answer = await fetch(url, { method: 'POST', headers, body })
      if (answer.status !== 200) throw new Error(await answer.text())
    },
    ended: async () => {
      await closed
      return { code: child.exitCode, signal: child.signalCode }
    },
  }
}

function split(line: string, at: number): string {
  return line.split(' ')[at] ?? ''
}
