// Whose chats a route may take: those that lead nowhere else, or to folders that its writer administers.
import { type ClaimedRoute, RouteClaims } from '../core/route-claims.ts'
import { routes, scopeOfTarget } from '../core/routes.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from './context.ts'
import { adminFilter, hasTool, INSTANCE } from './needs.ts'

/** Only the root and operators lead the chats of a folder elsewhere. */
export async function mustTakeNoChat(ctx: Context, wanted: readonly ClaimedRoute[]): Promise<void> {
  if (wanted.length === 0 || (await hasTool(ctx, INSTANCE))) return
  const mayAdmin = await adminFilter(ctx)
  const claims = new RouteClaims(await routes.list(ctx.tx), (target) => !mayAdmin(scopeOfTarget(target)))
  const taking = wanted.find((route) => claims.takes(route))
  if (taking) refuse('forbidden', `${ctx.tool}: not permitted: "${taking.match}" takes a chat of another folder`)
}
