// Costs that an agent reports itself, counted against the folder's daily budget.
import { z } from 'zod'
import { recordCost } from '../core/turns/costs.ts'
import { line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, requireToolOnOwnFolder } from '../registry/authorization.ts'
import { defineTool } from '../registry/tool.ts'

const Tokens = z.int().min(0).default(0).describe('0 if unknown')

const logExternalCost = defineTool({
  name: 'log_external_cost',
  reach: 'work',
  tiers: { granted: 2 },
  when: 'Report the cost of a call to another model, so that it counts against the daily budget.',
  input: z.object({
    provider: z.enum(['openai', 'codex', 'other']),
    model: line(128),
    cost_usd: z.number().min(0).max(1_000_000).describe('US dollars; rounded to cents, half a cent up'),
    input_tokens: Tokens,
    output_tokens: Tokens,
  }),
  key: ['model'],
  output: z.object({ ok: z.literal(true), cents: z.int() }),
  authorize: requireToolOnOwnFolder,
  run: async (ctx, { provider, model, cost_usd, input_tokens, output_tokens }) => {
    const { externalCostMaxUsd: max } = ctx.limits
    if (cost_usd > max)
      refuse(
        'invalid',
        `cost_usd must be at most ${max} dollars in one call, and is ${cost_usd}`,
        'the operator sets this limit with EXTERNAL_COST_MAX',
      )
    const turn = await ctx.turn()
    const cost_cents = centsOf(cost_usd)
    await recordCost(ctx.tx, ctx.metrics, {
      folder: await actingFolder(ctx),
      // Unique, because the key has to differ for two calls of one model.
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

/** Rounds the decimal value: 1.005 * 100 is 100.49999… as a float, but 101 cents. */
function centsOf(usd: number): number {
  return Math.floor(Number((usd * 100).toFixed(6)) + 0.5)
}

export const costTools = [logExternalCost]
