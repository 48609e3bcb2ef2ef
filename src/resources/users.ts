// What the instance keeps of people beyond their rights: their daily cap. For the command line alone.
import { z } from 'zod'
import { Budget, budgetOf, DailyCap, spentToday, User, users } from '../core/costs.ts'
import { Sub } from '../core/values.ts'
import { hostOnly } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

export const usersResource = resource({
  of: users,
  title: 'Users',
  servedBy: [],
  verbs: (table) => ({
    set_budget: verb({
      input: z.object({ sub: Sub, daily: DailyCap }),
      needs: hostOnly,
      run: async (ctx, { sub, daily }) => {
        await table.insertIfMissing(ctx.tx, { sub })
        await table.update(ctx.tx, { sub }, { cost_cap_cents_per_day: daily === 0 ? undefined : daily })
      },
    }),

    budget: verb({
      reads: true,
      input: User.pick({ sub: true }),
      output: Budget,
      needs: hostOnly,
      run: async (ctx, { sub }) => {
        const cap = (await table.find(ctx.tx, { sub }))?.cost_cap_cents_per_day
        return budgetOf(await spentToday(ctx.tx, 'user_sub', sub, ctx.now), cap)
      },
    }),
  }),
})
