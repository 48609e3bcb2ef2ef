// The folder that a chat belongs to by default: what a task or a tool that names a chat speaks for.
import { compileSegments } from '../lib/glob.ts'
import type { Tx } from '../store/engine.ts'
import { groups } from './groups.ts'
import { routeTokens } from './route-tokens.ts'
import { readTarget, roomOf, routes } from './routes.ts'

export async function folderOfChat(tx: Tx, jid: string): Promise<string | undefined> {
  return (await ownFolderOf(tx, jid)) ?? (await routedFolder(tx, jid))
}

/** A bare folder, or a link's chat: by the token's own record, else by the old reading of its JID (decision L6). */
async function ownFolderOf(tx: Tx, jid: string): Promise<string | undefined> {
  const named = await groups.find(tx, { folder: jid })
  if (named) return named.folder
  if (!/^(web|hook):/.test(jid)) return undefined
  const folder = (await routeTokens.find(tx, { jid }))?.target_folder ?? oldReading(jid)
  return folder === undefined ? undefined : (await groups.find(tx, { folder }))?.folder
}

/** `web:` all the rest is the folder; `hook:` all but the last segment. */
export function oldReading(jid: string): string | undefined {
  if (jid.startsWith('web:')) return jid.slice(4)
  if (!jid.startsWith('hook:')) return undefined
  const rest = jid.slice(5)
  const last = rest.lastIndexOf('/')
  return last < 0 ? rest : rest.slice(0, last)
}

async function routedFolder(tx: Tx, jid: string): Promise<string | undefined> {
  const about: Record<string, string> = { platform: jid.slice(0, jid.indexOf(':')), room: roomOf(jid), chat_jid: jid }
  for (const route of await routes.list(tx, {}, [
    ['seq', 'asc'],
    ['id', 'asc'],
  ])) {
    if (!concerns(route.match, about)) continue
    const target = readTarget(route.target)
    if (target?.kind === 'folder' && !target.name.includes('{sender}')) return target.name
  }
  return undefined
}

/** Whether the route is about this chat, whoever speaks in it and however: `sender` and `verb` are left open. */
function concerns(match: string, about: Readonly<Record<string, string>>): boolean {
  const tokens = match.split(/\s+/).filter(Boolean)
  return tokens.every((token) => {
    const at = token.indexOf('=')
    const [key, glob] = [token.slice(0, at), token.slice(at + 1)]
    if (key === 'sender' || key === 'verb') return true
    const value = about[key] ?? ''
    if (glob === '' || value === '') return glob === value
    return compileSegments(glob)?.(value) ?? false
  })
}
