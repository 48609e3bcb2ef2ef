// Adds a message to a chat as if it had arrived there. The claimed sender is stored with the prefix `injected:`, so that it
// cannot be forged. See docs/decisions.md#injected-messages.
import { z } from 'zod'
import { isLinkChat } from '../core/delivery/channel.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { ChatName, line, multilineText } from '../core/values.ts'
import { mustHaveReaders, mustNotBeGuestTurn, mustReachChat } from '../permissions/chat-access.ts'
import { defineTool } from '../registry/tool.ts'

const SYSTEM = 'system'

const Injection = z.object({
  chatJid: ChatName.describe('The chat that gets the message'),
  content: multilineText(100_000).refine((value) => value.trim() !== '', 'must not be empty'),
  sender: line(240).default(SYSTEM).describe('The sender; anything but system is shown as injected:<sender>'),
  senderName: line(256).default(SYSTEM).describe('Display name of the sender'),
})

export const injectTools = [
  defineTool({
    name: 'inject_message',
    reach: 'work',
    tiers: { granted: 1 },
    when: 'Add a message to a chat as if it had arrived there, so that the folder of the chat handles it.',
    key: ['chatJid'],
    appendsMessages: true,
    input: Injection,
    output: z.object({ injected: z.literal(true), id: z.string() }),
    authorize: async (ctx, { chatJid }) => {
      await mustReachChat(ctx, chatJid)
      await mustHaveReaders(ctx, chatJid)
      await mustNotBeGuestTurn(ctx)
    },
    run: async (ctx, { chatJid: jid, content, sender, senderName }) => {
      const turn = await ctx.turn()
      // A link's chat or a bare folder has no route; its folder is known.
      const isOwned = isLinkChat(jid) || !jid.includes(':')
      const { id } = await recordInbound(ctx.tx, ctx, {
        jid,
        content,
        reach: ctx.reach,
        sender: sender === SYSTEM ? SYSTEM : `injected:${sender}`,
        target_folder: isOwned ? await findChatFolder(ctx.tx, jid, ctx.routes) : undefined,
        envelope: {
          verb: 'message',
          sender_name: senderName,
          // An agent must not reset the delegation depth by injecting a message to itself.
          depth: turn?.depth ?? 0,
          from_turn: turn?.id,
        },
      })
      return { injected: true as const, id }
    },
    finish: async ({ host }, reply, { chatJid }) => {
      host.signals.emit([chatJid])
      return reply
    },
  }),
]
