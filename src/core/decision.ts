// Where one message goes (decision T1): to a turn of a folder, to what a folder observes, or to an end at once. Asked for
// each message by itself, in the order of arrival; a failed read is thrown, never taken for a miss.
import type { Tx } from '../store/engine.ts'
import { isLinkChat } from './channel.ts'
import { carryOut } from './chat-commands.ts'
import { decideChat } from './chat-decision.ts'
import { isVisitor } from './message-reach.ts'
import { oldReading } from './resolve.ts'
import { routeTokens } from './route-tokens.ts'
import {
  conversationOf,
  type Decision,
  isGroup,
  type Place,
  type RoutingWorld,
  type Row,
  steeringOf,
  TIMED,
  visitorConversation,
} from './routed.ts'

export type { Decision, RoutingWorld } from './routed.ts'

export async function decide(tx: Tx, world: RoutingWorld, row: Row): Promise<Decision> {
  const { message, envelope } = row
  const { jid } = message
  if (envelope?.as_folder !== undefined || message.target_folder !== undefined || isLinkChat(jid))
    return decideAddressed(tx, world, row)
  if (!jid.includes(':')) return decideBare(tx, row)
  return decideChat(tx, world, row)
}

/** A link's message, and what a tool or a schedule asks of a folder. */
async function decideAddressed(tx: Tx, world: RoutingWorld, { message, envelope }: Row): Promise<Decision> {
  const { jid, sender, topic } = message
  const named = isVisitor({ message, envelope })
    ? (name: string | undefined) => visitorConversation(jid, name)
    : conversationOf
  const place: Place = {
    topic: envelope?.is_isolated && envelope.task_id !== undefined ? TIMED + envelope.task_id : named(topic),
    chat_topic: topic ?? '',
    verb: envelope?.verb ?? 'message',
  }
  const folder = envelope?.as_folder ?? message.target_folder ?? (await folderOfLink(tx, jid)) ?? ''
  if (!(await isGroup(tx, folder))) {
    const reason = `the folder ${folder} does not exist any more`
    const say = jid.startsWith('web:') ? 'Nobody is here any more: what this link led to has been removed.' : undefined
    return { ...place, kind: 'end', outcome: 'failed', reason, say }
  }
  const steering = isLinkChat(jid) ? steeringOf(world, { message, envelope }) : undefined
  if (steering?.kind === 'command') return carryOut(tx, world, { jid, sender, folder, place, named }, steering)
  if (steering?.kind === 'topic') return { ...place, kind: 'turn', folder, topic: named(steering.name) }
  // A link leads a visitor to its own folder and no other.
  if (steering?.kind === 'folder' && !isVisitor({ message, envelope })) {
    const child = `${folder}/${steering.name}`
    if (await isGroup(tx, child)) return { ...place, kind: 'turn', folder: child }
  }
  return { ...place, kind: 'turn', folder }
}

/** A message from before targets were kept: by the link's record, else by the old reading of its chat (decision L6). */
async function folderOfLink(tx: Tx, jid: string): Promise<string | undefined> {
  return (await routeTokens.find(tx, { jid }))?.target_folder ?? oldReading(jid)
}

/** Said to a folder by its name: no route has a say. */
async function decideBare(tx: Tx, { message, envelope }: Row): Promise<Decision> {
  const { jid, topic } = message
  const place = { topic: conversationOf(topic), chat_topic: topic ?? '', verb: envelope?.verb ?? 'message' }
  if (await isGroup(tx, jid)) return { ...place, kind: 'turn', folder: jid }
  return { ...place, kind: 'end', outcome: 'failed', reason: `there is no folder ${jid}` }
}
