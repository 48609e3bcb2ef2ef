// What one can do to messages that are there. One row, one tool.
import { z } from 'zod'
import type { ActionName, Actions, OnMessage } from '../core/channel.ts'
import { MessageId, platformIdIn } from '../core/message-ids.ts'
import { ChatName, text } from '../core/values.ts'
import { act, placeFor } from '../registry/acting.ts'
import { speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const Emoji = text((value) =>
  /[\u0000-\u001f\u007f]/.test(value) || value.length > 64
    ? 'must be a short text without control characters'
    : undefined,
).describe("An emoji or its name; the empty text is the platform's own way to like")

const Targeted = z.object({ chatJid: ChatName, targetId: MessageId })
type Targeted = z.output<typeof Targeted>

interface Deed<I extends z.ZodObject> {
  readonly when: string
  readonly input: I
  does(actions: Partial<Actions>, on: OnMessage, given: z.output<I>): Promise<void> | undefined
}

/** `name` is the tool and the action of the channel. */
function onMessage<I extends typeof Targeted>(name: ActionName, { when, input, does }: Deed<I>) {
  return hotTool({
    name,
    when,
    reach: 'chat',
    input,
    needs: speaksIn(({ chatJid }: Targeted) => chatJid),
    prepare: ({ host }, { chatJid }: Targeted) => placeFor(host, chatJid, name),
    run: async (ctx, { targetId }: Targeted, place) => ({
      place,
      on: { jid: place.jid, targetId: await platformIdIn(ctx.tx, place.jid, targetId) },
    }),
    finish: (_asking, { place, on }, given) => act(place, name, (actions) => does(actions, on, given)),
  })
}

const like = onMessage('like', {
  when: 'React to a message.',
  input: Targeted.extend({ reaction: Emoji }),
  does: (actions, on, { reaction }) => actions.like?.({ ...on, reaction }),
})

const dislike = onMessage('dislike', {
  when: 'Vote a message down, where the platform has such a vote.',
  input: Targeted,
  does: (actions, on) => actions.dislike?.(on),
})

const pin = onMessage('pin_message', {
  when: 'Pin a message, so that all who come to the chat see it.',
  input: Targeted,
  does: (actions, on) => actions.pin_message?.(on),
})

const unpin = onMessage('unpin_message', {
  when: 'Take back the pin of a message.',
  input: Targeted,
  does: (actions, on) => actions.unpin_message?.(on),
})

const unpinAll = hotTool({
  name: 'unpin_all',
  reach: 'chat',
  when: 'Take back all pins of a chat.',
  input: Targeted.pick({ chatJid: true }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  prepare: ({ host }, { chatJid }) => placeFor(host, chatJid, 'unpin_all'),
  run: async (_ctx, _given, place) => place,
  finish: (_asking, place) => act(place, 'unpin_all', (actions) => actions.unpin_all?.({ jid: place.jid })),
})

export const actTools = [like, dislike, pin, unpin, unpinAll]
