// Deliveries that a process may have been sending when it ended unexpectedly. They are sent one at a time.
import type { Tx } from '../../store/engine.ts'
import { execute, query } from '../../store/statement.ts'
import { addSuspects, type Suspect, suspects } from '../processes/suspects.ts'
import { DUE, dueValues, listDue } from './outbox.ts'

/** A process may have been claiming this many when it ended. */
const NEXT_MAX = 16

/** Makes the deliveries that have begun and those that are next suspects, and forgets suspects that have ended meanwhile. */
export async function suspectDeliveries(tx: Tx, now: number): Promise<void> {
  await execute(
    tx,
    `delete from suspects where work = 'delivery' and not exists
       (select 1 from outbox o where o.id = suspects.id and o.state in ('pending', 'sending'))`,
  )
  const ids = 'select o.id, o.message_seq as position'
  await addSuspects(
    tx,
    'delivery',
    `${ids} from outbox o where o.state in ('pending', 'sending') and o.state = 'sending'`,
  )
  const due = `${ids} ${DUE} order by o.message_seq limit ${NEXT_MAX}`
  await addSuspects(tx, 'delivery', due, dueValues(now))
}

const IS_UNNOTED = `exists (select 1 from suspects s where s.work = 'delivery' and s.id = o.id and s.process is null)`

/** Called often, so it only reads. */
export async function hasDueSuspect(tx: Tx, now: number): Promise<boolean> {
  const [waiting] = await query(
    tx,
    {},
    `select 1 as one from suspects where work = 'delivery' and process is null limit 1`,
  )
  return waiting !== undefined && (await listDue(tx, now, IS_UNNOTED, 1)).length > 0
}

/** Notes that this process sends the next suspect that is due. */
export async function noteDueSuspect(tx: Tx, now: number, process: string): Promise<Suspect | undefined> {
  const [due] = await listDue(tx, now, IS_UNNOTED, 1)
  if (!due) return undefined
  await suspects.update(tx, { work: 'delivery', id: due.id }, { process })
  return { work: 'delivery', id: due.id, position: due.message_seq }
}
