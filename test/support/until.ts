// Waits for what nothing announces, but not for ever.
import { setTimeout as pause } from 'node:timers/promises'

const LOOK_MS = 5
/** Shorter than the runner's, so that it is this that says what did not come; long, because a busy machine may need it. */
const PATIENCE_MS = 5 * 60_000

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`it did not come about in five minutes: ${condition}`)
    await pause(LOOK_MS)
  }
}
