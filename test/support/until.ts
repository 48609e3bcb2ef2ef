// Waits for a condition, with a time limit.
import { setTimeout as pause } from 'node:timers/promises'

const LOOK_MS = 5
/** Shorter than the timeout of the runner, so that the error names the condition; long enough for a busy machine. */
const PATIENCE_MS = 5 * 60_000

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`it did not come about in five minutes: ${condition}`)
    await pause(LOOK_MS)
  }
}
