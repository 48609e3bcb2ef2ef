// Step 2 of routing: a message of a platform chat goes to the folder that owns it, unless it begins with a directive.
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
import { refuseDirectChat } from './direct-chats.ts'
import { disengage } from './engagements.ts'
import { type MessageDirective, readMessageDirective } from './message-directive.ts'
import {
  conversationName,
  groupExists,
  type MessagePlacement,
  type MessageWithEnvelope,
  type RoutingContext,
  type RoutingDecision,
  TEXT_VERBS,
} from './routing-decision.ts'
import { handleUnrouted } from './unrouted.ts'

export async function routeChatMessage(
  tx: Tx,
  context: RoutingContext,
  row: MessageWithEnvelope,
): Promise<RoutingDecision> {
  const { message, envelope } = row
  const { jid, sender } = message
  const now = context.writeContext.clock.now()
  const chat_topic = message.topic ?? ''
  const verb = envelope?.verb ?? 'message'
  const placement: MessagePlacement = { topic: conversationName(chat_topic), chat_topic, verb }
  const matchedRoute = context.routes.match({ jid, sender, verb })
  const target = matchedRoute?.target
  const routedFolder = target?.kind === 'folder' && (await groupExists(tx, target.name)) ? target.name : undefined
  const chatMessage: ChatMessageContext = {
    row,
    now,
    chat: await chats.find(tx, { jid }),
    placement,
    matchedRoute,
    routedFolder,
    engagedFolder: await findEngagedFolder(tx, { jid, chat_topic, now, routedFolder }),
  }
  const owner = await findChatOwner(tx, chatMessage)
  const refused = await refuseDirectChat(tx, context, chatMessage, owner)
  if (refused) return refused
  const directive = readMessageDirective(context, row)
  if (!owner) return handleUnrouted(tx, context, chatMessage, directive)
  const topic = chooseTopic(chatMessage, owner)
  const directed =
    directive &&
    (await applyDirective(tx, context, { ...chatMessage, placement: { ...placement, topic } }, owner, directive))
  if (directed) return directed
  const reaction = TEXT_VERBS.includes(verb) ? matchedRoute?.route.ack_reaction || undefined : undefined
  if (!owner.startsTurn) return { ...placement, topic, kind: 'observe', folder: owner.folder }
  return { ...placement, topic, kind: 'turn', folder: owner.folder, reaction }
}

/** In this order: the topic of the answered message, the sticky topic, the chat's own topic, the topic of the route. */
function chooseTopic({ chat, placement, matchedRoute }: ChatMessageContext, owner: ChatOwner): string {
  if (owner.topic !== undefined) return owner.topic
  if (chat?.sticky_topic !== undefined) return chat.sticky_topic
  if (placement.topic !== '') return placement.topic
  const { fragment, name } = matchedRoute?.target ?? {}
  return fragment !== undefined && fragment !== 'observe' && name === owner.folder ? fragment : ''
}

/** Resolves `@name` to a child of the routed folder, the engaged folder or the owner. */
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

/** Returns undefined if the message is to be handled as plain text. */
async function applyDirective(
  tx: Tx,
  context: RoutingContext,
  chatMessage: ChatMessageContext,
  owner: ChatOwner,
  directive: MessageDirective,
): Promise<RoutingDecision | undefined> {
  const { placement, row } = chatMessage
  const { jid, sender } = row.message
  const { folder } = owner
  if (directive.kind === 'command')
    return runChatCommand(tx, context, { jid, sender, folder, placement, conversationFor: conversationName }, directive)
  if (directive.kind === 'folder') {
    const target = await resolveFolderName(tx, chatMessage, owner, directive.name)
    return target === undefined ? undefined : { ...placement, kind: 'turn', folder: target }
  }
  // In an observed room people write "@name" and "#topic" to each other.
  if (directive.kind === 'plain' || !owner.startsTurn) return undefined
  const { name } = directive
  if (directive.kind === 'topic') return { ...placement, kind: 'turn', folder, topic: directive.name }
  const end = { ...placement, kind: 'end', outcome: 'answered', folder } as const
  if (directive.kind === 'sticky_topic') {
    await upsertChat(tx, jid, { sticky_topic: name })
    return { ...end, reply: name === undefined ? 'topic reset to default' : `topic → ${name}` }
  }
  const target = name === undefined ? undefined : await resolveFolderName(tx, chatMessage, owner, name)
  if (name !== undefined && target === undefined) return undefined
  await upsertChat(tx, jid, { sticky_folder: target })
  // A live engagement would take precedence over the sticky folder.
  await disengage(tx, jid, placement.chat_topic)
  return { ...end, reply: target === undefined ? 'routing reset to default' : `routing → ${target}` }
}
