// Platform actions other than sending a message, such as a reaction. They run once and are never queued. An unsupported
// action is refused with a hint; see docs/decisions.md#tool-errors.
import type { z } from 'zod'
import type { ToolTiers } from '../../core/access/tiers.ts'
import { resolveChatJid } from '../../core/chats/folder-chat.ts'
import { type ActionName, type Channel, ChannelError } from '../../core/delivery/channel.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { defineTool } from '../../registry/tool.ts'
import { requireSendAccess } from './outgoing-message.ts'

export interface ChatTarget {
  readonly jid: string
  readonly channel: Channel | undefined
}

function refuseUnsupported(channel: Channel, action: ActionName): never {
  return refuse('unsupported', `unsupported: ${action} on ${channel.platform}`, channel.hint(action))
}

/** Resolves a chat or folder name. The channel is undefined if no adapter for it is connected. */
export async function resolveChatTarget(host: InstanceHost, name: string, action: ActionName): Promise<ChatTarget> {
  const jid = await host.engine.read((tx) => resolveChatJid(tx, name))
  const channel = await host.channels.resolve(jid)
  if (channel && channel.actions[action] === undefined) refuseUnsupported(channel, action)
  return { jid, channel }
}

/** Translates channel errors into refusals. `perform` returns undefined if the channel lacks the action. */
export async function performAction(
  { jid, channel }: ChatTarget,
  action: ActionName,
  perform: (actions: Channel['actions']) => Promise<void> | undefined,
): Promise<void> {
  if (!channel) return refuse('unavailable', `no connected channel serves the chat ${jid}`)
  try {
    await (perform(channel.actions) ?? refuseUnsupported(channel, action))
  } catch (error) {
    if (!(error instanceof ChannelError)) throw error
    if (error.kind === 'permanent') refuse('unprocessable', error.message)
    if (error.kind === 'transient') refuse('unavailable', `${error.message}; try again later`)
    refuse('unavailable', `it is unknown whether ${action} was done: ${error.message}`)
  }
}

interface ChatAction<I extends z.ZodObject> {
  readonly tiers: ToolTiers
  readonly when: string
  readonly input: I
  perform(actions: Channel['actions'], jid: string, input: z.output<I>): Promise<void> | undefined
}

/** A tool that performs the channel action of the same name on a chat. */
export function defineChatAction<I extends z.ZodObject<{ chatJid: z.ZodType<string> }>>(
  name: ActionName,
  { tiers, when, input, perform }: ChatAction<I>,
) {
  return defineTool({
    name,
    when,
    reach: 'chat',
    activity: 'Changing the chat',
    tiers,
    input,
    authorize: requireSendAccess,
    prepare: ({ host }, { chatJid }: { chatJid: string }) => resolveChatTarget(host, chatJid, name),
    run: async (_ctx, _input, target) => target,
    finish: (_request, target, given) => performAction(target, name, (actions) => perform(actions, target.jid, given)),
  })
}
