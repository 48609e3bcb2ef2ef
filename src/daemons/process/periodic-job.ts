// Runs a cleanup job after a delay and then periodically, until it is stopped.
import { setTimeout as pause } from 'node:timers/promises'

export interface PeriodicJobOptions {
  readonly firstMs: number
  readonly everyMs: number
  run(signal: AbortSignal): Promise<void>
  onError(error: unknown): void
}

/** Returns a function that stops the job and waits for it. */
export function startPeriodicJob(options: PeriodicJobOptions): () => Promise<void> {
  const stop = new AbortController()
  const running = loop(options, stop.signal)
  return async () => {
    stop.abort()
    await running
  }
}

async function loop({ firstMs, everyMs, run, onError }: PeriodicJobOptions, signal: AbortSignal): Promise<void> {
  for (let waitMs = firstMs; ; waitMs = everyMs) {
    await pause(waitMs, undefined, { ref: false, signal }).catch(() => undefined)
    if (signal.aborted) return
    try {
      await run(signal)
    } catch (error) {
      onError(error)
    }
  }
}
