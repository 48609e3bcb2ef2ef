// Groups: one folder, one agent. Made and removed on the command line; over REST they are read.
import { z } from 'zod'
import { makerOf } from '../core/caller.ts'
import { Budget, budgetOf, DailyCap, spentToday } from '../core/costs.ts'
import { defaultTasks } from '../core/default-tasks.ts'
import { Group, groups } from '../core/groups.ts'
import { admitGroup } from '../core/membership.ts'
import { roomOf, routes, routesFor } from '../core/routes.ts'
import { nextRun } from '../core/schedule.ts'
import { scheduledTasks } from '../core/tasks.ts'
import { nameOf, parentOf } from '../core/tiers.ts'
import { Folder, Jid } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'
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
      tool: 'refresh_groups',
      toolReply: ({ groups }) =>
        groups.map(({ folder, name }) => ({ folder, name, ...(parentOf(folder) ? { parent: parentOf(folder) } : {}) })),
    }),

    add: verb({
      input: z.object({
        folder: Folder,
        jid: Jid.refine((jid) => !/[\s*?[\\]/.test(roomOf(jid)), {
          error: 'must not hold blanks, "*", "?", "[" or "\\\\": its room becomes a route\'s glob',
        }).optional(),
        name: Group.shape.name.optional(),
        product: Group.shape.product.default('assistant'),
      }),
      output: z.object({ added: z.boolean(), routed: z.int() }),
      needs: hostOnly,
      run: addGroup,
    }),

    remove: verb({
      input: Group.pick({ folder: true }),
      needs: hostOnly,
      run: async (ctx, { folder }) => {
        if ((await table.remove(ctx.tx, { folder })) === 0) refuse('not_found', `there is no group ${folder}`)
      },
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

/** One transaction, and repeating it changes nothing: what is there stays as it is. */
async function addGroup(
  ctx: Context,
  input: { folder: string; jid?: string | undefined; name?: string | undefined; product: string },
) {
  const { folder, jid, product } = input
  const { tx, now, clock, timeZone } = ctx
  const group = { folder, name: input.name ?? nameOf(folder), product, open: true, added_at: now }
  const added = await groups.insertIfMissing(tx, group)
  if (added) await admitGroup(tx, folder, makerOf(ctx.caller), now)
  for (const task of defaultTasks(folder)) {
    const next_run = nextRun(task.cron, clock.now(), timeZone)
    await scheduledTasks.insertIfMissing(tx, { ...task, next_run, status: 'active', created_at: now })
  }
  let routed = 0
  for (const { seq, match, target } of jid === undefined ? [] : routesFor(jid, folder)) {
    if (await routes.find(tx, { seq, match, target })) continue
    await routes.add(tx, { seq, match, target })
    routed++
  }
  return { added, routed }
}
