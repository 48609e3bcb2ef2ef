// A small scripted agent for trials and tests. It needs no model. It starts no program and opens no file of a workspace, so
// it runs without a cell; started by root, it switches to the user of a folder's agents before its first turn.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readEnvironment } from '../../lib/environment.ts'
import { throwUncaught } from '../../lib/fault-boundary.ts'
import type { Job, Runtime } from '../runtime.ts'
import type { RuntimeContext } from '../runtime-context.ts'
import { WarmPool } from '../warm-pool.ts'
import type { DemoTask } from './task.ts'

const AGENT = fileURLToPath(new URL(`./agent${extname(import.meta.url)}`, import.meta.url))

export async function openRuntime({
  clock,
  user,
  onBackgroundError: onFault = throwUncaught,
}: RuntimeContext): Promise<Runtime> {
  const argv = [process.execPath, AGENT]
  // Without the compile cache each process would load the TypeScript compiler, which needs more memory than the agent.
  const cache = readEnvironment('NODE_COMPILE_CACHE')
  const env = cache === undefined ? {} : { NODE_COMPILE_CACHE: cache }
  const pool = new WarmPool({ clock, argv, user, env, onFault })
  await pool.warm()
  return { name: 'demo', run: (job) => pool.run(job, toTask(job, clock.now())), close: () => pool.close() }
}

function toTask(job: Job, now: number): DemoTask {
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
    // It would tell a visitor.
    moneyCents: job.chat ? undefined : moneyCents,
    now,
  }
}
