// Doing something on a platform that is no message: at once or not at all. What a platform cannot do is said with a hint
// (decision E2), which the tool face prints as a second line.

import { resolveChatJid } from '../../core/chats/folder-chat.ts'
import { type ActionName, type Channel, ChannelError } from '../../core/delivery/channel.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'

/** A chat, and who has it. */
export interface ChatTarget {
  readonly jid: string
  readonly channel: Channel | undefined
}

export function refuseUnsupported(channel: Channel, action: ActionName): never {
  return refuse('unsupported', `unsupported: ${action} on ${channel.platform}`, channel.hint(action))
}

/** The chat that is meant, and its channel, which can do this; none where that is not there now. */
export async function resolveChatTarget(host: InstanceHost, name: string, action: ActionName): Promise<ChatTarget> {
  const jid = await host.engine.read((tx) => resolveChatJid(tx, name))
  const channel = await host.channels.resolve(jid)
  if (channel && channel.actions[action] === undefined) refuseUnsupported(channel, action)
  return { jid, channel }
}

/** Does it, and puts what went wrong into a sentence for whoever asked. `perform` gives nothing where the channel lacks it. */
export async function performAction(
  { jid, channel }: ChatTarget,
  action: ActionName,
  perform: (actions: Channel['actions']) => Promise<void> | undefined,
): Promise<void> {
  if (!channel) return refuse('unavailable', `no channel has the chat ${jid} now`)
  try {
    await (perform(channel.actions) ?? refuseUnsupported(channel, action))
  } catch (error) {
    if (!(error instanceof ChannelError)) throw error
    if (error.kind === 'permanent') refuse('unprocessable', error.message)
    if (error.kind === 'transient') refuse('unavailable', `${error.message}; try again later`)
    refuse('unavailable', `it is not known whether ${action} was done: ${error.message}`)
  }
}
