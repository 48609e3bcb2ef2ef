// Where a message of a platform goes: to whoever it belongs to, unless it says of itself where it goes.
import type { Tx } from '../../store/engine.ts'
import { ROOT_FOLDER } from '../access/tiers.ts'
import { chats, upsertChat } from '../chats/chats.ts'
import { runChatCommand } from './chat-commands.ts'
import {
  type ChatMessageContext,
  type ChatOwner,
  findChatOwner,
  findEngagedFolder,
  isSelectableFolder,
} from './chat-owner.ts'
import { disengage } from './engagements.ts'
import type { MessageDirective } from './message-directive.ts'
import {
  conversationName,
  groupExists,
  type MessagePlacement,
  type MessageWithEnvelope,
  type RoutingContext,
  type RoutingDecision,
  readMessageDirective,
} from './routing-decision.ts'
import { handleUnrouted } from './unrouted.ts'

export async function routeChatMessage(
  tx: Tx,
  world: RoutingContext,
  row: MessageWithEnvelope,
): Promise<RoutingDecision> {
  const { message, envelope } = row
  const { jid, sender } = message
  const now = world.writeContext.clock.now()
  const chat_topic = message.topic ?? ''
  const verb = envelope?.verb ?? 'message'
  const place: MessagePlacement = { topic: conversationName(chat_topic), chat_topic, verb }
  const matched = world.routes.match({ jid, sender, verb })
  const home =
    matched?.target.kind === 'folder' && (await groupExists(tx, matched.target.name)) ? matched.target.name : undefined
  const chatting: ChatMessageContext = {
    row,
    now,
    chat: await chats.find(tx, { jid }),
    placement: place,
    matchedRoute: matched,
    routedFolder: home,
    engagedFolder: await findEngagedFolder(tx, { jid, chat_topic, now, home }),
  }
  const held = await findChatOwner(tx, chatting)
  const steering = readMessageDirective(world, row)
  if (!held) return handleUnrouted(tx, world, chatting, steering)
  const topic = topicOf(chatting, held)
  const steered =
    steering && (await applyDirective(tx, world, { ...chatting, placement: { ...place, topic } }, held, steering))
  if (steered) return steered
  return { ...place, topic, kind: held.startsTurn ? 'turn' : 'observe', folder: held.folder }
}

/** The conversation: that of what is answered, else the chosen one, else the chat's own topic, else the route's. */
function topicOf({ chat, placement, matchedRoute }: ChatMessageContext, held: ChatOwner): string {
  if (held.topic !== undefined) return held.topic
  if (chat?.sticky_topic !== undefined) return chat.sticky_topic
  if (placement.topic !== '') return placement.topic
  const { fragment, name } = matchedRoute?.target ?? {}
  return fragment !== undefined && fragment !== 'observe' && name === held.folder ? fragment : ''
}

/** A name, said in a chat, as a folder: a child of the chat's own, or of the one that is spoken with. */
async function resolveFolderName(
  tx: Tx,
  { routedFolder, engagedFolder }: ChatMessageContext,
  { folder }: ChatOwner,
  name: string,
): Promise<string | undefined> {
  for (const from of new Set([routedFolder, engagedFolder, folder])) {
    if (from === undefined) continue
    const candidates = [`${from}/${name}`, ...(from === ROOT_FOLDER ? [name] : [])]
    for (const each of candidates) if (isSelectableFolder(from, each) && (await groupExists(tx, each))) return each
  }
  return undefined
}

/** What the message says of itself; nothing where it is plain text. */
async function applyDirective(
  tx: Tx,
  world: RoutingContext,
  chatting: ChatMessageContext,
  held: ChatOwner,
  steering: MessageDirective,
): Promise<RoutingDecision | undefined> {
  const { placement, row } = chatting
  const { jid, sender } = row.message
  const { folder } = held
  if (steering.kind === 'command')
    return runChatCommand(tx, world, { jid, sender, folder, placement, conversationFor: conversationName }, steering)
  if (steering.kind === 'folder') {
    const target = await resolveFolderName(tx, chatting, held, steering.name)
    return target === undefined ? undefined : { ...placement, kind: 'turn', folder: target }
  }
  // In a room where the agent only listens, these are other people's words.
  if (!held.startsTurn) return undefined
  const say = (sentence: string): RoutingDecision => ({
    ...placement,
    kind: 'end',
    outcome: 'answered',
    folder,
    say: sentence,
  })
  if (steering.kind === 'topic') return { ...placement, kind: 'turn', folder, topic: steering.name }
  if (steering.kind === 'sticky_topic') {
    await upsertChat(tx, jid, { sticky_topic: steering.name })
    return say(steering.name === undefined ? 'topic reset to default' : `topic → ${steering.name}`)
  }
  if (steering.kind === 'plain') return undefined
  const target = steering.name === undefined ? undefined : await resolveFolderName(tx, chatting, held, steering.name)
  if (steering.name !== undefined && target === undefined) return undefined
  await upsertChat(tx, jid, { sticky_folder: target })
  // Else the folder that was spoken with would keep the chat for a while, whatever was chosen.
  await disengage(tx, jid, placement.chat_topic)
  return say(target === undefined ? 'routing reset to default' : `routing → ${target}`)
}
