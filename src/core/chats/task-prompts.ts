// Prompts of scheduled tasks in chats of links. They are hidden from readers of the chat; the agent's replies are not.
import type { Message } from '../messages/messages.ts'

export function isTaskPrompt({ jid, direction, sender }: Pick<Message, 'jid' | 'direction' | 'sender'>): boolean {
  return direction === 'in' && jid.startsWith('web:') && /^timed(-isolated:|$)/.test(sender)
}

/** The same as SQL, for a row of `messages`. */
export const isTaskPromptSql = (row: string): string =>
  `(${row}.direction = 'in' and ${row}.jid like 'web:%' and (${row}.sender = 'timed' or ${row}.sender like 'timed-isolated:%'))`
