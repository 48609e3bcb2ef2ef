// Pauses between the steps of work in the background, so that the transactions of others take precedence.
import { setTimeout as pause } from 'node:timers/promises'

/** The pause after a step: a multiple of its duration, with a minimum. */
const FACTOR = 4
const MIN_MS = 20

/** `started` is of the monotonic clock. Ends early when aborted. */
export async function pauseAfterStep(started: number, signal?: AbortSignal): Promise<void> {
  const ms = Math.max(MIN_MS, FACTOR * (performance.now() - started))
  await pause(ms, undefined, { ref: false, ...(signal && { signal }) }).catch(() => undefined)
}
