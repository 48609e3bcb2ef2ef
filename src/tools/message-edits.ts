// Changing what was said, or taking it back: only one's own messages. The platform comes first, and the stored row follows
// when it has agreed.
import { z } from 'zod'
import { mayReachFolder, type ToolTiers } from '../core/access/tiers.ts'
import type { ChannelActions, MessageTarget } from '../core/delivery/channel.ts'
import type { OutboxRow } from '../core/delivery/outbox.ts'
import { deleteMessage, editMessage } from '../core/messages/message-changes.ts'
import { findMessageInChat, MessageId, refuseMissing, requirePlatformId } from '../core/messages/message-ids.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { ChatName, MessageText } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import { hasTool, INSTANCE_SCOPE } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import type { Tx } from '../store/engine.ts'
import { performAction, resolveChatTarget } from './chat/channel-action.ts'
import { requireSendAccess } from './chat/outgoing-message.ts'

const Targeted = z.object({ chatJid: ChatName, targetId: MessageId.describe('One of your own messages') })
type Targeted = z.output<typeof Targeted>

interface Revision<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly input: I
  does(actions: Partial<ChannelActions>, on: MessageTarget, given: z.output<I>): Promise<void> | undefined
  record(tx: Tx, message_seq: number, now: string, given: z.output<I>): Promise<void>
}

function revision<I extends typeof Targeted>(
  name: 'edit' | 'delete',
  { tiers, when, input, does, record }: Revision<I>,
) {
  return defineTool({
    name,
    when,
    reach: 'chat',
    tiers,
    input,
    authorize: requireSendAccess(({ chatJid }: Targeted) => chatJid),
    prepare: ({ host }, { chatJid }: Targeted) => resolveChatTarget(host, chatJid, name),
    run: async (ctx, { targetId }: Targeted, place) => ({ place, ...(await ownMessage(ctx, place.jid, targetId)) }),
    finish: async ({ host }, { place, on, message_seq }, given) => {
      await performAction(place, name, (actions) => does(actions, on, given))
      await host.engine.transaction(async (tx) => {
        await lockMessageOrder(tx, host.engine.dialect)
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
): Promise<{ readonly on: MessageTarget; readonly message_seq: number }> {
  const found = (await findMessageInChat(ctx.tx, jid, id)) ?? refuseMissing(id, jid)
  if (!found.outboxRow || !(await isOwn(ctx, found.outboxRow)))
    refuse('forbidden', `${ctx.tool}: the message ${id} is not your own`)
  return { on: { jid, targetId: requirePlatformId(found) }, message_seq: found.message_seq }
}

/** What a folder below said counts as own: whoever reaches the folder answers for it. */
async function isOwn(ctx: Context, { folder }: OutboxRow): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return hasTool(ctx, folder ?? INSTANCE_SCOPE)
  return mayReachFolder(caller.folder, folder ?? INSTANCE_SCOPE)
}

export const messageEditTools = [
  revision('edit', {
    tiers: { granted: 3 },
    when: 'Change one of your own messages in its place.',
    input: Targeted.extend({ content: MessageText }),
    does: (actions, on, { content }) => actions.edit?.({ ...on, content }),
    record: (tx, seq, now, { content }) => editMessage(tx, seq, content, now),
  }),
  revision('delete', {
    tiers: { granted: 2 },
    when: 'Take back one of your own messages.',
    input: Targeted,
    does: (actions, on) => actions.delete?.(on),
    record: deleteMessage,
  }),
]
