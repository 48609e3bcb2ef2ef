// A message put into a chat as if somebody had written it there. Nobody is taken in: who it claims to be stands behind
// `injected:` (decision A6).
import { z } from 'zod'
import { isLinkChat } from '../core/delivery/channel.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { folderOfChat } from '../core/routing/chat-folder.ts'
import { ChatName, line, multilineText } from '../core/values.ts'
import { mustNotBeGuestTurn, mustReachChat } from '../permissions/chat-access.ts'
import { defineTool } from '../registry/tool.ts'

const SYSTEM = 'system'

const Injection = z.object({
  chatJid: ChatName.describe('The chat that it is put into'),
  content: multilineText(100_000).refine((value) => value.trim() !== '', 'must not be empty'),
  sender: line(240).default(SYSTEM).describe('Who says it; any other than system is shown as injected:<sender>'),
  senderName: line(256).default(SYSTEM).describe('The name that is shown'),
})

export const injectTools = [
  defineTool({
    name: 'inject_message',
    reach: 'work',
    tiers: { granted: 1 },
    when: 'Put a message into a chat as if it had arrived there, so that whoever has the chat takes it up.',
    key: ['chatJid'],
    appendsMessages: true,
    input: Injection,
    output: z.object({ injected: z.literal(true), id: z.string() }),
    authorize: async (ctx, { chatJid }) => {
      await mustReachChat(ctx, chatJid)
      await mustNotBeGuestTurn(ctx)
    },
    run: async (ctx, { chatJid: jid, content, sender, senderName }) => {
      const turn = await ctx.turn()
      // A link's chat and a bare folder have no route: whose they are is known.
      const isOwned = isLinkChat(jid) || !jid.includes(':')
      const { id } = await recordInbound(ctx.tx, ctx, {
        jid,
        content,
        reach: ctx.reach,
        sender: sender === SYSTEM ? SYSTEM : `injected:${sender}`,
        target_folder: isOwned ? await folderOfChat(ctx.tx, jid, ctx.routes) : undefined,
        envelope: {
          verb: 'message',
          sender_name: senderName,
          // What was handed on stays handed on: a question to oneself must not start the count anew (decision A7).
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
