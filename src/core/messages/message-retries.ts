// Retries of messages by people: hands a message that ended without an answer to its folder again, or a message that was
// not delivered to its channel. See docs/decisions.md#retries-by-people.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { OutboxPayload } from '../delivery/delivery.ts'
import { type OutboxRow, outbox } from '../delivery/outbox.ts'
import { groups } from '../groups/groups.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { addWaiting } from '../turns/conversations.ts'
import { notifyStreams, reopenRound, type WriteContext } from '../turns/rounds.ts'
import { resetFailures } from '../turns/turns.ts'
import { Timestamp } from '../values.ts'
import { envelopes } from './envelopes.ts'
import { type InboxRow, InboxState, inbox, turnIdFor } from './inbox.ts'
import { isDeleted } from './message-changes.ts'
import { messages } from './messages.ts'

/** How earlier attempts of a message ended. */
export const MessageRetry = z.object({
  message_seq: z.int(),
  number: z.int().describe('1 for the first retry'),
  state: InboxState.describe('State before the retry'),
  reason: z.string().optional().describe('Reason for that state'),
  turn_id: z.string().optional().describe('Turn of that attempt'),
  ended_at: Timestamp,
  retried_at: Timestamp,
  retried_by: z.string().describe('Principal that retried it'),
})
export type MessageRetry = z.output<typeof MessageRetry>

export const messageRetries = new Table({
  name: 'message_retries',
  row: MessageRetry,
  key: ['message_seq', 'number'],
  storage: [
    `create table message_retries (
       message_seq bigint not null, number integer not null, state text not null, reason text, turn_id text,
       ended_at text not null, retried_at text not null, retried_by text not null, primary key (message_seq, number))`,
  ],
})

/** Final states from which a message can be retried; the other final states are not failures. */
export const RETRYABLE_STATES: readonly string[] = ['failed', 'refused'] satisfies InboxState[]
/** `unknown`: it may have arrived, so a retry may deliver it twice. */
export const REDELIVERABLE_STATES: readonly string[] = ['failed', 'unknown'] satisfies OutboxRow['state'][]

export interface RetryContext extends Pick<WriteContext, 'dialect' | 'clock'> {
  readonly routes: () => Promise<RouteTable>
  /** Principal of the caller. */
  readonly actor: string
}

export interface StartedRetry {
  readonly id: string
  readonly jid: string
  readonly kind: 'message' | 'delivery'
  readonly folder: string | undefined
  /** The state now. */
  readonly state: 'waiting' | 'pending'
}

/** Retries a received or sent message. The caller holds `lockMessageOrder`, so two retries cannot both succeed. */
export async function retryMessage(tx: Tx, context: RetryContext, id: string): Promise<StartedRetry> {
  const received = await inbox.find(tx, { id })
  if (received) return retryReceived(tx, context, received)
  const sent = await outbox.find(tx, { id })
  if (sent) return retryDelivery(tx, context, sent)
  return refuse('not_found', `there is no routed message with id ${id}`)
}

async function retryReceived(tx: Tx, context: RetryContext, row: InboxRow): Promise<StartedRetry> {
  const { id, state, jid, topic, message_seq, turn_id, reason, updated_at } = row
  if (!RETRYABLE_STATES.includes(state))
    refuse('conflict', `message ${id} is ${state}`, 'only messages that are failed or refused can be retried')
  if (await isDeleted(tx, message_seq)) refuse('conflict', `message ${id} was deleted in its chat`)
  const folder = await findFolderToRetry(tx, context, row)
  const now = timestamp(context.clock.now())
  const number = (row.retries ?? 0) + 1
  await messageRetries.insert(tx, {
    ...{ message_seq, number, state, reason, turn_id },
    ...{ ended_at: updated_at, retried_at: now, retried_by: context.actor },
  })
  const patch = { state: 'waiting', folder, turn_id: undefined, reason: undefined, waits_for: undefined } as const
  await inbox.update(tx, { message_seq }, { ...patch, retries: number, updated_at: now })
  await reopenRound(tx, { id, framesOf: turn_id, keptAs: turnIdFor({ id, retries: number }) })
  await addWaiting(tx, { folder, topic, count: 1, now })
  // A person retries because the cause is gone, so the pause after failures is not waited for.
  await resetFailures(tx, folder)
  await notifyStreams(tx, context.dialect, id, jid)
  return { id, jid, kind: 'message', folder, state: 'waiting' }
}

/** The folder of the message; if it had none or that one is gone, the folder that the message would reach now. */
async function findFolderToRetry(tx: Tx, context: RetryContext, row: InboxRow): Promise<string> {
  const { message_seq, jid, sender, verb, id } = row
  const exists = async (folder: string | undefined): Promise<boolean> =>
    folder !== undefined && (await groups.find(tx, { folder })) !== undefined
  if (row.folder !== undefined && (await exists(row.folder))) return row.folder
  const [message, envelope] = [
    await messages.find(tx, { seq: message_seq }),
    await envelopes.find(tx, { message_seq }),
  ] as const
  const target = (await context.routes()).match({ jid, sender, verb })?.target
  const named = row.folder ?? envelope?.as_folder ?? message?.target_folder
  const folder = named ?? (target?.kind === 'folder' ? target.name : undefined)
  if (folder !== undefined && (await exists(folder))) return folder
  return folder === undefined
    ? refuse('conflict', `no route leads message ${id} to a folder`, 'add a route for its chat, then retry')
    : refuse('conflict', `the folder ${folder} of message ${id} does not exist`, 'add the group, then retry')
}

async function retryDelivery(tx: Tx, context: RetryContext, row: OutboxRow): Promise<StartedRetry> {
  const { id, jid, state, message_seq, folder } = row
  if (!REDELIVERABLE_STATES.includes(state))
    refuse('conflict', `message ${id} is ${state}`, 'only messages whose delivery failed can be delivered again')
  const payload = OutboxPayload.safeParse(tryParseJson(row.payload)).data
  if (payload?.path !== undefined || (payload?.media?.length ?? 0) > 0)
    refuse('conflict', `the files of message ${id} are no longer stored`, 'ask the agent to send them again')
  const now = context.clock.now()
  await execute(
    tx,
    `update outbox set state = 'pending', next_at = $2, leased_until = 0, fence = fence + 1, updated_at = $3
     where message_seq = $1`,
    [message_seq, now, timestamp(now)],
  )
  await notifyStreams(tx, context.dialect, id, jid)
  return { id, jid, kind: 'delivery', folder, state: 'pending' }
}
