// Marks expired sessions, and removes rows of sign-in 30 days after their end, in small steps. Several processes may run it.
import { setTimeout as pause } from 'node:timers/promises'
import { believedTime } from '../../core/messages/retention-clock.ts'
import { removeEndedRows } from '../../core/people/ended-rows.ts'
import type { Log } from '../../lib/log/log.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { startPeriodicJob } from '../process/periodic-job.ts'

export interface SessionCleanupOptions {
  readonly host: Pick<InstanceHost, 'engine' | 'clock'>
  readonly log: Pick<Log, 'warn'>
  /** Rows per table and transaction. */
  readonly stepRows?: number
}

const STEP_ROWS = 200
/** Late enough not to slow down the start. */
const FIRST_MS = 60_000
const EVERY_MS = 600_000
/** Between two steps other writers take precedence. */
const PAUSE_MS = 20

export function startSessionCleanup(options: SessionCleanupOptions): () => Promise<void> {
  return startPeriodicJob({
    firstMs: FIRST_MS,
    everyMs: EVERY_MS,
    run: async (signal) => {
      const { engine, clock } = options.host
      await cleanSessions(options, signal, await engine.read((tx) => believedTime(tx, clock.now())))
    },
    onError: (error) => options.log.warn({ err: error }, 'cannot remove ended sessions'),
  })
}

/** Removes all that has ended at `nowMs`; stops between two steps when aborted. */
export async function cleanSessions(options: SessionCleanupOptions, signal: AbortSignal, nowMs: number): Promise<void> {
  const { host, stepRows = STEP_ROWS } = options
  const step = (): Promise<boolean> => host.engine.transaction((tx) => removeEndedRows(tx, nowMs, stepRows))
  while (!signal.aborted && (await step()))
    await pause(PAUSE_MS, undefined, { ref: false, signal }).catch(() => undefined)
}
