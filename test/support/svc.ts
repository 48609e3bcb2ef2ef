// Runs svc as a process, on an instance that is removed after the test.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { copyInstance } from './built-once.ts'
import { tempDir } from './temp.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

export interface SvcExit {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface ServedProcess {
  /** The printed URL of each daemon. */
  readonly urls: ReadonlyMap<string, string>
  readonly child: ChildProcess
  readonly ended: Promise<SvcExit>
  /** Sends SIGTERM and waits for the exit. */
  stop(): Promise<SvcExit>
}

export interface Instance {
  readonly root: string
  run(...args: string[]): Promise<SvcExit>
  /** Starts `svc serve` and waits until it is ready. It ends with the test at the latest. `stderr` is a file for its log. */
  serve(daemons?: readonly string[], env?: Record<string, string>, stderr?: number): Promise<ServedProcess>
}

/** Creates an instance `demo` whose daemons listen on free ports; all of its processes get these settings. `bin` is the program. */
export async function instance(
  t: TestContext,
  settings: Record<string, string> = {},
  bin: string = BIN,
): Promise<Instance> {
  const folder = tempDir(t)
  const start = (args: readonly string[], env: Record<string, string> = {}, stderr?: number): ChildProcess =>
    spawn(process.execPath, [bin, ...args], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: folder, ...settings, ...env },
      stdio: ['ignore', 'pipe', stderr ?? 'pipe'],
    })
  const run = (...args: string[]): Promise<SvcExit> => ended(start(args))
  const create = async (at: string): Promise<void> => {
    const made = await ended(start(['create', 'demo'], { SVC_DATA_DIR: at }))
    if (made.code !== 0) throw new Error(`svc create: ${made.stderr}`)
  }
  if (settings.DATABASE_URL) await create(folder)
  else await copyInstance([settings, bin], folder, create)
  const root = join(folder, 'svc_demo')
  const env = join(root, '.env')
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^WEB_LISTEN=.*$/m, 'WEB_LISTEN=127.0.0.1:0'))
  return {
    root,
    run,
    serve: async (daemons = [], env = {}, stderr) => {
      const child = start(['serve', 'demo', ...daemons], env, stderr)
      t.after(() => void child.kill('SIGKILL'))
      const end = ended(child)
      const urls = await readUrls(child)
      if (!urls) throw new Error(`svc serve: ${(await end).stderr}`)
      const stop = (): Promise<SvcExit> => {
        child.kill('SIGTERM')
        return end
      }
      return { urls, child, ended: end, stop }
    },
  }
}

async function ended(child: ChildProcess): Promise<SvcExit> {
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.on('data', (chunk) => {
      said[name] += chunk
    })
  }
  const [code] = await once(child, 'close')
  return { code: typeof code === 'number' ? code : null, ...said }
}

async function readUrls({ stdout }: ChildProcess): Promise<Map<string, string> | undefined> {
  if (!stdout) return undefined
  const urls = new Map<string, string>()
  for await (const line of createInterface({ input: stdout })) {
    if (line === 'ready') return urls
    const [name = '', url = ''] = line.split(' ')
    urls.set(name, url)
  }
  return undefined
}
