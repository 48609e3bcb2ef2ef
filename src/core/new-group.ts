// A new group and all that comes with it: its membership, its default tasks and the routes of its chat.
import type { Clock } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { aclMembership } from './acl.ts'
import { defaultTasks } from './default-tasks.ts'
import { groups } from './groups.ts'
import { admitGroup, MEMBER } from './membership.ts'
import { roomOf, routes, routesFor } from './routes.ts'
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
}

/** In one transaction, and repeating it changes nothing: what is there stays as it is. */
export async function addGroup(
  tx: Tx,
  { jid, by, ...group }: NewGroup,
  { now, clock, timeZone }: Times,
): Promise<AddedGroup> {
  const { folder } = group
  const added = await groups.insertIfMissing(tx, { ...group, open: true, added_at: now })
  if (added) await admitGroup(tx, folder, by, now)
  const [addedTasks, addedRoutes]: [string[], number[]] = [[], []]
  for (const task of defaultTasks(folder)) {
    const next_run = nextRun(task.cron, clock.now(), timeZone)
    const row = { ...task, next_run, status: 'active' as const, created_at: now }
    if (await scheduledTasks.insertIfMissing(tx, row)) addedTasks.push(task.id)
    // Of a folder that had a group before: they were set aside while nobody was there to run them.
    else if (added) await scheduledTasks.update(tx, { id: task.id }, { next_run, status: 'active' })
  }
  for (const route of jid === undefined ? [] : routesFor(jid, folder)) {
    if (!(await routes.find(tx, route))) addedRoutes.push((await routes.add(tx, route)).id)
  }
  return { added, routes: addedRoutes, tasks: addedTasks }
}

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
