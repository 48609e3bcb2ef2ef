// Whose chats a route may take: those that lead nowhere else, or to folders that its writer administers.
import { type RouteCandidate, RouteConflictChecker } from '../core/routing/route-conflicts.ts'
import { routes, routeTargetFolder } from '../core/routing/routes.ts'
import { refuse } from '../lib/refusal.ts'
import { adminFilter, hasTool, INSTANCE_SCOPE } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'

/** Only the root and operators lead the chats of a folder elsewhere. */
export async function mustNotTakeOverChats(ctx: Context, wanted: readonly RouteCandidate[]): Promise<void> {
  if (wanted.length === 0 || (await hasTool(ctx, INSTANCE_SCOPE))) return
  const mayAdmin = await adminFilter(ctx)
  const claims = new RouteConflictChecker(await routes.list(ctx.tx), (target) => !mayAdmin(routeTargetFolder(target)))
  const taking = wanted.find((route) => claims.takesOutsideChats(route))
  if (taking) refuse('forbidden', `${ctx.tool}: not permitted: "${taking.match}" takes a chat of another folder`)
}
