// Where one message goes (decision T1): to a turn of a folder, to what a folder observes, or to an end at once. Asked for
// each message by itself, in the order of arrival; a failed read is thrown, never taken for a miss.
import type { Tx } from '../../store/engine.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { routeTokens } from '../links/route-tokens.ts'
import { isVisitorMessage } from '../messages/message-reach.ts'
import { runChatCommand } from './chat-commands.ts'
import { legacyLinkFolder } from './chat-folder.ts'
import { routeChatMessage } from './route-chat-message.ts'
import {
  conversationName,
  groupExists,
  type MessagePlacement,
  type MessageWithEnvelope,
  type RoutingContext,
  type RoutingDecision,
  readMessageDirective,
  TASK_TOPIC_PREFIX,
  visitorConversation,
} from './routing-decision.ts'

export type { RoutingContext, RoutingDecision } from './routing-decision.ts'

export async function routeMessage(tx: Tx, world: RoutingContext, row: MessageWithEnvelope): Promise<RoutingDecision> {
  const { message, envelope } = row
  const { jid } = message
  if (envelope?.as_folder !== undefined || message.target_folder !== undefined || isLinkChat(jid))
    return routeAddressed(tx, world, row)
  if (!jid.includes(':')) return routeToFolder(tx, row)
  return routeChatMessage(tx, world, row)
}

/** A link's message, and what a tool or a schedule asks of a folder. */
async function routeAddressed(
  tx: Tx,
  world: RoutingContext,
  { message, envelope }: MessageWithEnvelope,
): Promise<RoutingDecision> {
  const { jid, sender, topic } = message
  const named = isVisitorMessage({ message, envelope })
    ? (name: string | undefined) => visitorConversation(jid, name)
    : conversationName
  const place: MessagePlacement = {
    topic:
      envelope?.is_isolated && envelope.task_id !== undefined ? TASK_TOPIC_PREFIX + envelope.task_id : named(topic),
    chat_topic: topic ?? '',
    verb: envelope?.verb ?? 'message',
  }
  const folder = envelope?.as_folder ?? message.target_folder ?? (await folderOfLink(tx, jid)) ?? ''
  if (!(await groupExists(tx, folder))) {
    const reason = `the folder ${folder} does not exist any more`
    const say = jid.startsWith('web:') ? 'Nobody is here any more: what this link led to has been removed.' : undefined
    return { ...place, kind: 'end', outcome: 'failed', reason, say }
  }
  const steering = isLinkChat(jid) ? readMessageDirective(world, { message, envelope }) : undefined
  if (steering?.kind === 'command')
    return runChatCommand(tx, world, { jid, sender, folder, placement: place, conversationFor: named }, steering)
  if (steering?.kind === 'topic') return { ...place, kind: 'turn', folder, topic: named(steering.name) }
  // A link leads a visitor to its own folder and no other.
  if (steering?.kind === 'folder' && !isVisitorMessage({ message, envelope })) {
    const child = `${folder}/${steering.name}`
    if (await groupExists(tx, child)) return { ...place, kind: 'turn', folder: child }
  }
  return { ...place, kind: 'turn', folder }
}

/** A message from before targets were kept: by the link's record, else by the old reading of its chat (decision L6). */
async function folderOfLink(tx: Tx, jid: string): Promise<string | undefined> {
  return (await routeTokens.find(tx, { jid }))?.target_folder ?? legacyLinkFolder(jid)
}

/** Said to a folder by its name: no route has a say. */
async function routeToFolder(tx: Tx, { message, envelope }: MessageWithEnvelope): Promise<RoutingDecision> {
  const { jid, topic } = message
  const place = { topic: conversationName(topic), chat_topic: topic ?? '', verb: envelope?.verb ?? 'message' }
  if (await groupExists(tx, jid)) return { ...place, kind: 'turn', folder: jid }
  return { ...place, kind: 'end', outcome: 'failed', reason: `there is no folder ${jid}` }
}
