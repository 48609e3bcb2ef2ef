// Creates groups below the caller's folder. The rows are written in one transaction; if creating the folder on disk fails
// afterwards, they are removed again.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import { mayReachFolder, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import { countDescendants, Group, groups } from '../core/groups/groups.ts'
import { addGroup, undoAddGroup } from '../core/groups/new-group.ts'
import { makeWorkspace } from '../core/groups/workspace-prototype.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { planChatRoutes } from '../core/routing/chat-routes.ts'
import { RoutableJid } from '../core/routing/routes.ts'
import { Folder, folderFault } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustNotTakeOverChats } from '../permissions/route-access.ts'
import { actingFolder, allowAnyone, mustHaveTool } from '../registry/authorization.ts'
import { callVerb } from '../registry/call.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { mustFindGroup } from '../registry/crud.ts'
import { defineTool } from '../registry/tool.ts'

const PRODUCT = 'assistant'

const NewGroup = z.object({
  jid: RoutableJid.describe('The chat to route to the new group'),
  name: Group.shape.name.optional().describe('Display name; default: the JID'),
  fromPrototype: z.boolean().default(false).describe('Copy /home/node/prototype into the workspace of the new group'),
  folder: Folder.optional().describe('The new folder, directly below yours; optional with fromPrototype'),
  parent: Folder.optional().describe('Parent of the new folder; default: yours'),
})
type NewGroup = z.output<typeof NewGroup>

const CreatedRows = z.object({ folder: Folder, routes: z.array(z.int()), tasks: z.array(z.string()) })

const undoRegistration = defineTool({
  name: 'register_group.undo',
  when: '',
  key: ['folder'],
  input: CreatedRows,
  authorize: allowAnyone,
  run: async (ctx, { folder, ...rows }) => undoAddGroup(ctx.tx, folder, rows),
})

export const registerGroupTools = [
  defineTool({
    name: 'register_group',
    tiers: { max: 1, granted: 1 },
    when: 'Create a group below yours, with its own folder and agent, for a chat.',
    key: ['folder'],
    input: NewGroup,
    authorize: async (ctx, input) => {
      const [own, folder] = [await actingFolder(ctx), await newFolder(ctx, input)]
      mustBeOwnChild(ctx, own, folder)
      await mustHaveTool(ctx, folder)
      await mustNotTakeOverChats(ctx, (await planChatRoutes(ctx.tx, input.jid, folder)).added)
      const owner = await findChatFolder(ctx.tx, input.jid, ctx.routes)
      if (owner !== undefined && !mayReachFolder(own, owner))
        refuse('forbidden', `${ctx.tool}: not permitted: the chat ${input.jid} belongs to a folder outside ${own}`)
    },
    run: async (ctx, input) => {
      const { jid, name = [...jid].slice(0, 128).join(''), fromPrototype } = input
      const [own, folder] = [await actingFolder(ctx), await newFolder(ctx, input)]
      await mustBeWithinLimits(ctx, folder)
      const { added, routes, tasks } = await addGroup(
        ctx.tx,
        { folder, name, product: PRODUCT, jid, by: creatorOf(ctx.caller) },
        ctx,
      )
      if (!added) refuse('conflict', `there is a group ${folder} already`)
      return { routes, tasks, folder, from: fromPrototype ? own : undefined }
    },
    finish: async (request, { from, folder, routes, tasks }, { jid }) => {
      await createFolder(request, { folder, from }, { folder, routes, tasks })
      request.host.signals.emit()
      return { registered: true, folder, jid }
    },
  }),
]

async function createFolder(
  request: RequestContext,
  { folder, from }: { folder: string; from: string | undefined },
  rows: object,
): Promise<void> {
  try {
    const layout = request.host.layout ?? refuse('unavailable', 'this process has no files and cannot create a folder')
    await makeWorkspace(layout, { folder, product: PRODUCT, from })
  } catch (error) {
    // Without the turn, which may have ended meanwhile.
    const { turn: _, ...cleanup } = request
    await callVerb(cleanup, undoRegistration, rows)
    throw error
  }
}

/** Without `folder`, the name comes from the chat: `telegram:group/42` gives `telegram_group_42`. */
async function newFolder(ctx: Context, { jid, folder, parent, fromPrototype }: NewGroup): Promise<string> {
  const above = parent ?? (await actingFolder(ctx))
  if (folder === undefined) {
    if (!fromPrototype) return refuse('invalid', 'folder required when fromPrototype is false')
    return checkFolder(`${above}/${folderNameOf(jid)}`)
  }
  if (parent === undefined || parentFolderOf(folder) === parent) return folder
  if (!folder.includes('/')) return checkFolder(`${parent}/${folder}`)
  return refuse('invalid', `folder must be directly below parent, and ${folder} is not directly below ${parent}`)
}

function checkFolder(folder: string): string {
  const fault = folderFault(folder)
  return fault === undefined ? folder : refuse('invalid', `the folder ${folder} ${fault}`, 'name another with folder')
}

function folderNameOf(jid: string): string {
  const name = jid.toLowerCase().replace(/[:/]/g, '_')
  return name.replace(/[^a-z0-9_-]/g, '').slice(0, 64)
}

function mustBeOwnChild({ tool }: Context, own: string, folder: string): void {
  if (own === ROOT_FOLDER) {
    if (folder.includes('/')) return
    refuse('forbidden', `${tool}: not permitted: create a top-level folder on the command line, with svc group add`)
  }
  if (parentFolderOf(folder) !== own)
    refuse('forbidden', `${tool}: not permitted: ${folder} is not directly below ${own}`)
}

/** The parent must exist and be below its limits. */
async function mustBeWithinLimits(ctx: Context, folder: string): Promise<void> {
  const parent = parentFolderOf(folder) ?? ROOT_FOLDER
  const group = await mustFindGroup(ctx, parent)
  const config: Record<string, unknown> = JSON.parse(group.container_config ?? '{}')
  await mustBeBelowGroupLimit(ctx, folder)
  const max = config.max_children
  if (max === undefined) return
  if (typeof max !== 'number' || !(max >= 0)) refuse('conflict', `max_children of ${parent} is not a number`)
  if (max === 0) refuse('conflict', 'spawning disabled (max_children=0)')
  const children = (await groups.list(ctx.tx)).filter((other) => parentFolderOf(other.folder) === parent)
  if (children.length >= max) refuse('conflict', `max_children limit reached (${max})`)
}

/** Counts all groups below the top-level folder, because nested groups would bypass a limit per parent. */
async function mustBeBelowGroupLimit({ tx, limits }: Context, folder: string): Promise<void> {
  const [top = ''] = folder.split('/')
  const max = limits.groupsPerFolder
  if (max === 0 || (await countDescendants(tx, top)) < max) return
  refuse(
    'conflict',
    `${top} has ${max} groups below it, which is the maximum`,
    'an operator can remove some, or raise GROUPS_PER_FOLDER',
  )
}
