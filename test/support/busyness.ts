// How busy the machine is: times in tests are promises about a machine that has nothing else to do.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** How long an empty Node takes to start where nobody else is at work. */
const START_MS = 60

/** 1 on a machine that is idle; 3 where all takes three times as long. */
export async function busyness(): Promise<number> {
  const startedAt = performance.now()
  await once(spawn(process.execPath, ['--eval', ''], { stdio: 'ignore' }), 'exit')
  return Math.max(1, (performance.now() - startedAt) / START_MS)
}
