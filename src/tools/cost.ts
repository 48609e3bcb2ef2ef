// What a turn has spent outside of its runtime, counted against the folder's budget of the day.
import { z } from 'zod'
import { costLog } from '../core/turns/costs.ts'
import { line } from '../core/values.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import { defineTool } from '../registry/tool.ts'

const Tokens = z.int().min(0).default(0).describe('0 where it is not known')

const logExternalCost = defineTool({
  name: 'log_external_cost',
  reach: 'chat',
  tiers: { granted: 2 },
  when: 'Report what a call of another model has cost, so that it counts against the budget of the day.',
  input: z.object({
    provider: z.enum(['openai', 'codex', 'other']),
    model: line(128),
    cost_usd: z.number().min(0).max(1_000_000).describe('US dollars; rounded to cents, half a cent up'),
    input_tokens: Tokens,
    output_tokens: Tokens,
  }),
  key: ['model'],
  output: z.object({ ok: z.literal(true), cents: z.int() }),
  authorize: async (ctx) => mustHaveTool(ctx, await actingFolder(ctx)),
  run: async (ctx, { provider, model, cost_usd, input_tokens, output_tokens }) => {
    const turn = await ctx.turn()
    const cost_cents = centsOf(cost_usd)
    await costLog.insert(ctx.tx, {
      folder: await actingFolder(ctx),
      // Each call is a row of its own: two of the same model never become one.
      turn_id: `ext-${Buffer.from(ctx.random.bytes(16)).toString('hex')}`,
      model: `${provider}:${model}`,
      user_sub: turn?.user_sub,
      chat_jid: turn?.jid,
      input_tokens,
      output_tokens,
      cost_cents,
      recorded_at: ctx.now,
    })
    return { ok: true as const, cents: cost_cents }
  },
})

/** Half a cent counts as written: 1.005 is 100.49999… when it is multiplied, and yet 101 cents. */
function centsOf(usd: number): number {
  return Math.floor(Number((usd * 100).toFixed(6)) + 0.5)
}

export const costTools = [logExternalCost]
