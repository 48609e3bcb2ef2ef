// Measures how busy the machine is, because time limits in tests assume an idle one.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** Start time of an empty Node on an idle machine. */
const START_MS = 60

const LOOKS = 3

/** Returns 1 on an idle machine and 3 if everything takes three times as long. It is the maximum of some measurements. */
export async function measureMachineLoad(): Promise<number> {
  let worst = 1
  for (let look = 0; look < LOOKS; look++) {
    const startedAt = performance.now()
    await once(spawn(process.execPath, ['--eval', ''], { stdio: 'ignore' }), 'exit')
    worst = Math.max(worst, (performance.now() - startedAt) / START_MS)
  }
  return worst
}
