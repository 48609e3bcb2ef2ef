// New groups, made by an agent below itself. The rows are one transaction; the folder on the disk is made after it, and when
// that fails the rows are taken back.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import { mayReachFolder, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import { countDescendants, Group, groups } from '../core/groups/groups.ts'
import { addGroup, RoutableJid, undoAddGroup } from '../core/groups/new-group.ts'
import { makeWorkspace } from '../core/groups/workspace-prototype.ts'
import { folderOfChat } from '../core/routing/chat-folder.ts'
import { planChatRoutes } from '../core/routing/chat-routes.ts'
import { Folder, folderFault } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustNotTakeOverChats } from '../permissions/route-access.ts'
import { actingFolder, allowAnyone, mustHaveTool } from '../registry/authorization.ts'
import { callVerb } from '../registry/call.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const PRODUCT = 'assistant'

const Register = z.object({
  jid: RoutableJid.describe('The chat that leads to the new group'),
  name: Group.shape.name.optional().describe('What people call it; the JID unless said'),
  fromPrototype: z.boolean().default(false).describe('Copies /home/node/prototype into the workspace of the new group'),
  folder: Folder.optional().describe('The new folder, directly below yours; may be left out with fromPrototype'),
  parent: Folder.optional().describe('The folder that the new one lies in; yours unless said'),
})
type Register = z.output<typeof Register>

const CreatedRows = z.object({ folder: Folder, routes: z.array(z.int()), tasks: z.array(z.string()) })

/** What is left of a registration whose folder could not be made. */
const undoRegistration = defineTool({
  name: 'register_group.undo',
  when: '',
  key: ['folder'],
  input: CreatedRows,
  authorize: allowAnyone,
  run: async (ctx, { folder, ...came }) => undoAddGroup(ctx.tx, folder, came),
})

export const registerGroupTools = [
  defineTool({
    name: 'register_group',
    tiers: { max: 1, granted: 1 },
    when: 'Make a new group below yours, with a folder and an agent of its own, for a chat.',
    key: ['folder'],
    input: Register,
    authorize: async (ctx, input) => {
      const [own, folder] = [await actingFolder(ctx), await newFolder(ctx, input)]
      mustLieRight(ctx, own, folder)
      await mustHaveTool(ctx, folder)
      await mustNotTakeOverChats(ctx, (await planChatRoutes(ctx.tx, input.jid, folder)).added)
      const owner = await folderOfChat(ctx.tx, input.jid, ctx.routes)
      if (owner !== undefined && !mayReachFolder(own, owner))
        refuse('forbidden', `${ctx.tool}: not permitted: the chat ${input.jid} belongs to a folder outside ${own}`)
    },
    run: async (ctx, input) => {
      const { jid, name = [...jid].slice(0, 128).join(''), fromPrototype } = input
      const [own, folder] = [await actingFolder(ctx), await newFolder(ctx, input)]
      await mustHaveRoom(ctx, folder)
      const { added, routes, tasks } = await addGroup(
        ctx.tx,
        { folder, name, product: PRODUCT, jid, by: creatorOf(ctx.caller) },
        ctx,
      )
      if (!added) refuse('conflict', `there is a group ${folder} already`)
      return { routes, tasks, folder, from: fromPrototype ? own : undefined }
    },
    finish: async (asking, { from, folder, routes, tasks }, { jid }) => {
      await makeFolder(asking, { folder, from }, { folder, routes, tasks })
      asking.host.signals.emit()
      return { registered: true, folder, jid }
    },
  }),
]

async function makeFolder(
  asking: RequestContext,
  { folder, from }: { folder: string; from: string | undefined },
  came: object,
): Promise<void> {
  try {
    const layout = asking.host.layout ?? refuse('unavailable', 'this process has no files: no folder can be made')
    await makeWorkspace(layout, { folder, product: PRODUCT, from })
  } catch (error) {
    // A turn that is over meanwhile must still be able to clean up.
    const { turn: _, ...whoever } = asking
    await callVerb(whoever, undoRegistration, came)
    throw error
  }
}

/** As it was said, or below the parent; without a name, by the chat: `telegram:group/42` is `telegram_group_42`. */
async function newFolder(ctx: Context, { jid, folder, parent, fromPrototype }: Register): Promise<string> {
  const above = parent ?? (await actingFolder(ctx))
  if (folder === undefined) {
    if (!fromPrototype) return refuse('invalid', 'folder required when fromPrototype is false')
    return valid(`${above}/${nameOfChat(jid)}`)
  }
  if (parent === undefined || parentFolderOf(folder) === parent) return folder
  if (!folder.includes('/')) return valid(`${parent}/${folder}`)
  return refuse('invalid', `folder must lie directly in parent, and ${folder} does not lie in ${parent}`)
}

function valid(folder: string): string {
  const fault = folderFault(folder)
  return fault === undefined ? folder : refuse('invalid', `the folder ${folder} ${fault}`, 'say another with folder')
}

function nameOfChat(jid: string): string {
  const name = jid.toLowerCase().replace(/[:/]/g, '_')
  return name.replace(/[^a-z0-9_-]/g, '').slice(0, 64)
}

function mustLieRight({ tool }: Context, own: string, folder: string): void {
  if (own === ROOT_FOLDER) {
    if (folder.includes('/')) return
    refuse('forbidden', `${tool}: not permitted: a top-level folder is made on the command line, with svc group add`)
  }
  if (parentFolderOf(folder) !== own)
    refuse('forbidden', `${tool}: not permitted: ${folder} does not lie directly in ${own}`)
}

/** The parent is there, and has room for one more. */
async function mustHaveRoom(ctx: Context, folder: string): Promise<void> {
  const parent = parentFolderOf(folder) ?? ROOT_FOLDER
  const group = (await groups.find(ctx.tx, { folder: parent })) ?? refuse('not_found', `there is no group ${parent}`)
  const config: Record<string, unknown> = JSON.parse(group.container_config ?? '{}')
  await mustHaveGroupsLeft(ctx, folder)
  const max = config.max_children
  if (max === undefined) return
  if (typeof max !== 'number' || !(max >= 0)) refuse('conflict', `max_children of ${parent} is not a number`)
  if (max === 0) refuse('conflict', 'spawning disabled (max_children=0)')
  const children = (await groups.list(ctx.tx)).filter((other) => parentFolderOf(other.folder) === parent)
  if (children.length >= max) refuse('conflict', `max_children limit reached (${max})`)
}

/** Counted below the top-level folder: children of children would get around a limit for each parent. */
async function mustHaveGroupsLeft({ tx, limits }: Context, folder: string): Promise<void> {
  const [top = ''] = folder.split('/')
  const max = limits.groupsPerFolder
  if (max === 0 || (await countDescendants(tx, top)) < max) return
  refuse(
    'conflict',
    `${top} has ${max} groups below it, which is the most that is allowed`,
    'an operator can remove some, or raise GROUPS_PER_FOLDER',
  )
}
