// Step 4 of routing: finds the folder that owns a message of a platform chat. In this order: the folder whose message it
// answers, the engaged folder, the folder chosen for the chat with `@name`, the routed folder.
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { parentFolderOf, ROOT_FOLDER } from '../access/tiers.ts'
import type { Chat } from '../chats/chats.ts'
import { findOutbound, type OutboxRow } from '../delivery/outbox.ts'
import { inbox, messageIdOfTurn } from '../messages/inbox.ts'
import { turns } from '../turns/turns.ts'
import { findLiveEngagement } from './engagements.ts'
import type { MatchedRoute } from './route-table.ts'
import { groupExists, type MessagePlacement, type MessageWithEnvelope, TEXT_VERBS } from './routing-decision.ts'

export interface ChatOwner {
  readonly folder: string
  /** False if the route only observes. */
  readonly startsTurn: boolean
  /** No message of the agent before this one leads there. */
  readonly isByRoute?: true
  /** The conversation of the answered message. */
  readonly topic?: string | undefined
}

export interface ChatMessageContext {
  readonly row: MessageWithEnvelope
  readonly now: number
  readonly chat: Chat | undefined
  readonly placement: MessagePlacement
  readonly matchedRoute: MatchedRoute | undefined
  /** The folder of the matched route, if it exists. */
  readonly routedFolder: string | undefined
  readonly engagedFolder: string | undefined
}

interface EngagementQuery {
  readonly jid: string
  readonly chat_topic: string
  readonly now: number
  readonly routedFolder: string | undefined
}

/** Ignores the engagement that a `/root` turn leaves in another folder's chat: it was for that turn only. */
export async function findEngagedFolder(
  tx: Tx,
  { jid, chat_topic, now, routedFolder }: EngagementQuery,
): Promise<string | undefined> {
  const folder = await findLiveEngagement(tx, jid, chat_topic, now)
  if (folder === undefined || !(await groupExists(tx, folder))) return undefined
  if (folder !== ROOT_FOLDER || routedFolder === ROOT_FOLDER) return folder
  const [last] = await query(
    tx,
    { id: text },
    'select id from turns where folder = $1 and jid = $2 order by last_seq desc limit 1',
    [folder, jid],
  )
  return (await isRootCommandTurn(tx, last?.id)) ? undefined : folder
}

/** Whether a turn was started by `/root`. */
async function isRootCommandTurn(tx: Tx, turn_id: string | undefined): Promise<boolean> {
  return turn_id !== undefined && (await inbox.find(tx, { id: messageIdOfTurn(turn_id) }))?.verb === 'root'
}

export async function findChatOwner(tx: Tx, chatMessage: ChatMessageContext): Promise<ChatOwner | undefined> {
  const { row, routedFolder, engagedFolder, matchedRoute, chat } = chatMessage
  const answered = await findAnsweredMessage(tx, row)
  if (answered?.folder !== undefined && (await groupExists(tx, answered.folder)))
    return { folder: answered.folder, startsTurn: true, topic: await findTurnTopic(tx, answered) }
  if (engagedFolder !== undefined) return { folder: engagedFolder, startsTurn: true }
  if (routedFolder === undefined) return undefined
  const sticky = chat?.sticky_folder
  const isSticky = sticky !== undefined && isSelectableFolder(routedFolder, sticky) && (await groupExists(tx, sticky))
  return {
    folder: isSticky ? sticky : routedFolder,
    startsTurn: matchedRoute?.target.fragment !== 'observe',
    isByRoute: true,
  }
}

/** Ignores reactions, ids of other chats, which would lead to their folders, and replies of `/root` turns. */
async function findAnsweredMessage(
  tx: Tx,
  { message: { jid }, envelope }: MessageWithEnvelope,
): Promise<OutboxRow | undefined> {
  if (envelope?.reply_to_id === undefined || !TEXT_VERBS.includes(envelope.verb)) return undefined
  const answered = await findOutbound(tx, envelope.reply_to_id, jid)
  return answered?.jid === jid && !(await isRootCommandTurn(tx, answered.turn_id)) ? answered : undefined
}

/** The topic of the turn that sent the message; undefined for an isolated task, whose conversation chats cannot enter. */
async function findTurnTopic(tx: Tx, { turn_id, folder }: OutboxRow): Promise<string | undefined> {
  const turn = turn_id === undefined ? undefined : await turns.find(tx, { id: turn_id })
  return turn && turn.folder === folder && !turn.is_isolated ? turn.topic : undefined
}

/** A chat can select its routed folder and that folder's direct children; a chat of the root can select any folder. */
export function isSelectableFolder(routedFolder: string, folder: string): boolean {
  return routedFolder === ROOT_FOLDER || folder === routedFolder || parentFolderOf(folder) === routedFolder
}
