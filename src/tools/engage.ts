// Engagement: a folder takes a conversation for a while, or lets go of it. Only whoever owns it may.
import { z } from 'zod'
import { mayReachFolder } from '../core/access/tiers.ts'
import { folderOfChat } from '../core/routing/chat-folder.ts'
import { disengage, engage, engagedFolder } from '../core/routing/engagements.ts'
import { Jid, line, text } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustNotBeGuestTurn, mustReachChat } from '../permissions/chat-access.ts'
import { actingFolder, mustHaveTool } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'

const Named = line(128)

const Conversation = z.object({
  jid: Jid,
  topic: text((value) => (value === '' ? undefined : Named.safeParse(value).error?.issues[0]?.message))
    .default('')
    .describe('The topic of the chat; the main one unless said'),
})
type Conversation = z.output<typeof Conversation>

const Ok = z.object({ ok: z.literal(true) })

export const engageTools = [
  defineTool({
    name: 'engage',
    reach: 'work',
    tiers: { granted: 2 },
    when: 'Take a conversation: what is said there next reaches you even without a mention or a route, for a while.',
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
    when: 'Let go of a conversation: you hear of it again when you are mentioned.',
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

/** Only the folder that has the conversation may, the root included. */
async function mustOwn(ctx: Context, { jid, topic }: Conversation): Promise<void> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return mustReachChat(ctx, jid)
  const { folder } = caller
  await mustHaveTool(ctx, folder)
  await mustNotBeGuestTurn(ctx)
  const [engaged, home] = [
    await engagedFolder(ctx.tx, jid, topic, ctx.clock.now()),
    await folderOfChat(ctx.tx, jid, ctx.routes),
  ]
  // The folder that a chat leads to may take it back.
  if (engaged === folder || home === folder) return
  const owner = engaged ?? home
  // What no route leads to belongs to the folder that speaks there.
  if (owner === undefined) {
    if ((await ctx.turn())?.jid === jid) return
    return refuse('forbidden', `${ctx.tool}: the chat ${jid} has no route in this instance`)
  }
  if (engaged === undefined && !mayReachFolder(folder, owner))
    refuse('forbidden', `${ctx.tool}: the chat ${jid} belongs to a folder outside ${folder}`)
  // Whose it is, is told to those who reach that folder.
  const named = mayReachFolder(folder, owner) ? `"${owner}"` : 'another folder'
  refuse('forbidden', `engagement: "${jid}" owned by ${named}, not caller "${folder}"`)
}
