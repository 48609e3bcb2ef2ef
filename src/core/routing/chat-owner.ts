// Whose a message of a platform is: of the folder that it answers, of the one that its chat is engaged with, of the one
// that the chat has chosen, or of the one that the routes say.
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { parentFolderOf, ROOT_FOLDER } from '../access/tiers.ts'
import type { Chat } from '../chats/chats.ts'
import { findOutbound, type OutboxRow } from '../delivery/outbox.ts'
import { inbox } from '../messages/inbox.ts'
import { turns } from '../turns/turns.ts'
import { engagedFolder } from './engagements.ts'
import type { MatchedRoute } from './route-table.ts'
import { groupExists, type MessagePlacement, type MessageWithEnvelope } from './routing-decision.ts'

/** Whose a message of a platform is before it is asked what it says itself. */
export interface ChatOwner {
  readonly folder: string
  /** False where the route only observes. */
  readonly startsTurn: boolean
  /** The conversation of the message of ours that it answers. */
  readonly topic?: string | undefined
}

export interface ChatMessageContext {
  readonly row: MessageWithEnvelope
  readonly now: number
  readonly chat: Chat | undefined
  readonly placement: MessagePlacement
  readonly matchedRoute: MatchedRoute | undefined
  /** The registered folder that the chat is routed to. */
  readonly routedFolder: string | undefined
  readonly engagedFolder: string | undefined
}

interface EngagementQuery {
  readonly jid: string
  readonly chat_topic: string
  readonly now: number
  readonly home: string | undefined
}

/** Who the chat is engaged with. The root, asked by an operator for one turn, does not keep a chat of somebody else's. */
export async function findEngagedFolder(
  tx: Tx,
  { jid, chat_topic, now, home }: EngagementQuery,
): Promise<string | undefined> {
  const folder = await engagedFolder(tx, jid, chat_topic, now)
  if (folder === undefined || !(await groupExists(tx, folder))) return undefined
  if (folder !== ROOT_FOLDER || home === ROOT_FOLDER) return folder
  const [last] = await query(
    tx,
    { id: text },
    'select id from turns where folder = $1 and jid = $2 order by last_seq desc limit 1',
    [folder, jid],
  )
  return (await wasRoot(tx, last?.id)) ? undefined : folder
}

/** Whether a turn was one of `/root`: it is named after the message. */
async function wasRoot(tx: Tx, turn_id: string | undefined): Promise<boolean> {
  return turn_id !== undefined && (await inbox.find(tx, { id: turn_id }))?.verb === 'root'
}

export async function findChatOwner(tx: Tx, chatting: ChatMessageContext): Promise<ChatOwner | undefined> {
  const { routedFolder, engagedFolder: engaged, matchedRoute, chat } = chatting
  const said = await answered(tx, chatting.row)
  if (said?.folder !== undefined && (await groupExists(tx, said.folder)))
    return { folder: said.folder, startsTurn: true, topic: await topicOfSaid(tx, said) }
  if (engaged !== undefined) return { folder: engaged, startsTurn: true }
  if (routedFolder === undefined) return undefined
  const sticky = chat?.sticky_folder
  const isSticky = sticky !== undefined && isSelectableFolder(routedFolder, sticky) && (await groupExists(tx, sticky))
  return { folder: isSticky ? sticky : routedFolder, startsTurn: matchedRoute?.target.fragment !== 'observe' }
}

const WORDS: readonly string[] = ['message', 'mention', 'reply']

/**
 * The message of ours that it answers in words; a reaction goes where the routes say. An id of another chat is none: else a
 * reply would reach whoever spoke there. Nor is what the root said when an operator asked: that was for one turn.
 */
async function answered(tx: Tx, { message: { jid }, envelope }: MessageWithEnvelope): Promise<OutboxRow | undefined> {
  if (envelope?.reply_to_id === undefined || !WORDS.includes(envelope.verb)) return undefined
  const said = await findOutbound(tx, envelope.reply_to_id, jid)
  return said?.jid === jid && !(await wasRoot(tx, said.turn_id)) ? said : undefined
}

/** What a task said in a session of its own is not gone on with there. */
async function topicOfSaid(tx: Tx, { turn_id, folder }: OutboxRow): Promise<string | undefined> {
  const turn = turn_id === undefined ? undefined : await turns.find(tx, { id: turn_id })
  return turn && turn.folder === folder && !turn.is_isolated ? turn.topic : undefined
}

/** The chat's own folder and its direct children; where that is the root, any. */
export function isSelectableFolder(home: string, folder: string): boolean {
  return home === ROOT_FOLDER || folder === home || parentFolderOf(folder) === home
}
