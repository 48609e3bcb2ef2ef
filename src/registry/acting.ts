// Doing something on a platform that is no message: at once or not at all. What a platform cannot do is said with a hint
// (decision E2), which the tool face prints as a second line.
import { type ActionName, type Channel, ChannelFault } from '../core/channel.ts'
import { chatOf } from '../core/chat-of-folder.ts'
import { refuse } from '../lib/refusal.ts'
import type { Host } from './context.ts'

/** A chat, and who has it. */
export interface Place {
  readonly jid: string
  readonly channel: Channel | undefined
}

export function unsupported(channel: Channel, action: ActionName): never {
  return refuse('unsupported', `unsupported: ${action} on ${channel.platform}`, channel.hint(action))
}

/** The chat that is meant, and its channel, which can do this; none where that is not there now. */
export async function placeFor(host: Host, name: string, action: ActionName): Promise<Place> {
  const jid = await host.engine.read((tx) => chatOf(tx, name))
  const channel = await host.channels.of(jid)
  if (channel && channel.actions[action] === undefined) unsupported(channel, action)
  return { jid, channel }
}

/** Does it, and puts what went wrong into a sentence for whoever asked. `perform` gives nothing where the channel lacks it. */
export async function act(
  { jid, channel }: Place,
  action: ActionName,
  perform: (actions: Channel['actions']) => Promise<void> | undefined,
): Promise<void> {
  if (!channel) return refuse('unavailable', `no channel has the chat ${jid} now`)
  try {
    await (perform(channel.actions) ?? unsupported(channel, action))
  } catch (error) {
    if (!(error instanceof ChannelFault)) throw error
    if (error.kind === 'permanent') refuse('unprocessable', error.message)
    if (error.kind === 'transient') refuse('unavailable', `${error.message}; try again later`)
    refuse('unavailable', `it is not known whether ${action} was done: ${error.message}`)
  }
}
