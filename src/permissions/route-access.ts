// Which chats a new route may match: those without a route, or routed to folders that the caller administers.
import { type RouteCandidate, RouteConflictChecker } from '../core/routing/route-conflicts.ts'
import { routes, routeTargetFolder } from '../core/routing/routes.ts'
import { refuse } from '../lib/refusal.ts'
import { adminFilter, hasTool, INSTANCE_SCOPE } from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'

/** Only the root and operators may reroute chats of other folders. */
export async function mustNotTakeOverChats(ctx: Context, candidates: readonly RouteCandidate[]): Promise<void> {
  if (candidates.length === 0 || (await hasTool(ctx, INSTANCE_SCOPE))) return
  const mayAdmin = await adminFilter(ctx)
  const checker = new RouteConflictChecker(await routes.list(ctx.tx), (target) => !mayAdmin(routeTargetFolder(target)))
  const conflict = candidates.find((route) => checker.takesOutsideChats(route))
  if (conflict) refuse('forbidden', `${ctx.tool}: not permitted: "${conflict.match}" takes a chat of another folder`)
}
