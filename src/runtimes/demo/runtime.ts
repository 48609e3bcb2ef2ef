// The runtime that needs nothing: a small agent in its own process, so that everything around an agent can be tried and
// tested.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Job, Runtime } from '../runtime.ts'
import type { Setup } from '../setup.ts'
import { WarmPool } from '../warm-pool.ts'
import type { Task } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openDemo({ cell, clock }: Setup): Promise<Runtime> {
  const pool = new WarmPool({ cell, clock, argv: [process.execPath, AGENT] })
  await pool.warm()
  return {
    name: 'demo',
    run: (job) => pool.run(job, taskOf(job, cell.seen(job), clock.now())),
    close: () => pool.close(),
  }
}

function taskOf(job: Job, { home, socket }: { home: string; socket: string }, now: number): Task {
  const { turnId, fence, folder, jid, sender, messages, said, moneyCents } = job
  const session = job.sessionId ?? `demo-${turnId}`
  return { turn: { id: turnId, fence }, socket, home, folder, jid, sender, session, messages, said, moneyCents, now }
}
