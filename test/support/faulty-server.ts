// Starts a faulty server that the durability tests must detect.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

const SERVER = join(import.meta.dirname, 'careless-server.ts')

export interface FaultyServer {
  readonly child: ChildProcess
  readonly url: string
}

export async function startFaultyServer(t: TestContext, ...args: string[]): Promise<FaultyServer> {
  const child = spawn(process.execPath, [SERVER, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => void child.kill('SIGKILL'))
  const [printed] = await once(child.stdout, 'data')
  return { child, url: String(printed).trim() }
}
