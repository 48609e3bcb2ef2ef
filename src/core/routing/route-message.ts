// Routes one message; the entry of this folder. See docs/decisions.md#routing. The steps of routing a message:
//   1. route-message.ts: a message to a link or to a named folder goes to that folder; all others continue with step 2.
//   2. route-chat-message.ts: routes a message of a platform chat, using steps 3 to 7.
//   3. route-table.ts: finds the first matching route.
//   4. chat-owner.ts: finds the folder that owns the message.
//   5. message-directive.ts: parses the directive or command that the message begins with.
//   6. chat-commands.ts: runs a command.
//   7. unrouted.ts: decides what happens to a message without an owner.
// The result is a RoutingDecision (routing-decision.ts). A failed read throws; it never counts as "no route".
import type { Tx } from '../../store/engine.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { routeTokens } from '../links/route-tokens.ts'
import { linkJidOf } from '../links/visitor-chats.ts'
import { isVisitorMessage } from '../messages/message-reach.ts'
import { DELETED_REASON } from '../messages/platform-changes.ts'
import { runChatCommand } from './chat-commands.ts'
import { legacyLinkFolder } from './chat-folder.ts'
import { readMessageDirective } from './message-directive.ts'
import { routeChatMessage } from './route-chat-message.ts'
import {
  conversationName,
  conversationOf,
  groupExists,
  type MessagePlacement,
  type MessageWithEnvelope,
  type RoutingContext,
  type RoutingDecision,
  TASK_TOPIC_PREFIX,
} from './routing-decision.ts'

export async function routeMessage(
  tx: Tx,
  context: RoutingContext,
  row: MessageWithEnvelope,
): Promise<RoutingDecision> {
  const { message, envelope } = row
  const { jid, topic } = message
  if (envelope?.deleted_at !== undefined) {
    const placement = { topic: conversationName(topic), chat_topic: topic ?? '', verb: envelope.verb }
    return { ...placement, kind: 'end', outcome: 'silent', reason: DELETED_REASON }
  }
  if (envelope?.as_folder !== undefined || message.target_folder !== undefined || isLinkChat(jid))
    return routeAddressed(tx, context, row)
  if (!jid.includes(':')) return routeToFolder(tx, row)
  return routeChatMessage(tx, context, row)
}

/** Routes a message of a link, a tool or a task, which names its folder. */
async function routeAddressed(
  tx: Tx,
  context: RoutingContext,
  { message, envelope }: MessageWithEnvelope,
): Promise<RoutingDecision> {
  const { jid, sender, topic } = message
  const isVisitor = isVisitorMessage({ message, envelope })
  const conversationFor = (name: string | undefined): string => conversationOf({ message, envelope }, name)
  const isIsolatedTask = envelope?.is_isolated && envelope.task_id !== undefined
  const placement: MessagePlacement = {
    topic: isIsolatedTask ? TASK_TOPIC_PREFIX + envelope.task_id : conversationFor(topic),
    chat_topic: topic ?? '',
    verb: envelope?.verb ?? 'message',
  }
  const folder = envelope?.as_folder ?? message.target_folder ?? (await findLinkFolder(tx, jid)) ?? ''
  if (!(await groupExists(tx, folder))) {
    const reason = `folder ${folder} no longer exists`
    const reply = jid.startsWith('web:') ? 'This link no longer works: its group was removed.' : undefined
    return { ...placement, kind: 'end', outcome: 'failed', reason, reply }
  }
  const directive = isLinkChat(jid) ? readMessageDirective(context, { message, envelope }) : undefined
  if (directive?.kind === 'command')
    return runChatCommand(tx, context, { jid, sender, folder, placement, conversationFor }, directive)
  if (directive?.kind === 'topic') return { ...placement, kind: 'turn', folder, topic: conversationFor(directive.name) }
  // A visitor reaches only the link's own folder.
  if (directive?.kind === 'folder' && !isVisitor) {
    const child = `${folder}/${directive.name}`
    if (await groupExists(tx, child)) return { ...placement, kind: 'turn', folder: child }
  }
  return { ...placement, kind: 'turn', folder }
}

/** For messages stored before they had a target folder. See docs/decisions.md#legacy-links. */
async function findLinkFolder(tx: Tx, jid: string): Promise<string | undefined> {
  return (await routeTokens.find(tx, { jid: linkJidOf(jid) }))?.target_folder ?? legacyLinkFolder(jid)
}

/** Routes a message whose chat is a folder name. The route table is not used. */
async function routeToFolder(tx: Tx, { message, envelope }: MessageWithEnvelope): Promise<RoutingDecision> {
  const { jid, topic } = message
  const placement = { topic: conversationName(topic), chat_topic: topic ?? '', verb: envelope?.verb ?? 'message' }
  if (await groupExists(tx, jid)) return { ...placement, kind: 'turn', folder: jid }
  return { ...placement, kind: 'end', outcome: 'failed', reason: `folder ${jid} does not exist` }
}
