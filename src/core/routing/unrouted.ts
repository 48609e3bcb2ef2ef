// Step 7 of routing: messages of platform chats without an owner. Their route leads to a daemon, a built-in handler or a
// missing folder, or no route matches and the chat waits for onboarding.
import { shellQuote } from '../../lib/text/shell-quote.ts'
import type { Tx } from '../../store/engine.ts'
import { parentFolderOf } from '../access/tiers.ts'
import { decodeContent, type Message } from '../messages/messages.ts'
import { onboardChat } from '../people/onboarding-chat.ts'
import type { ChatMessageContext } from './chat-owner.ts'
import type { MessageDirective } from './message-directive.ts'
import type { MatchedRoute } from './route-table.ts'
import {
  groupExists,
  type MessagePlacement,
  type RoutingContext,
  type RoutingDecision,
  TEXT_VERBS,
} from './routing-decision.ts'

export async function handleUnrouted(
  tx: Tx,
  context: RoutingContext,
  chatMessage: ChatMessageContext,
  directive: MessageDirective | undefined,
): Promise<RoutingDecision> {
  const { matchedRoute, placement, row } = chatMessage
  const { jid } = row.message
  if (matchedRoute?.target.kind === 'daemon') return { ...placement, kind: 'daemon', name: matchedRoute.target.name }
  if (matchedRoute?.target.kind === 'builtin') return runBuiltin(placement, matchedRoute.target.name, row.message)
  if (directive?.kind === 'command' && directive.name === 'chatid')
    return { ...placement, kind: 'end', outcome: 'answered', reply: jid }
  return matchedRoute
    ? handleMissingFolder(tx, context, placement, matchedRoute, jid)
    : handleUnclaimedChat(tx, context, chatMessage, directive)
}

function runBuiltin(placement: MessagePlacement, name: string, { content }: Message): RoutingDecision {
  if (name === 'echo' && content.byteLength > 0)
    return { ...placement, kind: 'end', outcome: 'answered', reply: decodeContent(content) }
  return { ...placement, kind: 'end', outcome: 'silent', reason: `routed to builtin:${name}` }
}

async function handleMissingFolder(
  tx: Tx,
  { instance, showCommands }: RoutingContext,
  placement: MessagePlacement,
  { route, target: { name, fragment } }: MatchedRoute,
  jid: string,
): Promise<RoutingDecision> {
  const parent = parentFolderOf(name)
  const isPersonal = route.target.includes('{sender}') && parent !== undefined && (await groupExists(tx, parent))
  const problem = isPersonal
    ? 'You do not have a folder here yet.'
    : `This chat is routed to the folder ${name}, which does not exist.`
  const command = showCommands(`svc group ${instance} add ${shellQuote(jid)} ${name}`)
  const reply = `${problem} An operator can create it with: ${command}`
  const reason = `route ${route.id} leads to the folder ${name}, which does not exist`
  // In an observed room every message would get this reply.
  return { ...placement, kind: 'end', outcome: 'failed', reason, ...(fragment === 'observe' ? {} : { reply }) }
}

/** The chat waits in onboarding until it has a route. */
async function handleUnclaimedChat(
  tx: Tx,
  { greeting }: RoutingContext,
  { row, now, chat, placement }: ChatMessageContext,
  directive: MessageDirective | undefined,
): Promise<RoutingDecision> {
  const { jid, sender, content } = row.message
  const isRoom = row.envelope?.is_group ?? chat?.is_group ?? false
  if (isRoom && placement.verb !== 'mention') {
    const reason = 'no route matches this room, and the message does not mention the agent'
    return { ...placement, kind: 'end', outcome: 'silent', reason }
  }
  const isText = TEXT_VERBS.includes(placement.verb) && directive?.kind !== 'command'
  const text = isText ? decodeContent(content) : undefined
  const reply = await onboardChat(tx, { jid, sender, text, now, greeting })
  const reason = 'no route matches this chat'
  return { ...placement, kind: 'end', outcome: 'onboarding', reason, ...(reply === undefined ? {} : { reply }) }
}
