// Settings that an agent changes for its own group: whether siblings observe each other, and how many observed messages its
// prompts show.
import { z } from 'zod'
import { type Group, groups, OBSERVE_WINDOW_MAX } from '../core/groups/groups.ts'
import { refuse } from '../lib/refusal.ts'
import { actingFolder, requireToolOnOwnFolder } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { mustFindGroup } from '../registry/crud.ts'
import { defineTool } from '../registry/tool.ts'
import type { Patch } from '../store/table.ts'

const ok = z.literal(true)

/** The stored number, or -1 for the default. */
const window = (unit: string) =>
  z
    .int()
    .min(-1)
    .transform((value) => Math.min(value, OBSERVE_WINDOW_MAX))
    .optional()
    .describe(
      `Maximum number of ${unit}; 0 shows none, -1 resets to the default, more than ${OBSERVE_WINDOW_MAX} counts as ${OBSERVE_WINDOW_MAX}`,
    )

export const groupSettingsTools = [
  defineTool({
    name: 'set_group_open',
    tiers: { max: 1, granted: 1 },
    when: "Open or close your group to its siblings: two open siblings see each other's ambient messages as observed.",
    input: z.object({ open: z.boolean() }),
    output: z.object({ ok, open: z.boolean() }),
    authorize: requireToolOnOwnFolder,
    run: async (ctx, { open }) => {
      await updateGroup(ctx, { open })
      return { ok: true as const, open }
    },
  }),

  defineTool({
    name: 'set_observe_window',
    tiers: { granted: 1 },
    when: 'Set how many observed messages your prompts show. Returns the stored values; -1 means the default.',
    input: z.object({ messages: window('messages'), chars: window('characters') }),
    output: z.object({ ok, messages: z.int(), chars: z.int() }),
    authorize: requireToolOnOwnFolder,
    run: async (ctx, { messages, chars }) => {
      if (messages === undefined && chars === undefined)
        refuse('invalid', `${ctx.tool}: at least one of messages|chars required`)
      const { observe_window_messages = -1, observe_window_chars = -1 } = await updateGroup(ctx, {
        ...(messages === undefined ? {} : { observe_window_messages: toStored(messages) }),
        ...(chars === undefined ? {} : { observe_window_chars: toStored(chars) }),
      })
      return { ok: true as const, messages: observe_window_messages, chars: observe_window_chars }
    },
  }),
]

async function updateGroup(ctx: Context, patch: Patch<z.output<typeof Group>>) {
  const folder = await actingFolder(ctx)
  await groups.update(ctx.tx, { folder }, { ...patch, updated_at: ctx.now })
  return mustFindGroup(ctx, folder)
}

function toStored(value: number): number | undefined {
  return value < 0 ? undefined : value
}
