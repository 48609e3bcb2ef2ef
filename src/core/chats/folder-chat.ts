// The chat that is meant where a bare folder stands in the place of one. It is no chat of a platform: what is said there
// goes where its people last wrote.
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
  return refuse('not_found', `${name} is a folder that no chat has written to yet`, 'name a chat, such as web:team')
}
