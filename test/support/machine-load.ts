// How busy the machine is: times in tests are promises about a machine that has nothing else to do.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

/** How long an empty Node takes to start where nobody else is at work. */
const START_MS = 60

const LOOKS = 3

/** 1 on a machine that is idle; 3 where all takes three times as long. The worst of some looks: others come and go. */
export async function measureMachineLoad(): Promise<number> {
  let worst = 1
  for (let look = 0; look < LOOKS; look++) {
    const startedAt = performance.now()
    await once(spawn(process.execPath, ['--eval', ''], { stdio: 'ignore' }), 'exit')
    worst = Math.max(worst, (performance.now() - startedAt) / START_MS)
  }
  return worst
}
