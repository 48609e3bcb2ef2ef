// Groups: one folder, one agent. Made and removed on the command line; over REST they are read.
import { z } from 'zod'
import { creatorOf } from '../core/access/caller.ts'
import { folderBaseName, parentFolderOf, ROOT_FOLDER } from '../core/access/tiers.ts'
import { findFolderReferences, purgeFolderReferences, storeReader } from '../core/groups/folder-references.ts'
import { changeSetting, GROUP_KEYS, settingOf } from '../core/groups/group-settings.ts'
import { Group, groups } from '../core/groups/groups.ts'
import { addGroup, RoutableJid } from '../core/groups/new-group.ts'
import { Route } from '../core/routing/routes.ts'
import { budgetOf, DailyBudget, DailyCap, sumSpentToday } from '../core/turns/costs.ts'
import { Folder, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { requireHost, requireToolForAgents } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { listVerb, mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const Rows = z.object({ folder: z.string(), kind: z.string(), names: z.array(z.string()).readonly() })

const AddedGroup = z.object({
  added: z.boolean(),
  routed: z.int(),
  match: z.string().optional().describe('Of the first route, where it names the platform too'),
  shared_with: z.string().optional().describe('A chat of another platform whose room has the same name'),
  in_front: z.array(Route).optional().describe('Routes that lead the chat elsewhere before the new one is asked'),
  overtaken: z.array(Route).optional().describe('Routes that led the chat elsewhere until now'),
  inherited: z.array(Rows).optional().describe('What an earlier group of this name has left'),
})

const Removal = z.object({ is_group: z.boolean(), ends: z.array(Rows), stays: z.array(Rows) })

export const groupsResource = defineResource({
  of: groups,
  title: 'Groups',
  servedBy: 'routd',
  exported: {
    checkWhole: (rows) =>
      rows.some(({ folder }) => folder === ROOT_FOLDER)
        ? undefined
        : `${ROOT_FOLDER} must be there: it cannot be removed`,
    fill: (ctx, row, current) => ({ ...row, added_at: row.added_at ?? current?.added_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: listVerb(table, 'groups', {
      authorize: requireToolForAgents,
      order: [['folder', 'asc']],
      folder: 'folder',
      when: 'See which groups there are within your reach.',
      reach: 'work',
      tool: 'refresh_groups',
      tiers: { max: 2, granted: 2 },
      toolReply: ({ groups }) =>
        groups.map(({ folder, name }) => ({
          folder,
          name,
          ...(parentFolderOf(folder) ? { parent: parentFolderOf(folder) } : {}),
        })),
    }),

    add: defineVerb({
      input: z.object({
        folder: Folder,
        jid: RoutableJid.optional(),
        name: Group.shape.name.optional(),
        product: Group.shape.product.default('assistant'),
        move: z.boolean().default(false).describe('In front of every route that leads the chat elsewhere'),
      }),
      output: AddedGroup,
      authorize: requireHost,
      run: async (ctx, { folder, name = folderBaseName(folder), move, ...rest }) => {
        const group = { folder, name, ...rest, isFirst: move, by: creatorOf(ctx.caller) }
        const { added, routing, inherited } = await addGroup(ctx.tx, group, ctx)
        return {
          added,
          routed: (routing?.added.length ?? 0) + (routing?.moved.length ?? 0),
          ...(routing?.sharedWith === undefined
            ? {}
            : { match: routing.added[0]?.match, shared_with: routing.sharedWith }),
          ...some('in_front', routing?.inFront ?? []),
          ...some('overtaken', routing?.overtaken ?? []),
          ...some('inherited', inherited),
        }
      },
    }),

    /** What `remove` would end and leave. */
    removal: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: Removal,
      authorize: requireHost,
      run: async (ctx, { folder }) => removalOf(ctx, folder),
    }),

    remove: defineVerb({
      input: Group.pick({ folder: true }).extend({
        purge: z.boolean().default(false).describe('Also removes the rows that would stay; never files'),
      }),
      output: Removal,
      authorize: requireHost,
      run: async (ctx, { folder, purge }) => {
        if (folder === ROOT_FOLDER)
          refuse('forbidden', `${ROOT_FOLDER} is the root of the instance and cannot be removed`)
        const removal = await removalOf(ctx, folder)
        const { is_group, stays } = removal
        if (!is_group && !(purge && stays.length > 0)) refuse('not_found', `there is no group ${folder}`)
        await table.remove(ctx.tx, { folder })
        if (purge) await purgeFolderReferences(ctx.tx, folder)
        return removal
      },
    }),

    show: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: Group,
      authorize: requireHost,
      run: (ctx, { folder }) => mustFindRow(ctx, table, { folder }, `group ${folder}`),
    }),

    /** Sets one key of a group, or without `to` takes it away. */
    set: defineVerb({
      input: z.object({ folder: Folder, key: z.enum(GROUP_KEYS), to: multilineText(10_000).optional() }),
      output: z.object({ before: z.string().optional(), after: z.string().optional() }),
      authorize: requireHost,
      run: async (ctx, { folder, key, to }) => {
        const group = await mustFindRow(ctx, table, { folder }, `group ${folder}`)
        const { patch, changed } = changeSetting(group, key, to === '' ? undefined : to)
        const [before, after] = [settingOf(group, key), settingOf(changed, key)]
        if (before !== after) await table.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
        return { before, after }
      },
      auditInput: (input, { before, after }) => (before === after ? undefined : input),
    }),

    set_budget: defineVerb({
      input: z.object({ folder: Folder, daily: DailyCap }),
      authorize: requireHost,
      run: async (ctx, { folder, daily }) => {
        const patch = { cost_cap_cents_per_day: daily === 0 ? undefined : daily, updated_at: ctx.now }
        if ((await table.update(ctx.tx, { folder }, patch)) === 0) refuse('not_found', `there is no group ${folder}`)
      },
    }),

    budget: defineVerb({
      isReadOnly: true,
      input: Group.pick({ folder: true }),
      output: DailyBudget,
      authorize: requireHost,
      run: async (ctx, { folder }) => {
        const { cost_cap_cents_per_day: cap } = await mustFindRow(ctx, table, { folder }, `group ${folder}`)
        return budgetOf(await sumSpentToday(ctx.tx, 'folder', folder, ctx.now), cap)
      },
    }),
  }),
})

async function removalOf({ tx }: Context, folder: string): Promise<z.output<typeof Removal>> {
  const is_group = (await groups.find(tx, { folder })) !== undefined
  return { is_group, ...(await findFolderReferences(storeReader(tx), new Set([folder]))) }
}

/** A member that is there only where it says something. */
function some<N extends string, T>(name: N, rows: readonly T[]): { [K in N]?: T[] } {
  // One member, whose name is a parameter.
  return (rows.length === 0 ? {} : { [name]: [...rows] }) as { [K in N]?: T[] }
}
