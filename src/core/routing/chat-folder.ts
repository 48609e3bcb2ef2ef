// The folder that a chat belongs to, for tasks and tools that name a chat. Not a step of routing a message.
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { groups } from '../groups/groups.ts'
import { linkJidOf } from '../links/visitor-chats.ts'
import type { RouteTable } from './route-table.ts'
import { isRouteWithin, parseRouteTarget } from './routes.ts'

/** A function, because the route table is read only for platform chats. */
type ReadRoutes = () => Promise<Pick<RouteTable, 'routesForChat'>>

export async function findChatFolder(tx: Tx, jid: string, readRoutes: ReadRoutes): Promise<string | undefined> {
  const named = await findNamedFolder(tx, jid)
  if (named !== undefined) return named
  for (const route of (await readRoutes()).routesForChat(jid)) {
    const target = parseRouteTarget(route.target)
    if (target?.kind === 'folder' && !target.name.includes('{sender}')) return target.name
  }
  return undefined
}

/** The folder of a chat that is a folder name or belongs to a link. See docs/decisions.md#legacy-links. */
async function findNamedFolder(tx: Tx, jid: string): Promise<string | undefined> {
  // Folder names contain no colon.
  if (!jid.includes(':')) return (await groups.find(tx, { folder: jid }))?.folder
  if (!isLinkChat(jid)) return undefined
  const [group] = await query(
    tx,
    { folder: text },
    `select folder from groups
     where folder = coalesce((select target_folder from route_tokens where jid = $1 limit 1), $2)`,
    [linkJidOf(jid), legacyLinkFolder(jid) ?? null],
  )
  return group?.folder
}

/** `web:<folder>` or `hook:<folder>/<name>`. */
export function legacyLinkFolder(jid: string): string | undefined {
  if (jid.startsWith('web:')) return linkJidOf(jid).slice(4)
  if (!jid.startsWith('hook:')) return undefined
  const rest = jid.slice(5)
  const last = rest.lastIndexOf('/')
  return last < 0 ? rest : rest.slice(0, last)
}

/** Whether a route can take messages of this chat into the folder or below it. */
export async function hasRouteInto(tx: Tx, jid: string, folder: string, readRoutes: ReadRoutes): Promise<boolean> {
  // Routes do not apply to link chats and folder names.
  if ((await findNamedFolder(tx, jid)) !== undefined) return false
  for (const { match, target } of (await readRoutes()).routesForChat(jid)) {
    if (isRouteWithin(folder, target)) return true
    // This route takes every message of the chat, so later routes never match.
    if (!/(^|\s)(sender|verb)=/.test(match)) return false
  }
  return false
}
