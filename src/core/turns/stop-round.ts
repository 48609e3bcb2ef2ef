// Stops the round of a link: the turn that would answer it, or its message that still waits.
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { type InboxRow, inbox } from '../messages/inbox.ts'
import { addWaiting } from './conversations.ts'
import { notifyStreams, type Round, type WriteContext } from './rounds.ts'
import { FAILURE_MESSAGES, STOPPED_REASON } from './turn-failures.ts'
import { endMessages, stopTurns } from './turns.ts'

/** Questions that one question is delegated through. */
const DELEGATIONS_MAX = 100

/** Call `lockMessageOrder` before reading the round. Returns the keys to signal. */
export async function stopRound(tx: Tx, context: WriteContext, { id, status, jid }: Round): Promise<string[]> {
  if (status !== 'pending') refuse('conflict', 'the answer has ended')
  const { id: question, state, turn_id, folder, topic } = await findOpenQuestion(tx, id)
  if (state === 'waiting' || state === 'onboarding') {
    const now = timestamp(context.clock.now())
    if (state === 'waiting' && folder !== undefined) await addWaiting(tx, { folder, topic, count: -1, now })
    const end = { outcome: 'failed', reason: STOPPED_REASON, publicReason: FAILURE_MESSAGES.stopped } as const
    return endMessages(tx, context, [question], end)
  }
  if (turn_id === undefined || (await stopTurns(tx, { id: turn_id })) === 0) refuse('conflict', 'the answer has ended')
  await notifyStreams(tx, context.dialect, id, jid)
  return []
}

/** The message itself, or the one that it was delegated as. */
async function findOpenQuestion(tx: Tx, id: string): Promise<InboxRow> {
  let row = await inbox.find(tx, { id })
  for (let count = 0; row?.state === 'delegated' && row.waits_for !== undefined && count < DELEGATIONS_MAX; count++)
    row = await inbox.find(tx, { id: row.waits_for })
  return row ?? refuse('unavailable', 'the message is not routed yet', 'try again in a second')
}
