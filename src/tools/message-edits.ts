// Tools that edit or delete the caller's own messages: first on the platform, then in the store.
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

const OwnMessage = z.object({ chatJid: ChatName, targetId: MessageId.describe('One of your own messages') })
type OwnMessage = z.output<typeof OwnMessage>

interface Revision<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly input: I
  perform(actions: Partial<ChannelActions>, message: MessageTarget, input: z.output<I>): Promise<void> | undefined
  record(tx: Tx, message_seq: number, now: string, input: z.output<I>): Promise<void>
}

function defineRevision<I extends typeof OwnMessage>(
  name: 'edit' | 'delete',
  { tiers, when, input, perform, record }: Revision<I>,
) {
  return defineTool({
    name,
    when,
    reach: 'chat',
    activity: 'Changing a message',
    tiers,
    input,
    authorize: requireSendAccess,
    prepare: ({ host }, { chatJid }: OwnMessage) => resolveChatTarget(host, chatJid, name),
    run: async (ctx, { targetId }: OwnMessage, chat) => ({ chat, ...(await findOwnMessage(ctx, chat.jid, targetId)) }),
    finish: async ({ host }, { chat, message, message_seq }, given) => {
      await performAction(chat, name, (actions) => perform(actions, message, given))
      await host.engine.transaction(async (tx) => {
        await lockMessageOrder(tx, host.engine.dialect)
        await record(tx, message_seq, timestamp(host.clock.now()), given)
      })
      host.signals.emit([chat.jid])
    },
  })
}

async function findOwnMessage(
  ctx: Context,
  jid: string,
  id: string,
): Promise<{ readonly message: MessageTarget; readonly message_seq: number }> {
  const found = (await findMessageInChat(ctx.tx, jid, id)) ?? refuseMissing(id, jid)
  if (!found.outboxRow || !(await isOwn(ctx, found.outboxRow)))
    refuse('forbidden', `${ctx.tool}: the message ${id} is not your own`)
  return { message: { jid, targetId: requirePlatformId(found) }, message_seq: found.message_seq }
}

/** Messages of folders below count as own. */
async function isOwn(ctx: Context, { folder }: OutboxRow): Promise<boolean> {
  const { caller } = ctx
  if (caller.kind !== 'agent') return hasTool(ctx, folder ?? INSTANCE_SCOPE)
  return mayReachFolder(caller.folder, folder ?? INSTANCE_SCOPE)
}

export const messageEditTools = [
  defineRevision('edit', {
    tiers: { granted: 3 },
    when: 'Change the text of one of your own messages.',
    input: OwnMessage.extend({ content: MessageText }),
    perform: (actions, message, { content }) => actions.edit?.({ ...message, content }),
    record: (tx, seq, now, { content }) => editMessage(tx, seq, content, now),
  }),
  defineRevision('delete', {
    tiers: { granted: 2 },
    when: 'Delete one of your own messages.',
    input: OwnMessage,
    perform: (actions, message) => actions.delete?.(message),
    record: deleteMessage,
  }),
]
