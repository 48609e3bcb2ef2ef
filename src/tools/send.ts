// Saying something in words.
import { z } from 'zod'
import { isLinkChat } from '../core/channel.ts'
import { chatOf } from '../core/chat-of-folder.ts'
import { lastReplyId } from '../core/engagement.ts'
import { locateIn, MessageId, refuseMissing } from '../core/message-ids.ts'
import { ChatName, Words } from '../core/values.ts'
import type { Context } from '../registry/context.ts'
import { say, sayOut, speaksIn, topicIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const send = hotTool({
  name: 'send',
  reach: 'chat',
  when: 'Say something in a chat as a message of its own, not as an answer. To answer somebody, use reply.',
  input: z.object({ chatJid: ChatName, text: Words }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  says: true,
  run: async (ctx, { chatJid, text }) =>
    say(ctx, { jid: await chatOf(ctx.tx, chatJid), content: text, isThreaded: false }),
  finish: async ({ host }, recorded) => {
    await sayOut(host, recorded)
  },
})

const reply = hotTool({
  name: 'reply',
  reach: 'chat',
  when: 'Answer in a chat: in its thread, to the message that you name or else to the last one.',
  input: z.object({
    chatJid: ChatName,
    text: Words,
    replyToId: MessageId.optional().describe('The message that you answer; the last one of the chat unless said'),
  }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  says: true,
  run: async (ctx, { chatJid, text, replyToId }) => {
    const jid = await chatOf(ctx.tx, chatJid)
    const replyTo = await answered(ctx, jid, replyToId)
    return say(ctx, { jid, content: text, isThreaded: true, payload: { replyTo } })
  },
  finish: async ({ host }, recorded) => {
    await sayOut(host, recorded)
  },
})

/** What the platform calls the message that is answered; nothing where it has no name for it. */
async function answered(ctx: Context, jid: string, replyToId: string | undefined): Promise<string | undefined> {
  const { tx } = ctx
  if (replyToId === undefined && isLinkChat(jid)) return undefined
  const id = replyToId ?? (await lastReplyId(tx, jid, topicIn(await ctx.turn(), jid)))
  if (id === undefined) return undefined
  const found = await locateIn(tx, jid, id)
  if (found) return found.platform_id
  // A link's chat has no other messages than those that we know.
  return isLinkChat(jid) ? refuseMissing(id, jid) : id
}

export const sendTools = [send, reply]
