// The runtime that needs nothing: a small agent in its own process, so that everything around an agent can be tried and
// tested. It runs no program and opens no file of a workspace, and so it needs no cell; started by root it becomes the
// agents' user before its first turn.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readEnvironment } from '../../lib/settings.ts'
import type { Job, Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { WarmPool } from '../warm-pool.ts'
import type { DemoTask } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openRuntime({ clock, user }: RuntimeContext): Promise<Runtime> {
  const argv = [process.execPath, AGENT, ...(user ? [String(user.uid)] : [])]
  // Without compiled code each process would load the compiler for TypeScript, which takes more memory than the agent.
  const cache = readEnvironment('NODE_COMPILE_CACHE')
  const pool = new WarmPool({ clock, argv, env: cache === undefined ? {} : { NODE_COMPILE_CACHE: cache } })
  await pool.warm()
  return { name: 'demo', run: (job) => pool.run(job, taskOf(job, clock.now())), close: () => pool.close() }
}

function taskOf(job: Job, now: number): DemoTask {
  const { turnId, fence, folder, socket, jid, sender, messages, sentCount, moneyCents } = job
  const session = job.sessionId ?? `demo-${turnId}`
  const script = job.readText('demo.script')
  return {
    turn: { id: turnId, fence },
    socket,
    script,
    folder,
    jid,
    sender,
    session,
    messages,
    sentCount,
    moneyCents,
    now,
  }
}
