// Shared by all tools that send messages: resolves the chat, records the message in the outbox and delivers it.
import { resolveChatJid } from '../../core/chats/folder-chat.ts'
import { isLinkChat } from '../../core/delivery/channel.ts'
import { DELIVERY_LEASE_MS, deliver, type OutboxPayload } from '../../core/delivery/delivery.ts'
import { type OutboundMessage, type RecordedOutbound, recordOutbound } from '../../core/delivery/outbox.ts'
import { findChatFolder } from '../../core/routing/chat-folder.ts'
import { engagesChat, topicIn } from '../../core/turns/turns.ts'
import { refuse } from '../../lib/refusal.ts'
import { findConversationOwner, mustHaveReaders, mustReachChat } from '../../permissions/chat-access.ts'
import type { Context, InstanceHost } from '../../registry/context.ts'

/** `authorize` of a tool that acts in a chat. For a bare folder, the chat it resolves to is checked too. */
export function requireSendAccessTo<I>(nameOf: (input: I) => string) {
  return async (ctx: Context, input: I): Promise<void> => {
    const name = nameOf(input)
    await mustReachChat(ctx, name)
    if (name.includes(':')) return mustHaveReaders(ctx, name)
    await mustReachChat(ctx, await resolveChatJid(ctx.tx, name))
  }
}

export const requireSendAccess = requireSendAccessTo(({ chatJid }: { chatJid: string }) => chatJid)

interface OutgoingChatMessage extends Pick<OutboundMessage, 'jid' | 'content' | 'action' | 'answerFile'> {
  /** Whether it goes into the thread of the turn. */
  readonly isThreaded: boolean
  readonly payload?: OutboxPayload | undefined
}

/** Records the message for the caller's folder as part of its turn. */
export async function recordMessage(
  ctx: Context,
  { isThreaded, ...message }: OutgoingChatMessage,
): Promise<RecordedOutbound> {
  const { caller, tx } = ctx
  const { jid } = message
  const turn = await ctx.turn()
  // Clients of a link's chat read one topic and would not see a message outside of it.
  const topic = isThreaded || isLinkChat(jid) ? topicIn(turn, jid) : ''
  const folder = caller.kind === 'agent' ? caller.folder : await findChatFolder(tx, jid, ctx.routes)
  const mayEngage = folder !== undefined && !isLinkChat(jid) && (turn === undefined || engagesChat(turn))
  const recorded = await recordOutbound(tx, ctx, ctx.rules, {
    leaseMs: DELIVERY_LEASE_MS,
    ...message,
    topic,
    folder,
    turn_id: turn?.id,
    // Otherwise one message would take over the chat of a folder below.
    engages: mayEngage && (await findConversationOwner(ctx, { jid, topic, folder })).isOwn,
  })
  const { keys, isDelivered, fence } = recorded
  // Answers of a webhook may also be sent to another chat.
  const isQueued = jid.startsWith('hook:') || (!isDelivered && fence === 0)
  tx.onCommit(() => ctx.signals.emit(keys, isQueued ? ['outbox'] : []))
  return recorded
}

/** Returns the platform's id of the message, or its own id if the platform has given none yet. */
export async function deliverMessage(host: InstanceHost, recorded: RecordedOutbound): Promise<string> {
  const { id, isDelivered } = recorded
  if (isDelivered) return id
  const {
    state,
    platform_id = id,
    error = 'the message was not sent',
    hint,
    isUnsupported,
  } = await deliver(host, recorded)
  if (state === 'failed') refuse(isUnsupported ? 'unsupported' : 'unprocessable', error, hint)
  if (state === 'unknown')
    refuse(
      'unavailable',
      `it is unknown whether the message ${id} arrived: ${error}`,
      'check with fetch_history(chat_jid) before you send it again',
    )
  // A message that is still queued is retried by the outbox.
  return platform_id
}
