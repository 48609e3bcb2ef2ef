// Where a message of a platform goes: to whoever it belongs to, unless it says of itself where it goes.
import type { Tx } from '../store/engine.ts'
import { carryOut } from './chat-commands.ts'
import { chats, rememberChat } from './chat-state.ts'
import { disengage } from './engagement.ts'
import { type Chatting, engagedHere, type Held, holderOf, isChoosable } from './holder.ts'
import {
  conversationOf,
  type Decision,
  isGroup,
  type Place,
  type RoutingWorld,
  type Row,
  steeringOf,
} from './routed.ts'
import type { Steering } from './steering.ts'
import { ROOT } from './tiers.ts'
import { unheld } from './unheld.ts'

export async function decideChat(tx: Tx, world: RoutingWorld, row: Row): Promise<Decision> {
  const { message, envelope } = row
  const { jid, sender } = message
  const now = world.speaking.clock.now()
  const chat_topic = message.topic ?? ''
  const verb = envelope?.verb ?? 'message'
  const place: Place = { topic: conversationOf(chat_topic), chat_topic, verb }
  const matched = world.routes.match({ jid, sender, verb })
  const home =
    matched?.target.kind === 'folder' && (await isGroup(tx, matched.target.name)) ? matched.target.name : undefined
  const chatting: Chatting = {
    row,
    now,
    chat: await chats.find(tx, { jid }),
    place,
    matched,
    home,
    engaged: await engagedHere(tx, { jid, chat_topic, now, home }),
  }
  const held = await holderOf(tx, chatting)
  const steering = steeringOf(world, row)
  if (!held) return unheld(tx, world, chatting, steering)
  const topic = topicOf(chatting, held)
  const steered = steering && (await steer(tx, world, { ...chatting, place: { ...place, topic } }, held, steering))
  if (steered) return steered
  return { ...place, topic, kind: held.isAsked ? 'turn' : 'observe', folder: held.folder }
}

/** The conversation: that of what is answered, else the chosen one, else the chat's own topic, else the route's. */
function topicOf({ chat, place, matched }: Chatting, held: Held): string {
  if (held.topic !== undefined) return held.topic
  if (chat?.sticky_topic !== undefined) return chat.sticky_topic
  if (place.topic !== '') return place.topic
  const { fragment, name } = matched?.target ?? {}
  return fragment !== undefined && fragment !== 'observe' && name === held.folder ? fragment : ''
}

/** A name, said in a chat, as a folder: a child of the chat's own, or of the one that is spoken with. */
async function named(tx: Tx, { home, engaged }: Chatting, { folder }: Held, name: string): Promise<string | undefined> {
  for (const from of new Set([home, engaged, folder])) {
    if (from === undefined) continue
    const candidates = [`${from}/${name}`, ...(from === ROOT ? [name] : [])]
    for (const each of candidates) if (isChoosable(from, each) && (await isGroup(tx, each))) return each
  }
  return undefined
}

/** What the message says of itself; nothing where it is plain text. */
async function steer(
  tx: Tx,
  world: RoutingWorld,
  chatting: Chatting,
  held: Held,
  steering: Steering,
): Promise<Decision | undefined> {
  const { place, row } = chatting
  const { jid, sender } = row.message
  const { folder } = held
  if (steering.kind === 'command')
    return carryOut(tx, world, { jid, sender, folder, place, named: conversationOf }, steering)
  if (steering.kind === 'folder') {
    const target = await named(tx, chatting, held, steering.name)
    return target === undefined ? undefined : { ...place, kind: 'turn', folder: target }
  }
  // In a room where the agent only listens, these are other people's words.
  if (!held.isAsked) return undefined
  const say = (sentence: string): Decision => ({ ...place, kind: 'end', outcome: 'answered', folder, say: sentence })
  if (steering.kind === 'topic') return { ...place, kind: 'turn', folder, topic: steering.name }
  if (steering.kind === 'sticky_topic') {
    await rememberChat(tx, jid, { sticky_topic: steering.name })
    return say(steering.name === undefined ? 'topic reset to default' : `topic → ${steering.name}`)
  }
  if (steering.kind === 'plain') return undefined
  const target = steering.name === undefined ? undefined : await named(tx, chatting, held, steering.name)
  if (steering.name !== undefined && target === undefined) return undefined
  await rememberChat(tx, jid, { sticky_folder: target })
  // Else the folder that was spoken with would keep the chat for a while, whatever was chosen.
  await disengage(tx, jid, place.chat_topic)
  return say(target === undefined ? 'routing reset to default' : `routing → ${target}`)
}
