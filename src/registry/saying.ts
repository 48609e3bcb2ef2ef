// What the tools have in common that say something: which chat is meant, in whose name and in which thread it is said, and
// what the caller is told of it.
import { isLinkChat } from '../core/channel.ts'
import { chatOf } from '../core/chat-of-folder.ts'
import { DELIVERY_LEASE_MS, deliver, type Payload } from '../core/delivery.ts'
import { type Outbound, type Recorded, recordOut } from '../core/outbox.ts'
import { folderOfChat } from '../core/resolve.ts'
import { engagesChat, type Turn } from '../core/turns.ts'
import { refuse } from '../lib/refusal.ts'
import { mustReachChat } from './chat-needs.ts'
import type { Context, Host } from './context.ts'

/** `needs` of a tool that says or does something in a chat. Of a bare folder, the chat that is meant is judged too. */
export function speaksIn<I>(nameOf: (input: I) => string) {
  return async (ctx: Context, input: I): Promise<void> => {
    const name = nameOf(input)
    await mustReachChat(ctx, name)
    if (!name.includes(':')) await mustReachChat(ctx, await chatOf(ctx.tx, name))
  }
}

export interface Saying extends Pick<Outbound, 'jid' | 'content' | 'action'> {
  /** Whether it belongs into the thread of the turn, or stands for itself. */
  readonly isThreaded: boolean
  readonly payload?: Payload | undefined
}

/** Records it, in the name of the folder that asks and as a part of its turn. */
export async function say(ctx: Context, { isThreaded, ...saying }: Saying): Promise<Recorded> {
  const { caller, tx } = ctx
  const { jid } = saying
  const turn = await ctx.turn()
  const topic = topicIn(turn, jid)
  // A link's chat has no top level beside its topics: whoever asks in one reads there.
  const isInTopic = isThreaded || isLinkChat(jid)
  return recordOut(tx, ctx, ctx.rules, {
    leaseMs: DELIVERY_LEASE_MS,
    ...saying,
    topic: isInTopic ? topic : '',
    folder: caller.kind === 'agent' ? caller.folder : await folderOfChat(tx, jid, ctx.routes),
    turn_id: turn?.id,
    engages: turn === undefined || engagesChat(turn),
  })
}

/** The topic of the chat that the turn answers in; of any other chat, the main one. */
export function topicIn(turn: Turn | undefined, jid: string): string {
  return turn?.jid === jid ? turn.chat_topic : ''
}

/** Delivers what was recorded. The platform's id of it, or our own where there is none yet. */
export async function sayOut(host: Host, recorded: Recorded): Promise<string> {
  const { id, fence, isDelivered, keys } = recorded
  // Only what is left to the sweep is work for anybody else.
  host.signals.emit(keys, !isDelivered && fence === 0)
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
