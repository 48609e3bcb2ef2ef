// Resolves a bare folder given in place of a chat: messages go to the chat that last wrote to the folder.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'

export async function resolveChatJid(tx: Tx, name: string): Promise<string> {
  if (name.includes(':')) return name
  const [newest] = await query(
    tx,
    { jid: text },
    `select jid from inbox where folder = $1 and jid like '%:%' order by message_seq desc limit 1`,
    [name],
  )
  if (newest) return newest.jid
  return refuse('not_found', `no chat has written to the folder ${name} yet`, 'name a chat, such as web:team')
}
