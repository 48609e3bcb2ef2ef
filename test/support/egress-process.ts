// The program egress-proxy as a process of its own, in a folder that lives as long as the test.
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
  /** By the name of the listener, as `host:port`; of several admin listeners the last. */
  readonly listeners: ReadonlyMap<string, string>
  readonly printed: readonly string[]
  /** What was logged so far. Fails where a line is no JSON. */
  logged(): Record<string, unknown>[]
  /** Until a line has this message. */
  untilLogged(msg: string): Promise<void>
  register(allowlist: readonly string[]): Promise<void>
  ended(): Promise<EgressExit>
}

export interface EgressWorkspace {
  readonly dir: string
  readonly env: NodeJS.ProcessEnv
  run(...args: string[]): { code: number | null; stdout: string; stderr: string }
  start(...args: string[]): ChildProcessWithoutNullStreams
  /** `proxy serve` until it is ready: forward and admin on free ports of loopback, no transparent listener, unless said. */
  serve(...args: string[]): Promise<EgressProcess>
}

/** `inside` goes before the command, for one that runs in another network. */
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

/** Of a process that says so as the program does. */
export async function awaitEgressReady(child: ChildProcessWithoutNullStreams): Promise<EgressProcess> {
  let log = ''
  // When all that it said has been heard, which is later than its end.
  const closed = once(child, 'close')
  child.stderr.on('data', (chunk) => {
    log += chunk
  })
  const printed: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    printed.push(line)
    if (line === 'ready') break
  }
  // Whatever comes behind it is read too, or the process would never count as closed.
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
