// Whose a message of a platform is: of the folder that it answers, of the one that its chat is engaged with, of the one
// that the chat has chosen, or of the one that the routes say.
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import type { Chat } from './chat-state.ts'
import { engagedFolder } from './engagement.ts'
import { inbox } from './inbox.ts'
import { findSaid, type Outbox } from './outbox.ts'
import { isGroup, type Place, type Row } from './routed.ts'
import type { Matched } from './routing.ts'
import { parentOf, ROOT } from './tiers.ts'
import { turns } from './turns.ts'

/** Whose a message of a platform is before it is asked what it says itself. */
export interface Held {
  readonly folder: string
  /** False where the route only observes. */
  readonly isAsked: boolean
  /** The conversation of the message of ours that it answers. */
  readonly topic?: string | undefined
}

export interface Chatting {
  readonly row: Row
  readonly now: number
  readonly chat: Chat | undefined
  readonly place: Place
  readonly matched: Matched | undefined
  /** The registered folder that the chat is routed to. */
  readonly home: string | undefined
  readonly engaged: string | undefined
}

interface Engaged {
  readonly jid: string
  readonly chat_topic: string
  readonly now: number
  readonly home: string | undefined
}

/** Who the chat is engaged with. The root, asked by an operator for one turn, does not keep a chat of somebody else's. */
export async function engagedHere(tx: Tx, { jid, chat_topic, now, home }: Engaged): Promise<string | undefined> {
  const folder = await engagedFolder(tx, jid, chat_topic, now)
  if (folder === undefined || !(await isGroup(tx, folder))) return undefined
  if (folder !== ROOT || home === ROOT) return folder
  const { rows } = await run(tx, 'select id from turns where folder = $1 and jid = $2 order by last_seq desc limit 1', [
    folder,
    jid,
  ])
  return (await wasRoot(tx, rows[0] && String(rows[0].id))) ? undefined : folder
}

/** Whether a turn was one of `/root`: it is named after the message. */
async function wasRoot(tx: Tx, turn_id: string | undefined): Promise<boolean> {
  return turn_id !== undefined && (await inbox.find(tx, { id: turn_id }))?.verb === 'root'
}

export async function holderOf(tx: Tx, chatting: Chatting): Promise<Held | undefined> {
  const { home, engaged, matched, chat } = chatting
  const said = await answered(tx, chatting.row)
  if (said?.folder !== undefined && (await isGroup(tx, said.folder)))
    return { folder: said.folder, isAsked: true, topic: await topicOfSaid(tx, said) }
  if (engaged !== undefined) return { folder: engaged, isAsked: true }
  if (home === undefined) return undefined
  const sticky = chat?.sticky_folder
  const isSticky = sticky !== undefined && isChoosable(home, sticky) && (await isGroup(tx, sticky))
  return { folder: isSticky ? sticky : home, isAsked: matched?.target.fragment !== 'observe' }
}

const WORDS: readonly string[] = ['message', 'mention', 'reply']

/**
 * The message of ours that it answers in words; a reaction goes where the routes say. An id of another chat is none: else a
 * reply would reach whoever spoke there. Nor is what the root said when an operator asked: that was for one turn.
 */
async function answered(tx: Tx, { message: { jid }, envelope }: Row): Promise<Outbox | undefined> {
  if (envelope?.reply_to_id === undefined || !WORDS.includes(envelope.verb)) return undefined
  const said = await findSaid(tx, envelope.reply_to_id, jid)
  return said?.jid === jid && !(await wasRoot(tx, said.turn_id)) ? said : undefined
}

/** What a task said in a session of its own is not gone on with there. */
async function topicOfSaid(tx: Tx, { turn_id, folder }: Outbox): Promise<string | undefined> {
  const turn = turn_id === undefined ? undefined : await turns.find(tx, { id: turn_id })
  return turn && turn.folder === folder && !turn.is_isolated ? turn.topic : undefined
}

/** The chat's own folder and its direct children; where that is the root, any. */
export function isChoosable(home: string, folder: string): boolean {
  return home === ROOT || folder === home || parentOf(folder) === home
}
