// People with a daily spending cap. Only for the command line and the dashboard.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { ACCOUNT_NAMESPACES, isAccount } from '../core/access/namespaces.ts'
import { budgetOf, DailyBudget, DailyCap, sumSpentToday, User, users } from '../core/turns/costs.ts'
import { Sub } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { canOperate, INSTANCE_SCOPE, operatorWho, requireOperator } from '../registry/authorization.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

export const usersResource = defineResource({
  of: users,
  title: 'Users',
  servedBy: [],
  verbs: (table) => ({
    set_budget: defineVerb({
      input: z.object({ sub: Sub, daily: DailyCap }),
      authorize: requireOperator,
      run: async (ctx, { sub, daily }) => {
        if (daily > 0 && !isAccount(sub))
          refuse(
            'invalid',
            `a cap for ${sub} would have no effect: only people with an account (${ACCOUNT_NAMESPACES.join(', ')}) have a budget of their own`,
            'cap the folder instead: svc budget <instance> set folder <folder> --daily <cents>',
          )
        await table.insertIfMissing(ctx.tx, { sub })
        await table.update(ctx.tx, { sub }, { cost_cap_cents_per_day: daily === 0 ? undefined : daily })
      },
    }),

    budget: defineVerb({
      isReadOnly: true,
      input: User.pick({ sub: true }),
      output: DailyBudget,
      authorize: operatorWho(
        async (ctx, { sub }) => principalOf(ctx.caller) === sub || canOperate(ctx, INSTANCE_SCOPE),
      ),
      run: async (ctx, { sub }) => {
        const cap = (await table.find(ctx.tx, { sub }))?.cost_cap_cents_per_day
        return budgetOf(await sumSpentToday(ctx.tx, 'user_sub', sub, ctx.now), cap)
      },
    }),
  }),
})
