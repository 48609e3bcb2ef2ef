// Corrects slots of recurring tasks that were computed while the clock was ahead: without this, such a task would not run
// until that time has come. See docs/decisions.md#scheduled-tasks.
import { type Clock, timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { correctedRun } from './schedule.ts'
import { scheduledTasks } from './tasks.ts'

/** For slots that another machine has computed. */
const CHECK_MS = 600_000

interface CorrectionHost {
  readonly engine: Engine
  readonly clock: Clock
  readonly timeZone: string
}

interface SlotAhead {
  readonly id: string
  readonly next_run: string
  /** The next run by the schedule. */
  readonly allowed: string
}

/** Reads all active recurring tasks, so it is not for every tick. */
export async function listSlotsAhead(tx: Tx, now: number, timeZone: string): Promise<SlotAhead[]> {
  const rows = await query(
    tx,
    { id: text, cron: text, next_run: text },
    `select id, cron, next_run from scheduled_tasks
     where status = 'active' and next_run > $1 and cron is not null order by next_run, id`,
    [timestamp(now)],
  )
  return rows.flatMap(({ id, cron, next_run }) => {
    const allowed = tryCorrect(cron, next_run, now, timeZone)
    return allowed === undefined ? [] : [{ id, next_run, allowed }]
  })
}

/** A task whose schedule can never fire is paused when it is due. */
function tryCorrect(cron: string, next_run: string, now: number, timeZone: string): string | undefined {
  try {
    return correctedRun(cron, next_run, now, timeZone)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}

export interface SlotCorrection {
  /** For computing next runs: what it returned is known to the next correction. */
  readonly clock: Clock
  /**
   * For every tick. Corrects slots at its first call, when the clock has been set back since the latest time that was used, and
   * every ten minutes. Returns the number of corrected tasks.
   */
  correct(): Promise<number>
}

export function createSlotCorrection({ engine, clock, timeZone }: CorrectionHost): SlotCorrection {
  let [latest, checkedAt] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  const noteNow = (): number => {
    const now = clock.now()
    latest = Math.max(latest, now)
    return now
  }
  const correct = async (): Promise<number> => {
    const now = clock.now()
    const isDue = now < latest || now - checkedAt >= CHECK_MS
    const ahead = isDue ? await engine.read((tx) => listSlotsAhead(tx, now, timeZone)) : []
    const corrected = ahead.length === 0 ? 0 : await engine.transaction((tx) => correctSlots(tx, ahead))
    // After the store was written: a failed check is repeated.
    latest = now
    if (isDue) checkedAt = now
    return corrected
  }
  return { clock: { now: noteNow }, correct }
}

/** Leaves tasks that were fired or changed meanwhile. */
async function correctSlots(tx: Tx, ahead: readonly SlotAhead[]): Promise<number> {
  let corrected = 0
  for (const { id, next_run, allowed } of ahead)
    corrected += await scheduledTasks.update(tx, { id, status: 'active', next_run }, { next_run: allowed })
  return corrected
}
