// Messages that the router has not reached, and what it does with one that it cannot route.
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, integer, optional, query, text } from '../../store/statement.ts'
import { defaultReach, Reach } from '../access/reach.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { addSuspects, type Suspect } from '../processes/suspects.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { endMessages } from '../turns/turns.ts'
import { conversationOf } from './routing-decision.ts'

/** Sequence numbers that are routed in one transaction; some may belong to no message. */
export const ROUTING_BATCH = 500

/** The messages of the next batch. */
const UNROUTED = `select m.id, m.seq as position from routing r join filing f on f.id = 1
  join messages m on m.seq > r.last_seq and m.seq <= r.last_seq + ${ROUTING_BATCH} and m.seq <= f.last_seq
  where r.id = 1 and m.direction = 'in' and not exists (select 1 from inbox i where i.message_seq = m.seq)`

export async function listUnrouted(tx: Tx): Promise<Pick<Suspect, 'id' | 'position'>[]> {
  return query(tx, { id: text, position: integer }, `${UNROUTED} order by m.seq`)
}

export async function suspectUnrouted(tx: Tx): Promise<void> {
  await addSuspects(tx, 'routing', UNROUTED)
}

const HEAD = { seq: integer, jid: text, sender: text, topic: optional(text), reach: optional(text) }

/**
 * Ends a message that has not been routed. Its content is not read. A person who retries it hands it to its folder with the
 * reach of its chat, also if a known person sent it. Returns the keys to signal.
 */
export async function setMessageAside(
  tx: Tx,
  context: WriteContext,
  id: string,
  reason: string,
): Promise<readonly string[]> {
  await lockMessageOrder(tx, context.dialect)
  const [head] = await query(
    tx,
    HEAD,
    `select m.seq, m.jid, m.sender, m.topic, m.reach from messages m where m.id = $1 and m.direction = 'in'
       and not exists (select 1 from inbox i where i.message_seq = m.seq)`,
    [id],
  )
  if (!head) return []
  const { seq, jid, sender, topic: chatTopic } = head
  const reach = Reach.safeParse(head.reach).data ?? defaultReach(jid)
  const topic = conversationOf({ message: { jid, sender, reach } }, chatTopic)
  await execute(
    tx,
    `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, reason, updated_at, reach)
     select m.seq, m.id, m.jid, coalesce(e.as_folder, m.target_folder), $2, coalesce(m.topic, ''), m.sender, 'message', 'failed',
       $3, $4, $5
     from messages m left join envelopes e on e.message_seq = m.seq where m.seq = $1`,
    [seq, topic, reason, timestamp(context.clock.now()), reach],
  )
  return endMessages(tx, context, [id], { outcome: 'failed', reason })
}
