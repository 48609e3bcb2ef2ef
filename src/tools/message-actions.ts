// Tools that act on existing messages: reactions and pins.
import { z } from 'zod'
import type { ToolTiers } from '../core/access/tiers.ts'
import type { ActionName, ChannelActions, MessageTarget } from '../core/delivery/channel.ts'
import { MessageId, resolvePlatformId } from '../core/messages/message-ids.ts'
import { ChatName, checkedText } from '../core/values.ts'
import { defineTool } from '../registry/tool.ts'
import { defineChatAction, performAction, resolveChatTarget } from './chat/channel-action.ts'
import { requireSendAccess } from './chat/outgoing-message.ts'

const Emoji = checkedText((value) =>
  /[\u0000-\u001f\u007f]/.test(value) || value.length > 64
    ? 'must be a short text without control characters'
    : undefined,
).describe("An emoji or its name; empty for the platform's default reaction")

const MessageRef = z.object({ chatJid: ChatName, targetId: MessageId })
type MessageRef = z.output<typeof MessageRef>

interface MessageAction<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly input: I
  perform(actions: Partial<ChannelActions>, message: MessageTarget, input: z.output<I>): Promise<void> | undefined
}

/** A tool that performs the channel action of the same name on a message. */
function defineMessageAction<I extends typeof MessageRef>(
  name: ActionName,
  { tiers, when, input, perform }: MessageAction<I>,
) {
  return defineTool({
    name,
    when,
    reach: 'chat',
    activity: 'Reacting to a message',
    tiers,
    input,
    authorize: requireSendAccess,
    prepare: ({ host }, { chatJid }: MessageRef) => resolveChatTarget(host, chatJid, name),
    run: async (ctx, { targetId }: MessageRef, chat) => ({
      chat,
      message: { jid: chat.jid, targetId: await resolvePlatformId(ctx.tx, chat.jid, targetId) },
    }),
    finish: (_request, { chat, message }, given) =>
      performAction(chat, name, (actions) => perform(actions, message, given)),
  })
}

const like = defineMessageAction('like', {
  tiers: { granted: 3 },
  when: 'React to a message.',
  input: MessageRef.extend({ reaction: Emoji }),
  perform: (actions, message, { reaction }) => actions.like?.({ ...message, reaction }),
})

const dislike = defineMessageAction('dislike', {
  tiers: { granted: 2 },
  when: 'Downvote a message, if the platform supports it.',
  input: MessageRef,
  perform: (actions, message) => actions.dislike?.(message),
})

const pin = defineMessageAction('pin_message', {
  tiers: { granted: 2 },
  when: 'Pin a message, so that everyone who opens the chat sees it.',
  input: MessageRef,
  perform: (actions, message) => actions.pin_message?.(message),
})

const unpin = defineMessageAction('unpin_message', {
  tiers: { granted: 2 },
  when: 'Unpin a message.',
  input: MessageRef,
  perform: (actions, message) => actions.unpin_message?.(message),
})

const unpinAll = defineChatAction('unpin_all', {
  tiers: { granted: 2 },
  when: 'Unpin all messages of a chat.',
  input: z.object({ chatJid: ChatName }),
  perform: (actions, jid) => actions.unpin_all?.({ jid }),
})

export const messageActionTools = [like, dislike, pin, unpin, unpinAll]
