// Tool calls held for approval by an operator. An approval is valid once, for the same folder, tool and arguments, and
// expires after a day.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import type { WriteContext } from '../turns/rounds.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { Reach } from './reach.ts'

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
  prompt_seq: z.int().optional().describe('Number of the message that asks for the decision in a chat'),
})
export type PendingAction = z.output<typeof PendingAction>

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
    'alter table pending_actions add column prompt_seq bigint',
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

/** An agent that asks again and again must not fill the chat where decisions are asked for. */
const PROMPTS_MAX = 20

/** Returns the existing id if the same call is already held. `ask` asks a person for the decision, once. */
export async function holdForApproval(
  tx: Tx,
  { clock, random }: Pick<WriteContext, 'clock' | 'random'>,
  call: ToolCallKey & Pick<PendingAction, 'summary' | 'jid' | 'reach'>,
  ask?: (id: string) => Promise<{ readonly seq: number }>,
): Promise<{ id: string; isNew: boolean }> {
  const now = timestamp(clock.now())
  const { folder, tool, args_hash } = call
  const held = await pendingActions.list(tx, { folder, tool, args_hash, status: 'held' })
  const live = held.find(({ held_at }) => !isExpired(held_at, clock.now()))
  if (live) return { id: live.id, isNew: false }
  const id = Buffer.from(random.bytes(4)).toString('hex')
  const prompt_seq = ask && (await mayAsk(tx, clock.now())) ? (await ask(id)).seq : undefined
  await pendingActions.insert(tx, { ...call, id, status: 'held', held_at: now, updated_at: now, prompt_seq })
  return { id, isNew: true }
}

async function mayAsk(tx: Tx, now: number): Promise<boolean> {
  return (await listHeldCalls(tx, now)).filter(({ prompt_seq }) => prompt_seq !== undefined).length < PROMPTS_MAX
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

export function isExpired(since: string, now: number): boolean {
  return Date.parse(since) + APPROVAL_TTL_MS <= now
}
