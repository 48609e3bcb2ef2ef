// The runtime that needs nothing: a small agent in its own process, so that everything around an agent can be tried and
// tested. It runs no program and opens no file of a workspace, and so it needs no cell; started by root it becomes the
// agents' user before its first turn.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Job, Runtime } from '../runtime.ts'
import type { Setup } from '../setup.ts'
import { WarmPool } from '../warm-pool.ts'
import type { Task } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openDemo({ clock, user }: Setup): Promise<Runtime> {
  const pool = new WarmPool({ clock, argv: [process.execPath, AGENT, ...(user ? [String(user.uid)] : [])] })
  await pool.warm()
  return { name: 'demo', run: (job) => pool.run(job, taskOf(job, clock.now())), close: () => pool.close() }
}

function taskOf(job: Job, now: number): Task {
  const { turnId, fence, folder, socket, jid, sender, messages, said, moneyCents } = job
  const session = job.sessionId ?? `demo-${turnId}`
  const script = job.readText('demo.script')
  return { turn: { id: turnId, fence }, socket, script, folder, jid, sender, session, messages, said, moneyCents, now }
}
