// Adds a group together with its role, its default tasks and the routes of its chat.
import type { Clock } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { aclMembership } from '../access/acl.ts'
import { folderBaseName, parentFolderOf } from '../access/tiers.ts'
import { grantMemberRole, MEMBER_ROLE } from '../people/role-membership.ts'
import { addChatRoutes, planChatRoutes, type RoutePlan } from '../routing/chat-routes.ts'
import { routes } from '../routing/routes.ts'
import { defaultTasks } from '../schedule/default-tasks.ts'
import { nextRun } from '../schedule/schedule.ts'
import { scheduledTasks } from '../schedule/tasks.ts'
import { type FolderReferences, findReferencesOf } from './folder-references.ts'
import { launchConfig, workPaths } from './group-config.ts'
import { groups } from './groups.ts'

interface NewGroup {
  readonly folder: string
  readonly name: string
  readonly product: string
  /** The chat to route to it. */
  readonly jid?: string | undefined
  /** Put its routes before every other route that matches this chat. */
  readonly isFirst?: boolean | undefined
  /** Restrict its routes to the platform of the chat in any case. */
  readonly namesPlatform?: boolean | undefined
  /** Principal that creates it. */
  readonly by: string
}

export interface GroupCreationTime {
  readonly now: string
  readonly clock: Clock
  readonly timeZone: string
}

interface AddGroupResult {
  readonly added: boolean
  /** Ids of rows that did not exist before. */
  readonly routes: readonly number[]
  readonly tasks: readonly string[]
  readonly routing?: RoutePlan | undefined
  /** Rows of an earlier group of this folder, which now apply to this one. */
  readonly inherited: readonly FolderReferences[]
}

/** Idempotent: existing rows stay as they are. */
export async function addGroup(
  tx: Tx,
  { jid, isFirst, namesPlatform, by, ...group }: NewGroup,
  { now, clock, timeZone }: GroupCreationTime,
): Promise<AddGroupResult> {
  const { folder } = group
  const isNew = (await groups.find(tx, { folder })) === undefined
  if (isNew) await mustNotBeWorkPath(tx, folder)
  const inherited = isNew ? (await findReferencesOf(tx, folder)).stays : []
  const added = await groups.insertIfMissing(tx, { ...group, open: true, added_at: now })
  if (added) await grantMemberRole(tx, folder, by, now)
  const addedTasks: string[] = []
  for (const task of defaultTasks(folder)) {
    const next_run = nextRun(task.cron, clock.now(), timeZone)
    const row = { ...task, next_run, status: 'active' as const, created_at: now }
    if (await scheduledTasks.insertIfMissing(tx, row)) addedTasks.push(task.id)
    // An earlier group of this folder left the task, and it was paused while there was no group.
    else if (added) await scheduledTasks.update(tx, { id: task.id }, { next_run, status: 'active' })
  }
  const routing = jid === undefined ? undefined : await planChatRoutes(tx, jid, folder, { isFirst, namesPlatform })
  const addedRoutes = jid === undefined || !routing ? [] : await addChatRoutes(tx, jid, routing)
  return { added, routes: addedRoutes, tasks: addedTasks, routing, inherited }
}

/** What webhooks of the parent wrote there would decide how the new group's agent runs. */
async function mustNotBeWorkPath(tx: Tx, folder: string): Promise<void> {
  const parent = parentFolderOf(folder)
  const config = parent && (await groups.find(tx, { folder: parent }))?.config
  const name = folderBaseName(folder)
  if (parent !== undefined && workPaths(launchConfig(config || undefined, () => undefined)).includes(name))
    refuse(
      'conflict',
      `${name} is a directory of ${parent} that its webhooks may write (work_paths); choose another name`,
    )
}

/** Removes a group whose setup failed, with the rows that `addGroup` added. */
export async function undoAddGroup(
  tx: Tx,
  folder: string,
  added: Pick<AddGroupResult, 'routes' | 'tasks'>,
): Promise<void> {
  await groups.remove(tx, { folder })
  await aclMembership.remove(tx, { subject: `folder:${folder}`, role: MEMBER_ROLE })
  for (const id of added.routes) await routes.remove(tx, { id })
  for (const id of added.tasks) await scheduledTasks.remove(tx, { id })
}
