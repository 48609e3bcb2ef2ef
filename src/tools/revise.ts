// Changing what was said, or taking it back: only one's own messages. The platform comes first, and the stored row follows
// when it has agreed.
import { z } from 'zod'
import type { Actions, OnMessage } from '../core/channel.ts'
import { deleteMessage, editMessage } from '../core/message-changes.ts'
import { locateIn, MessageId, mustBeThere, refuseMissing } from '../core/message-ids.ts'
import { queueUp } from '../core/messages.ts'
import type { Outbox } from '../core/outbox.ts'
import { reaches } from '../core/tiers.ts'
import { ChatName, Words } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { act, placeFor } from '../registry/acting.ts'
import type { Context } from '../registry/context.ts'
import { hasTool, INSTANCE } from '../registry/needs.ts'
import { speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'
import type { Tx } from '../store/engine.ts'

const Targeted = z.object({ chatJid: ChatName, targetId: MessageId.describe('One of your own messages') })
type Targeted = z.output<typeof Targeted>

interface Revision<I extends z.ZodObject> {
  readonly when: string
  readonly input: I
  does(actions: Partial<Actions>, on: OnMessage, given: z.output<I>): Promise<void> | undefined
  record(tx: Tx, message_seq: number, now: string, given: z.output<I>): Promise<void>
}

function revision<I extends typeof Targeted>(name: 'edit' | 'delete', { when, input, does, record }: Revision<I>) {
  return hotTool({
    name,
    when,
    reach: 'chat',
    input,
    needs: speaksIn(({ chatJid }: Targeted) => chatJid),
    prepare: ({ host }, { chatJid }: Targeted) => placeFor(host, chatJid, name),
    run: async (ctx, { targetId }: Targeted, place) => ({ place, ...(await ownMessage(ctx, place.jid, targetId)) }),
    finish: async ({ host }, { place, on, message_seq }, given) => {
      await act(place, name, (actions) => does(actions, on, given))
      await host.engine.transaction(async (tx) => {
        await queueUp(tx, host.engine.dialect)
        await record(tx, message_seq, timestamp(host.clock.now()), given)
      })
      host.signals.emit([place.jid])
    },
  })
}

async function ownMessage(
  ctx: Context,
  jid: string,
  id: string,
): Promise<{ readonly on: OnMessage; readonly message_seq: number }> {
  const found = (await locateIn(ctx.tx, jid, id)) ?? refuseMissing(id, jid)
  if (!found.said || !(await isOwn(ctx, found.said)))
    refuse('forbidden', `${ctx.tool}: the message ${id} is not your own`)
  return { on: { jid, targetId: mustBeThere(found) }, message_seq: found.message_seq }
}

/** What a folder below said counts as own: whoever reaches the folder answers for it. */
async function isOwn(ctx: Context, { folder }: Outbox): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return hasTool(ctx, folder ?? INSTANCE)
  return reaches(caller.folder, folder ?? INSTANCE)
}

export const reviseTools = [
  revision('edit', {
    when: 'Change one of your own messages in its place.',
    input: Targeted.extend({ content: Words }),
    does: (actions, on, { content }) => actions.edit?.({ ...on, content }),
    record: (tx, seq, now, { content }) => editMessage(tx, seq, content, now),
  }),
  revision('delete', {
    when: 'Take back one of your own messages.',
    input: Targeted,
    does: (actions, on) => actions.delete?.(on),
    record: deleteMessage,
  }),
]
