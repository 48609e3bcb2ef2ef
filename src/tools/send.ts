// Sends text messages and replies.
import { z } from 'zod'
import { resolveChatJid } from '../core/chats/folder-chat.ts'
import { isLinkChat, platformOf } from '../core/delivery/channel.ts'
import { findEntry, SANDBOX } from '../core/delivery/sandbox-rooms.ts'
import { findMessageInChat, MessageId, refuseMissing } from '../core/messages/message-ids.ts'
import { findLastReplyId } from '../core/routing/engagements.ts'
import { topicIn } from '../core/turns/turns.ts'
import { ChatName, MessageText } from '../core/values.ts'
import { SEND_TIERS } from '../permissions/chat-access.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import { deliverMessage, recordMessage, requireSendAccess } from './chat/outgoing-message.ts'

const send = defineTool({
  name: 'send',
  reach: 'chat',
  tiers: SEND_TIERS,
  when: 'Send a new message to a chat. To answer a message, use reply.',
  activity: 'Sending a message',
  input: z.object({ chatJid: ChatName, text: MessageText }),
  authorize: requireSendAccess,
  appendsMessages: true,
  run: async (ctx, { chatJid, text }) =>
    recordMessage(ctx, { jid: await resolveChatJid(ctx.tx, chatJid), content: text, isThreaded: false }),
  finish: async ({ host }, recorded) => {
    await deliverMessage(host, recorded)
  },
})

const reply = defineTool({
  name: 'reply',
  reach: 'chat',
  tiers: { granted: 3 },
  when: 'Answer in the thread of a chat: to the message that you name, or to the last one.',
  activity: 'Sending a message',
  input: z.object({
    chatJid: ChatName,
    text: MessageText,
    replyToId: MessageId.optional().describe('The message to answer; default: the last one of the chat'),
  }),
  authorize: requireSendAccess,
  appendsMessages: true,
  run: async (ctx, { chatJid, text, replyToId }) => {
    const jid = await resolveChatJid(ctx.tx, chatJid)
    const replyTo = await findReplyTarget(ctx, jid, replyToId)
    return recordMessage(ctx, { jid, content: text, isThreaded: true, payload: { replyTo } })
  },
  finish: async ({ host }, recorded) => {
    await deliverMessage(host, recorded)
  },
})

/** The platform's id of the message to answer, if it has one. */
async function findReplyTarget(ctx: Context, jid: string, replyToId: string | undefined): Promise<string | undefined> {
  const { tx } = ctx
  if (replyToId === undefined && isLinkChat(jid)) return undefined
  const id = replyToId ?? (await findLastReplyId(tx, jid, topicIn(await ctx.turn(), jid)))
  if (id === undefined) return undefined
  const found = await findMessageInChat(tx, jid, id)
  if (found) return found.platform_id
  // Other platforms may have messages that the store lacks.
  const isMissing = isLinkChat(jid) || (platformOf(jid) === SANDBOX && !(await findEntry(tx, jid, id)))
  return isMissing ? refuseMissing(id, jid) : id
}

export const sendTools = [send, reply]
