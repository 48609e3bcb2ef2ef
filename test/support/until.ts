// Waits for a condition, with a time limit.
import { setTimeout as pause } from 'node:timers/promises'

const LOOK_MS = 5
/** Looking takes at most a fifth of the time, so that it does not slow down what it waits for. */
const REST_FACTOR = 4
const LOOK_MAX_MS = 250
/** Shorter than the timeout of the runner, so that the error names the condition; long enough for a busy machine. */
const PATIENCE_MS = 5 * 60_000

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const started = performance.now()
  for (;;) {
    const looked = performance.now()
    if (await condition()) return
    const now = performance.now()
    if (now - started > PATIENCE_MS) throw new Error(`it did not come about in five minutes: ${condition}`)
    await pause(Math.min(LOOK_MAX_MS, Math.max(LOOK_MS, REST_FACTOR * (now - looked))))
  }
}
