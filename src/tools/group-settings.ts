// What an agent sets of its own group: whether siblings overhear each other, and how much of it they are shown.
import { z } from 'zod'
import { type Group, groups, OBSERVE_WINDOW_MAX } from '../core/groups/groups.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import type { Patch } from '../store/table.ts'

const ok = z.literal(true)

/** As a caller writes it and as it is answered: the number that is stored, or -1 where none is. */
const window = (of: string) =>
  z
    .int()
    .min(-1)
    .transform((value) => Math.min(value, OBSERVE_WINDOW_MAX))
    .optional()
    .describe(
      `${of} at most; 0 shows none, -1 goes back to the default; more than ${OBSERVE_WINDOW_MAX} counts as that`,
    )

export const groupSettingsTools = [
  defineTool({
    name: 'set_group_open',
    tiers: { max: 1, granted: 1 },
    when: "Open or close your group to its siblings: when both are open, each sees the other's ambient messages as observed.",
    input: z.object({ open: z.boolean() }),
    output: z.object({ ok, open: z.boolean() }),
    authorize: ownGroup,
    run: async (ctx, { open }) => {
      await change(ctx, { open })
      return { ok: true as const, open }
    },
  }),

  defineTool({
    name: 'set_observe_window',
    tiers: { granted: 1 },
    when: 'Choose how many observed messages your prompts show. Answers with what is stored: -1 means the default.',
    input: z.object({ messages: window('Messages'), chars: window('Characters') }),
    output: z.object({ ok, messages: z.int(), chars: z.int() }),
    authorize: ownGroup,
    run: async (ctx, { messages, chars }) => {
      if (messages === undefined && chars === undefined)
        refuse('invalid', `${ctx.tool}: at least one of messages|chars required`)
      const { observe_window_messages = -1, observe_window_chars = -1 } = await change(ctx, {
        ...(messages === undefined ? {} : { observe_window_messages: stored(messages) }),
        ...(chars === undefined ? {} : { observe_window_chars: stored(chars) }),
      })
      return { ok: true as const, messages: observe_window_messages, chars: observe_window_chars }
    },
  }),
]

async function ownGroup(ctx: Context): Promise<void> {
  await mustHaveTool(ctx, await actingFolder(ctx))
}

async function change(ctx: Context, patch: Patch<z.output<typeof Group>>): Promise<z.output<typeof Group>> {
  const folder = await actingFolder(ctx)
  await groups.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
  return (await groups.find(ctx.tx, { folder })) ?? refuse('not_found', `there is no group ${folder}`)
}

function stored(value: number): number | undefined {
  return value < 0 ? undefined : value
}
