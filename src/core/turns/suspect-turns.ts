// Turns whose process ended unexpectedly while it ran them: any of them may be the cause. Each runs once more, in a process of
// its own; if that ends too, the turn has failed. See docs/decisions.md#rows-that-end-their-process.
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'

/** The number of processes that a turn may end. */
export const CRASHES_MAX = 2

/** Makes the turns of an ended process due at once. Returns their number. */
export async function suspectTurnsOf(tx: Tx, processId: string): Promise<number> {
  return execute(
    tx,
    `update turns set leased_until = 0, crashes = coalesce(crashes, 0) + 1
     where state <> 'done' and state = 'running' and process = $1`,
    [processId],
  )
}
