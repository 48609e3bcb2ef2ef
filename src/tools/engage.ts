// Engagement: a folder takes over a conversation for a while, or releases it. Only the folder that owns it may. See
// docs/decisions.md#engage-and-disengage.
import { z } from 'zod'
import { mayReachFolder } from '../core/access/tiers.ts'
import { disengage, engage } from '../core/routing/engagements.ts'
import { checkedText, Jid, line } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { findConversationOwner, mustNotBeGuestTurn, mustReachChat } from '../permissions/chat-access.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const TopicName = line(128)

const Conversation = z.object({
  jid: Jid,
  topic: checkedText((value) => (value === '' ? undefined : TopicName.safeParse(value).error?.issues[0]?.message))
    .default('')
    .describe('Topic of the chat; default: the main topic'),
})
type Conversation = z.output<typeof Conversation>

const Ok = z.object({ ok: z.literal(true) })

export const engageTools = [
  defineTool({
    name: 'engage',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Take over a conversation for a while: you get its next messages even without a mention or a route.',
    key: ['jid', 'topic'],
    input: Conversation,
    output: Ok,
    authorize: mustOwn,
    run: async (ctx, { jid, topic }) => {
      const { engagementMs } = ctx.rules
      if (engagementMs <= 0) refuse('unavailable', 'engage not configured: ENGAGEMENT_TTL is 0')
      await engage(ctx.tx, { jid, topic, folder: await actingFolder(ctx), until: ctx.clock.now() + engagementMs })
      return { ok: true as const }
    },
  }),

  defineTool({
    name: 'disengage',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Release a conversation: you get its messages again when you are mentioned.',
    key: ['jid', 'topic'],
    input: Conversation,
    output: Ok,
    authorize: mustOwn,
    run: async (ctx, { jid, topic }) => {
      await disengage(ctx.tx, jid, topic)
      return { ok: true as const }
    },
  }),
]

/** Applies to the root too: it may not take over a conversation of another folder. */
async function mustOwn(ctx: Context, { jid, topic }: Conversation): Promise<void> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return mustReachChat(ctx, jid)
  const { folder } = caller
  await mustHaveTool(ctx, folder)
  await mustNotBeGuestTurn(ctx)
  const { isOwn, engaged, owner } = await findConversationOwner(ctx, { jid, topic, folder })
  if (isOwn) return
  if (owner === undefined) return refuse('forbidden', `${ctx.tool}: the chat ${jid} has no route in this instance`)
  if (engaged === undefined && !mayReachFolder(folder, owner))
    refuse('forbidden', `${ctx.tool}: the chat ${jid} belongs to a folder outside ${folder}`)
  // The owner's name is shown only to folders that may reach it.
  const ownerText = mayReachFolder(folder, owner) ? `"${owner}"` : 'another folder'
  refuse('forbidden', `engagement: "${jid}" owned by ${ownerText}, not caller "${folder}"`)
}
