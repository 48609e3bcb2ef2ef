// Tool calls held for approval by an operator. An approval is valid once, for the same folder, tool and arguments, and
// expires after a day.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { recordInbound } from '../messages/inbound.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { defaultReach, Reach } from './reach.ts'

export const PendingAction = z.object({
  id: z.string().describe('8 hex digits, for /approve and /reject'),
  folder: Folder.describe('Folder of the calling agent'),
  tool: z.string(),
  args_hash: z.string(),
  summary: z.string().describe('Arguments as JSON, redacted and truncated'),
  status: z.enum(['held', 'approved', 'rejected', 'released', 'expired']),
  jid: ChatName.optional().describe('Chat of the calling turn'),
  decided_by: z.string().optional(),
  held_at: Timestamp,
  updated_at: Timestamp,
  reach: Reach.optional().describe('Reach of the calling turn'),
})
type PendingAction = z.output<typeof PendingAction>

export const pendingActions = new Table({
  name: 'pending_actions',
  row: PendingAction,
  key: 'id',
  storage: [
    `create table pending_actions (
       id text primary key, folder text not null, tool text not null, args_hash text not null, summary text not null,
       status text not null, jid text, decided_by text, held_at text not null, updated_at text not null)`,
    `create index pending_actions_open on pending_actions (folder, tool, args_hash)
     where status in ('held', 'approved')`,
    'alter table pending_actions add column reach text',
    `create index pending_actions_held on pending_actions (held_at, id) where status = 'held'`,
    `create index pending_actions_decided on pending_actions (updated_at, id) where status <> 'held'`,
  ],
})

const APPROVAL_TTL_MS = 24 * 3_600_000

export type ToolCallKey = Pick<PendingAction, 'folder' | 'tool' | 'args_hash'>

export async function hasApproval(tx: Tx, call: ToolCallKey, now: number): Promise<boolean> {
  return (await findApproval(tx, call, now)) !== undefined
}

/** Returns false if there is no approval to use. */
export async function consumeApproval(tx: Tx, call: ToolCallKey, now: number): Promise<boolean> {
  const approval = await findApproval(tx, call, now)
  if (!approval) return false
  const patch = { status: 'released' as const, updated_at: timestamp(now) }
  return (await pendingActions.update(tx, { id: approval.id, status: 'approved' }, patch)) > 0
}

async function findApproval(tx: Tx, call: ToolCallKey, now: number): Promise<PendingAction | undefined> {
  const approved = await pendingActions.list(tx, { ...call, status: 'approved' })
  return approved.find(({ updated_at }) => !isExpired(updated_at, now))
}

/** Returns the existing id if the same call is already held. */
export async function holdForApproval(
  tx: Tx,
  { clock, random }: Pick<WriteContext, 'clock' | 'random'>,
  call: ToolCallKey & Pick<PendingAction, 'summary' | 'jid' | 'reach'>,
): Promise<{ id: string; isNew: boolean }> {
  const now = timestamp(clock.now())
  const { folder, tool, args_hash } = call
  const held = await pendingActions.list(tx, { folder, tool, args_hash, status: 'held' })
  const live = held.find(({ held_at }) => !isExpired(held_at, clock.now()))
  if (live) return { id: live.id, isNew: false }
  const id = Buffer.from(random.bytes(4)).toString('hex')
  await pendingActions.insert(tx, { ...call, id, status: 'held', held_at: now, updated_at: now })
  return { id, isNew: true }
}

const COLUMNS = pendingActions.columns.join(', ')
/** An agent that is held repeats its call, so there are few; this bounds a page of them. */
const HELD_MAX = 200

/** Oldest first. */
export async function listHeldCalls(tx: Tx, now: number): Promise<PendingAction[]> {
  const sql = `select ${COLUMNS} from pending_actions where status = 'held' and held_at > $1
    order by held_at, id limit ${HELD_MAX}`
  return query(tx, pendingActions.decode, sql, [timestamp(now - APPROVAL_TTL_MS)])
}

/** Calls that were approved or rejected, or whose approval was used or expired; newest first. */
export async function listDecidedCalls(tx: Tx, limit: number): Promise<PendingAction[]> {
  const sql = `select ${COLUMNS} from pending_actions where status <> 'held' order by updated_at desc, id desc limit $1`
  return query(tx, pendingActions.decode, sql, [limit])
}

/** Approves or rejects a held call and notifies its agent. Returns undefined if no call with this id is held. */
export async function decideHeldCall(
  tx: Tx,
  context: WriteContext,
  { id, by, isApproved }: { readonly id: string; readonly by: string; readonly isApproved: boolean },
): Promise<PendingAction | undefined> {
  const action = await pendingActions.find(tx, { id, status: 'held' })
  if (!action) return undefined
  const now = context.clock.now()
  const hasExpired = isExpired(action.held_at, now)
  const status = hasExpired ? 'expired' : isApproved ? 'approved' : 'rejected'
  await pendingActions.update(tx, { id }, { status, decided_by: by, updated_at: timestamp(now) })
  if (hasExpired) return undefined
  const { folder, tool, jid = folder, reach = defaultReach(jid) } = action
  const notice = isApproved
    ? `The held call of ${tool} (${id}) was approved. Repeat it with the same arguments: the approval is valid once.`
    : `The held call of ${tool} (${id}) was rejected. Do not repeat it.`
  await recordInbound(tx, context, {
    ...{ jid, target_folder: folder, sender: 'system', content: notice, reach },
    envelope: { verb: 'message', sender_name: 'system', as_folder: folder },
  })
  return { ...action, status }
}

function isExpired(since: string, now: number): boolean {
  return Date.parse(since) + APPROVAL_TTL_MS <= now
}
