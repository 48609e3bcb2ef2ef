// Calls of tools that wait for an operator: held, then approved or rejected. An approved one passes once, for the same
// folder, tool and arguments; whoever does not use it within a day must ask again.
import { z } from 'zod'
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { Table } from '../store/table.ts'
import { receive } from './inbound.ts'
import { defaultReach, Reach } from './reach.ts'
import type { Speaking } from './rounds.ts'
import { ChatName, Folder, Timestamp } from './values.ts'

export const PendingAction = z.object({
  id: z.string().describe('8 hex digits, for /approve and /reject'),
  folder: Folder.describe('Whose agent asks'),
  tool: z.string(),
  args_hash: z.string(),
  summary: z.string().describe('The arguments as JSON, without secrets, cut to a summary'),
  status: z.enum(['held', 'approved', 'rejected', 'released', 'expired']),
  jid: ChatName.optional().describe('The chat that the agent answered in when it asked'),
  decided_by: z.string().optional(),
  held_at: Timestamp,
  updated_at: Timestamp,
  reach: Reach.optional().describe('Of the turn that asked'),
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
  ],
})

const KEPT_MS = 24 * 3_600_000

export type AskedCall = Pick<PendingAction, 'folder' | 'tool' | 'args_hash'>

/** Whether an operator has approved such a call. */
export async function hasApproval(tx: Tx, asked: AskedCall, now: number): Promise<boolean> {
  return (await approvalOf(tx, asked, now)) !== undefined
}

/** Takes the approval: it is there once. */
export async function takeApproval(tx: Tx, asked: AskedCall, now: number): Promise<boolean> {
  const approval = await approvalOf(tx, asked, now)
  if (!approval) return false
  const patch = { status: 'released' as const, updated_at: timestamp(now) }
  return (await pendingActions.update(tx, { id: approval.id, status: 'approved' }, patch)) > 0
}

async function approvalOf(tx: Tx, asked: AskedCall, now: number): Promise<PendingAction | undefined> {
  const approved = await pendingActions.list(tx, { ...asked, status: 'approved' })
  return approved.find(({ updated_at }) => !isOver(updated_at, now))
}

/** Holds a call; the same one that is held already stays under its id. */
export async function hold(
  tx: Tx,
  { clock, random }: Pick<Speaking, 'clock' | 'random'>,
  asked: AskedCall & Pick<PendingAction, 'summary' | 'jid' | 'reach'>,
): Promise<{ id: string; isNew: boolean }> {
  const now = timestamp(clock.now())
  const { folder, tool, args_hash } = asked
  const known = await pendingActions.list(tx, { folder, tool, args_hash, status: 'held' })
  const live = known.find(({ held_at }) => !isOver(held_at, clock.now()))
  if (live) return { id: live.id, isNew: false }
  const id = Buffer.from(random.bytes(4)).toString('hex')
  await pendingActions.insert(tx, { ...asked, id, status: 'held', held_at: now, updated_at: now })
  return { id, isNew: true }
}

/** What waits to be decided, oldest first. */
export async function heldActions(tx: Tx, now: number): Promise<PendingAction[]> {
  const held = await pendingActions.list(tx, { status: 'held' }, [
    ['held_at', 'asc'],
    ['id', 'asc'],
  ])
  return held.filter(({ held_at }) => !isOver(held_at, now))
}

/** Decides a held call and tells its agent, who goes on from there. Nothing where none of this id is held. */
export async function decide(
  tx: Tx,
  speaking: Speaking,
  { id, by, isApproved }: { readonly id: string; readonly by: string; readonly isApproved: boolean },
): Promise<PendingAction | undefined> {
  const action = await pendingActions.find(tx, { id, status: 'held' })
  if (!action) return undefined
  const now = speaking.clock.now()
  const isLate = isOver(action.held_at, now)
  const status = isLate ? 'expired' : isApproved ? 'approved' : 'rejected'
  await pendingActions.update(tx, { id }, { status, decided_by: by, updated_at: timestamp(now) })
  if (isLate) return undefined
  const { folder, tool, jid = folder, reach = defaultReach(jid) } = action
  const told = isApproved
    ? `The call of ${tool} that was held (${id}) is approved. Make it again with the same arguments: it passes once.`
    : `The call of ${tool} that was held (${id}) was rejected. Do not make it again.`
  await receive(tx, speaking, {
    ...{ jid, target_folder: folder, sender: 'system', content: told, reach },
    envelope: { verb: 'message', sender_name: 'system', as_folder: folder },
  })
  return { ...action, status }
}

function isOver(since: string, now: number): boolean {
  return Date.parse(since) + KEPT_MS <= now
}
