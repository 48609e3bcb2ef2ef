// Ends a row that cannot be handled: only a person retries it. Each function leaves rows that were handled meanwhile.
import type { Tx } from '../../store/engine.ts'
import { setDeliveryAside } from '../delivery/outbox.ts'
import { setMessageAside } from '../routing/unrouted-messages.ts'
import { setTaskAside } from '../schedule/task-firing.ts'
import type { WriteContext } from '../turns/rounds.ts'
import type { Suspect, SuspectWork } from './suspects.ts'

type SetAside = (tx: Tx, context: WriteContext, id: string, reason: string) => Promise<readonly string[] | undefined>

const SET_ASIDE: Readonly<Record<SuspectWork, SetAside>> = {
  routing: setMessageAside,
  task: async (...row) => setTaskAside(...row).then(() => undefined),
  delivery: async (...row) => setDeliveryAside(...row).then(() => undefined),
}

/** Returns the keys to signal within this process after the commit. */
export async function setAside(
  tx: Tx,
  context: WriteContext,
  { work, id }: Pick<Suspect, 'work' | 'id'>,
  reason: string,
): Promise<readonly string[]> {
  return (await SET_ASIDE[work](tx, context, id, reason)) ?? []
}
