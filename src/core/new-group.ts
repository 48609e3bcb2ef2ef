// A new group and all that comes with it: its membership, its default tasks and the routes of its chat.
import type { Clock } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { aclMembership } from './acl.ts'
import { addChatRoutes, planChatRoutes, type RoutePlan } from './chat-routes.ts'
import { defaultTasks } from './default-tasks.ts'
import { groups } from './groups.ts'
import { type FolderRows, rowsOf, storeReader } from './leftovers.ts'
import { admitGroup, MEMBER } from './membership.ts'
import { roomOf, routes } from './routes.ts'
import { nextRun } from './schedule.ts'
import { scheduledTasks } from './tasks.ts'
import { Jid } from './values.ts'

/** A chat that can be routed by its room. */
export const RoutableJid = Jid.refine((jid) => !/[\s*?[\\]/.test(roomOf(jid)), {
  error: 'must not hold blanks, "*", "?", "[" or "\\\\": its room becomes a route\'s glob',
})

export interface NewGroup {
  readonly folder: string
  readonly name: string
  readonly product: string
  /** The chat that leads to it. */
  readonly jid?: string | undefined
  /** In front of every route that leads this chat elsewhere. */
  readonly isFirst?: boolean | undefined
  /** Who made it. */
  readonly by: string
}

export interface Times {
  readonly now: string
  readonly clock: Clock
  readonly timeZone: string
}

export interface AddedGroup {
  readonly added: boolean
  /** The ids of what was not there before. */
  readonly routes: readonly number[]
  readonly tasks: readonly string[]
  /** How its chat was routed. */
  readonly routing?: RoutePlan | undefined
  /** What was left of an earlier group of this name, and is of this one now. */
  readonly inherited: readonly FolderRows[]
}

/** In one transaction, and repeating it changes nothing: what is there stays as it is. */
export async function addGroup(
  tx: Tx,
  { jid, isFirst, by, ...group }: NewGroup,
  { now, clock, timeZone }: Times,
): Promise<AddedGroup> {
  const { folder } = group
  const left = (await groups.find(tx, { folder })) ? NOTHING : await rowsOf(storeReader(tx), new Set([folder]))
  const added = await groups.insertIfMissing(tx, { ...group, open: true, added_at: now })
  if (added) await admitGroup(tx, folder, by, now)
  const addedTasks: string[] = []
  for (const task of defaultTasks(folder)) {
    const next_run = nextRun(task.cron, clock.now(), timeZone)
    const row = { ...task, next_run, status: 'active' as const, created_at: now }
    if (await scheduledTasks.insertIfMissing(tx, row)) addedTasks.push(task.id)
    // Of a folder that had a group before: they were set aside while nobody was there to run them.
    else if (added) await scheduledTasks.update(tx, { id: task.id }, { next_run, status: 'active' })
  }
  const routing = jid === undefined ? undefined : await planChatRoutes(tx, jid, folder, isFirst)
  const addedRoutes = jid === undefined || !routing ? [] : await addChatRoutes(tx, jid, routing)
  return { added, routes: addedRoutes, tasks: addedTasks, routing, inherited: left.stays }
}

const NOTHING = { stays: [] }

/** Takes back a group that could not be finished, with what came with it. */
export async function removeNewGroup(
  tx: Tx,
  folder: string,
  came: Pick<AddedGroup, 'routes' | 'tasks'>,
): Promise<void> {
  await groups.remove(tx, { folder })
  await aclMembership.remove(tx, { subject: `folder:${folder}`, role: MEMBER })
  for (const id of came.routes) await routes.remove(tx, { id })
  for (const id of came.tasks) await scheduledTasks.remove(tx, { id })
}
