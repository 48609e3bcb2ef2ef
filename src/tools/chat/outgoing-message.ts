// What the tools have in common that say something: which chat is meant, in whose name and in which thread it is said, and
// what the caller is told of it.

import { resolveChatJid } from '../../core/chats/folder-chat.ts'
import { isLinkChat } from '../../core/delivery/channel.ts'
import { DELIVERY_LEASE_MS, deliver, type OutboxPayload } from '../../core/delivery/delivery.ts'
import { type OutboundMessage, type RecordedOutbound, recordOutbound } from '../../core/delivery/outbox.ts'
import { findChatFolder } from '../../core/routing/chat-folder.ts'
import { engagesChat, topicIn } from '../../core/turns/turns.ts'
import { refuse } from '../../lib/refusal.ts'
import { mustReachChat } from '../../permissions/chat-access.ts'
import type { Context, InstanceHost } from '../../registry/context.ts'

/** `needs` of a tool that says or does something in a chat. Of a bare folder, the chat that is meant is judged too. */
export function requireSendAccess<I>(nameOf: (input: I) => string) {
  return async (ctx: Context, input: I): Promise<void> => {
    const name = nameOf(input)
    await mustReachChat(ctx, name)
    if (!name.includes(':')) await mustReachChat(ctx, await resolveChatJid(ctx.tx, name))
  }
}

export interface OutgoingChatMessage extends Pick<OutboundMessage, 'jid' | 'content' | 'action'> {
  /** Whether it belongs into the thread of the turn, or stands for itself. */
  readonly isThreaded: boolean
  readonly payload?: OutboxPayload | undefined
}

/** Records it, in the name of the folder that asks and as a part of its turn. */
export async function recordMessage(
  ctx: Context,
  { isThreaded, ...saying }: OutgoingChatMessage,
): Promise<RecordedOutbound> {
  const { caller, tx } = ctx
  const { jid } = saying
  const turn = await ctx.turn()
  const topic = topicIn(turn, jid)
  // A link's chat has no top level beside its topics: whoever asks in one reads there.
  const isInTopic = isThreaded || isLinkChat(jid)
  const recorded = await recordOutbound(tx, ctx, ctx.rules, {
    leaseMs: DELIVERY_LEASE_MS,
    ...saying,
    topic: isInTopic ? topic : '',
    folder: caller.kind === 'agent' ? caller.folder : await findChatFolder(tx, jid, ctx.routes),
    turn_id: turn?.id,
    engages: turn === undefined || engagesChat(turn),
  })
  const { keys, isDelivered, fence } = recorded
  tx.onCommit(() => ctx.signals.emit(keys, !isDelivered && fence === 0 ? ['outbox'] : []))
  return recorded
}

/** Delivers what was recorded. The platform's id of it, or our own where there is none yet. */
export async function deliverMessage(host: InstanceHost, recorded: RecordedOutbound): Promise<string> {
  const { id, isDelivered } = recorded
  if (isDelivered) return id
  const { state, platform_id = id, error = 'it was not sent', hint, isUnsupported } = await deliver(host, recorded)
  if (state === 'failed') refuse(isUnsupported ? 'unsupported' : 'unprocessable', error, hint)
  if (state === 'unknown')
    refuse(
      'unavailable',
      `it is not known whether the message ${id} arrived: ${error}`,
      'look with fetch_history(chat_jid) before you say it again',
    )
  // What has not gone yet is recorded, and will be tried until it goes.
  return platform_id
}
