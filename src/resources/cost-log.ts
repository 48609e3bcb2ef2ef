// Reports on the costs of turns. Only for the command line and the dashboard.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { costLog } from '../core/turns/costs.ts'
import {
  listNearBudgets,
  listPersonCosts,
  NearBudget,
  SPEND_GROUPS,
  Spend,
  type SpendScope,
  sumSpend,
} from '../core/turns/spend.ts'
import { Folder, pageLimit } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { listOwnFolders, mayReadReport } from '../permissions/own-folders.ts'
import { operatorWho } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const DAY_MS = 24 * 3_600_000
const DAYS_MAX = 366

export const costLogResource = defineResource({
  of: costLog,
  title: 'CostLog',
  servedBy: [],
  verbs: () => ({
    /** Without a folder: of the folders that the person administers, and what the person caused elsewhere. */
    spend: defineVerb({
      isReadOnly: true,
      input: z.object({
        by: z.enum(SPEND_GROUPS),
        days: z.int().min(1).max(DAYS_MAX).default(30).describe('Number of days until today, in UTC'),
        folder: Folder.optional(),
        limit: pageLimit(100, 1000),
      }),
      output: z.object({ spend: z.array(Spend), since: z.string() }),
      authorize: operatorWho(mayReadReport),
      run: async (ctx, { by, days, folder, limit }) => {
        const since = timestamp(ctx.clock.now() - (days - 1) * DAY_MS).slice(0, 10)
        const scope = folder === undefined ? await ownCosts(ctx) : { folders: [folder] }
        return { spend: await sumSpend(ctx.tx, { ...scope, by, since, limit }), since }
      },
    }),

    /** What the turns of the caller cost. */
    own: defineVerb({
      isReadOnly: true,
      input: z.object({
        days: z.int().min(1).max(DAYS_MAX).default(30).describe('Number of days until today, in UTC'),
      }),
      output: z.object({ days: z.array(z.object({ day: z.string(), cents: z.int() })), since: z.string() }),
      authorize: operatorWho(() => true),
      run: async (ctx, { days }) => {
        const since = timestamp(ctx.clock.now() - (days - 1) * DAY_MS).slice(0, 10)
        return { days: await listPersonCosts(ctx.tx, principalOf(ctx.caller), since), since }
      },
    }),

    /** Budgets of today that are nearly or completely spent. */
    near_cap: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ budgets: z.array(NearBudget) }),
      authorize: operatorWho(() => true),
      run: async (ctx) => ({ budgets: await listNearBudgets(ctx.tx, await ownCosts(ctx), ctx.now) }),
    }),
  }),
})

async function ownCosts(ctx: Context): Promise<SpendScope> {
  return { folders: await listOwnFolders(ctx), person: principalOf(ctx.caller) }
}
