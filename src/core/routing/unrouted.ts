// Messages that no folder has: those that a route sends elsewhere, those that lead to a folder which does not exist, and
// those of chats that nobody has yet.
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { parentFolderOf } from '../access/tiers.ts'
import { upsertChat } from '../chats/chats.ts'
import { decodeContent, type Message } from '../messages/messages.ts'
import { onboarding } from '../people/onboarding.ts'
import type { ChatMessageContext } from './chat-owner.ts'
import type { MessageDirective } from './message-directive.ts'
import type { MatchedRoute } from './route-table.ts'
import { groupExists, type MessagePlacement, type RoutingContext, type RoutingDecision } from './routing-decision.ts'

/** No folder of this instance has it. */
export async function handleUnrouted(
  tx: Tx,
  world: RoutingContext,
  chatting: ChatMessageContext,
  steering: MessageDirective | undefined,
): Promise<RoutingDecision> {
  const { matchedRoute, placement, row } = chatting
  const { jid } = row.message
  if (matchedRoute?.target.kind === 'daemon') return { ...placement, kind: 'daemon', name: matchedRoute.target.name }
  if (matchedRoute?.target.kind === 'builtin') return builtIn(placement, matchedRoute.target.name, row.message)
  if (steering?.kind === 'command' && steering.name === 'chatid')
    return { ...placement, kind: 'end', outcome: 'answered', say: jid }
  return matchedRoute
    ? handleMissingFolder(tx, world, placement, matchedRoute, jid)
    : handleUnclaimedChat(tx, world, chatting)
}

function builtIn(place: MessagePlacement, name: string, { content }: Message): RoutingDecision {
  if (name === 'echo' && content.byteLength > 0)
    return { ...place, kind: 'end', outcome: 'answered', say: decodeContent(content) }
  return { ...place, kind: 'end', outcome: 'silent', reason: `a route sends it to builtin:${name}` }
}

/** A route to a folder that nobody has made. */
async function handleMissingFolder(
  tx: Tx,
  { instance }: RoutingContext,
  place: MessagePlacement,
  matched: MatchedRoute,
  jid: string,
): Promise<RoutingDecision> {
  const { name, fragment } = matched.target
  const parent = parentFolderOf(name)
  const isOwn = matched.route.target.includes('{sender}') && parent !== undefined && (await groupExists(tx, parent))
  const reason = `route ${matched.route.id} leads to the folder ${name}, which does not exist`
  const command = `svc group ${instance} add ${jid} ${name}`
  const say = isOwn
    ? `You have no place of your own here yet. An operator makes it with: ${command}`
    : `This chat leads to the folder ${name}, which does not exist. An operator makes it with: ${command}`
  // Where the agent only listens, each message of the room would bring a notice.
  return { ...place, kind: 'end', outcome: 'failed', reason, ...(fragment === 'observe' ? {} : { say }) }
}

/** Nobody has this chat: it waits for somebody to take it, and is told so once. */
async function handleUnclaimedChat(
  tx: Tx,
  { instance }: RoutingContext,
  { row, now, chat, placement }: ChatMessageContext,
): Promise<RoutingDecision> {
  const { jid } = row.message
  const isRoom = row.envelope?.is_group ?? chat?.is_group ?? false
  if (isRoom && placement.verb !== 'mention')
    return { ...placement, kind: 'end', outcome: 'silent', reason: 'no route has this room, and it was not said to us' }
  const created = timestamp(now)
  await onboarding.insertIfMissing(tx, { jid, status: 'awaiting_message', created })
  const end = { ...placement, kind: 'end', outcome: 'onboarding', reason: 'no route has this chat' } as const
  if (chat?.noticed_at !== undefined) return end
  await upsertChat(tx, jid, { noticed_at: created })
  return {
    ...end,
    say: `Nobody has this chat yet. An operator takes it in with: svc group ${instance} add ${jid} <folder>`,
  }
}
