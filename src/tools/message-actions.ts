// What one can do to messages that are there. One row, one tool.
import { z } from 'zod'
import type { ToolTiers } from '../core/access/tiers.ts'
import type { ActionName, ChannelActions, MessageTarget } from '../core/delivery/channel.ts'
import { MessageId, platformIdIn } from '../core/messages/message-ids.ts'
import { ChatName, text } from '../core/values.ts'
import { defineTool } from '../registry/tool.ts'
import { performAction, resolveChatTarget } from './chat/channel-action.ts'
import { requireSendAccess } from './chat/outgoing-message.ts'

const Emoji = text((value) =>
  /[\u0000-\u001f\u007f]/.test(value) || value.length > 64
    ? 'must be a short text without control characters'
    : undefined,
).describe("An emoji or its name; the empty text is the platform's own way to like")

const Targeted = z.object({ chatJid: ChatName, targetId: MessageId })
type Targeted = z.output<typeof Targeted>

interface MessageAction<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly input: I
  does(actions: Partial<ChannelActions>, on: MessageTarget, given: z.output<I>): Promise<void> | undefined
}

/** `name` is the tool and the action of the channel. */
function onMessage<I extends typeof Targeted>(name: ActionName, { tiers, when, input, does }: MessageAction<I>) {
  return defineTool({
    name,
    when,
    reach: 'chat',
    tiers,
    input,
    authorize: requireSendAccess(({ chatJid }: Targeted) => chatJid),
    prepare: ({ host }, { chatJid }: Targeted) => resolveChatTarget(host, chatJid, name),
    run: async (ctx, { targetId }: Targeted, place) => ({
      place,
      on: { jid: place.jid, targetId: await platformIdIn(ctx.tx, place.jid, targetId) },
    }),
    finish: (_asking, { place, on }, given) => performAction(place, name, (actions) => does(actions, on, given)),
  })
}

const like = onMessage('like', {
  tiers: { granted: 3 },
  when: 'React to a message.',
  input: Targeted.extend({ reaction: Emoji }),
  does: (actions, on, { reaction }) => actions.like?.({ ...on, reaction }),
})

const dislike = onMessage('dislike', {
  tiers: { granted: 2 },
  when: 'Vote a message down, where the platform has such a vote.',
  input: Targeted,
  does: (actions, on) => actions.dislike?.(on),
})

const pin = onMessage('pin_message', {
  tiers: { granted: 2 },
  when: 'Pin a message, so that all who come to the chat see it.',
  input: Targeted,
  does: (actions, on) => actions.pin_message?.(on),
})

const unpin = onMessage('unpin_message', {
  tiers: { granted: 2 },
  when: 'Take back the pin of a message.',
  input: Targeted,
  does: (actions, on) => actions.unpin_message?.(on),
})

const unpinAll = defineTool({
  name: 'unpin_all',
  reach: 'chat',
  tiers: { granted: 2 },
  when: 'Take back all pins of a chat.',
  input: Targeted.pick({ chatJid: true }),
  authorize: requireSendAccess(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => resolveChatTarget(host, chatJid, 'unpin_all'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place) => performAction(place, 'unpin_all', (actions) => actions.unpin_all?.({ jid: place.jid })),
})

export const messageActionTools = [like, dislike, pin, unpin, unpinAll]
