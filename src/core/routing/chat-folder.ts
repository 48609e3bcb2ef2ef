// The folder that a chat belongs to by default: what a task or a tool that names a chat speaks for.
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { groups } from '../groups/groups.ts'
import type { RouteTable } from './route-table.ts'
import { isWithin, parseRouteTarget } from './routes.ts'

/** Read only where nothing else says whose a chat is. */
type Routes = () => Promise<Pick<RouteTable, 'routesForChat'>>

export async function folderOfChat(tx: Tx, jid: string, routes: Routes): Promise<string | undefined> {
  return (await ownFolderOf(tx, jid)) ?? routedFolder(await routes(), jid)
}

/** A bare folder, or a link's chat: by the token's own record, else by the old reading of its JID (decision L6). */
async function ownFolderOf(tx: Tx, jid: string): Promise<string | undefined> {
  // No folder has a colon.
  if (!jid.includes(':')) return (await groups.find(tx, { folder: jid }))?.folder
  if (!isLinkChat(jid)) return undefined
  const [group] = await query(
    tx,
    { folder: text },
    `select folder from groups
     where folder = coalesce((select target_folder from route_tokens where jid = $1 limit 1), $2)`,
    [jid, legacyLinkFolder(jid) ?? null],
  )
  return group?.folder
}

/** `web:` all the rest is the folder; `hook:` all but the last segment. */
export function legacyLinkFolder(jid: string): string | undefined {
  if (jid.startsWith('web:')) return jid.slice(4)
  if (!jid.startsWith('hook:')) return undefined
  const rest = jid.slice(5)
  const last = rest.lastIndexOf('/')
  return last < 0 ? rest : rest.slice(0, last)
}

function routedFolder(routes: Pick<RouteTable, 'routesForChat'>, jid: string): string | undefined {
  for (const route of routes.routesForChat(jid)) {
    const target = parseRouteTarget(route.target)
    if (target?.kind === 'folder' && !target.name.includes('{sender}')) return target.name
  }
  return undefined
}

/** Whether any route takes messages of this chat into the folder or below it, whoever else has the chat. */
export async function hasRouteInto(tx: Tx, jid: string, folder: string, routes: Routes): Promise<boolean> {
  // No route leads away from a link's chat or a bare folder: one that names it gives nobody a say there.
  if ((await ownFolderOf(tx, jid)) !== undefined) return false
  for (const { match, target } of (await routes()).routesForChat(jid)) {
    if (isWithin(folder, target)) return true
    // It takes all of the chat: what stands behind it is never reached.
    if (!/(^|\s)(sender|verb)=/.test(match)) return false
  }
  return false
}
