// Groups: one folder, one agent. Made and removed on the command line; over REST they are read.
import { z } from 'zod'
import { makerOf } from '../core/caller.ts'
import { Budget, budgetOf, DailyCap, spentToday } from '../core/costs.ts'
import { changeSetting, GROUP_KEYS, settingOf } from '../core/group-settings.ts'
import { Group, groups } from '../core/groups.ts'
import { addGroup, RoutableJid } from '../core/new-group.ts'
import { nameOf, parentOf } from '../core/tiers.ts'
import { Folder, prose } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { list, mustFind } from '../registry/crud.ts'
import { hostOnly, listed } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

export const groupsResource = resource({
  of: groups,
  title: 'Groups',
  servedBy: 'routd',
  exported: {
    fill: (ctx, row, current) => ({ ...row, added_at: row.added_at ?? current?.added_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: list(table, 'groups', {
      needs: listed,
      order: [['folder', 'asc']],
      folder: 'folder',
      when: 'See which groups there are within your reach.',
      reach: 'work',
      tool: 'refresh_groups',
      toolReply: ({ groups }) =>
        groups.map(({ folder, name }) => ({ folder, name, ...(parentOf(folder) ? { parent: parentOf(folder) } : {}) })),
    }),

    add: verb({
      input: z.object({
        folder: Folder,
        jid: RoutableJid.optional(),
        name: Group.shape.name.optional(),
        product: Group.shape.product.default('assistant'),
      }),
      output: z.object({ added: z.boolean(), routed: z.int() }),
      needs: hostOnly,
      run: async (ctx, { folder, name = nameOf(folder), ...rest }) => {
        const { added, routes } = await addGroup(ctx.tx, { folder, name, ...rest, by: makerOf(ctx.caller) }, ctx)
        return { added, routed: routes.length }
      },
    }),

    remove: verb({
      input: Group.pick({ folder: true }),
      needs: hostOnly,
      run: async (ctx, { folder }) => {
        if ((await table.remove(ctx.tx, { folder })) === 0) refuse('not_found', `there is no group ${folder}`)
      },
    }),

    show: verb({
      reads: true,
      input: Group.pick({ folder: true }),
      output: Group,
      needs: hostOnly,
      run: (ctx, { folder }) => mustFind(ctx, table, { folder }, `group ${folder}`),
    }),

    /** Sets one key of a group, or without `to` takes it away. */
    set: verb({
      input: z.object({ folder: Folder, key: z.enum(GROUP_KEYS), to: prose(10_000).optional() }),
      output: z.object({ before: z.string().optional(), after: z.string().optional() }),
      needs: hostOnly,
      run: async (ctx, { folder, key, to }) => {
        const group = await mustFind(ctx, table, { folder }, `group ${folder}`)
        const { patch, changed } = changeSetting(group, key, to === '' ? undefined : to)
        const [before, after] = [settingOf(group, key), settingOf(changed, key)]
        if (before !== after) await table.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
        return { before, after }
      },
      audited: (input, { before, after }) => (before === after ? undefined : input),
    }),

    set_budget: verb({
      input: z.object({ folder: Folder, daily: DailyCap }),
      needs: hostOnly,
      run: async (ctx, { folder, daily }) => {
        const patch = { cost_cap_cents_per_day: daily === 0 ? undefined : daily, updated_at: ctx.now }
        if ((await table.update(ctx.tx, { folder }, patch)) === 0) refuse('not_found', `there is no group ${folder}`)
      },
    }),

    budget: verb({
      reads: true,
      input: Group.pick({ folder: true }),
      output: Budget,
      needs: hostOnly,
      run: async (ctx, { folder }) => {
        const { cost_cap_cents_per_day: cap } = await mustFind(ctx, table, { folder }, `group ${folder}`)
        return budgetOf(await spentToday(ctx.tx, 'folder', folder, ctx.now), cap)
      },
    }),
  }),
})
