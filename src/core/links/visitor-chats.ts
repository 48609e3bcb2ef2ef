// Chats of the visitors of a link that keeps them apart. Each visitor has one below the chat of the link, named by the hash of a
// key that only the visitor has; everything of a conversation is kept by chat, so nothing of it is shared. No other chat can
// have such a name, because folders and suffixes contain no tilde. See docs/decisions.md#visitors-apart.
import { hash } from 'node:crypto'
import { z } from 'zod'

export const Visitors = z
  .enum(['together', 'apart'])
  .describe('Whether visitors of a chat link share one conversation or each have their own')
export type Visitors = z.output<typeof Visitors>

const MARK = '~'
const PART_LENGTH = 1 + 43
const VISITOR_CHAT = /^web:[^~]+~[A-Za-z0-9_-]{43}$/

/** The end of the JID of a visitor's chat. Without a key, it names a chat that is always empty. */
export function visitorPart(key: string | undefined): string {
  return key === undefined ? MARK : MARK + hash('sha256', key, 'base64url')
}

export function isVisitorChat(jid: string): boolean {
  return VISITOR_CHAT.test(jid)
}

/** The JID of the link that a chat belongs to: its own, unless it is a visitor's chat. */
export function linkJidOf(jid: string): string {
  return isVisitorChat(jid) ? jid.slice(0, -PART_LENGTH) : jid
}

/** Whether both are chats of visitors, but not of the same. */
export function isOtherVisitorChat(own: string | undefined, jid: string): boolean {
  return own !== undefined && own !== jid && isVisitorChat(own) && isVisitorChat(jid)
}

/** SQL for `linkJidOf` and `isVisitorChat`, for JIDs in a column. */
export const VISITOR_CHAT_SQL = (column: string): string =>
  `${column} like 'web:%~%' and substr(${column}, length(${column}) - ${PART_LENGTH - 1}, 1) = '${MARK}'`
export const LINK_JID_SQL = (column: string): string => `substr(${column}, 1, length(${column}) - ${PART_LENGTH})`
