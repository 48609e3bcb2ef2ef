// Finds routes that conflict, for `svc doctor`: routes that never match because an earlier one takes all their messages, and
// routes for the same chats with the same `seq`, whose order depends only on their ids.
import {
  GlobComparer,
  isBefore,
  parseRouteScope,
  type RouteCandidate,
  type RouteScope,
  ScopesByRoom,
} from './route-conflicts.ts'
import { parseRouteTarget } from './routes.ts'

export interface OrderedRoute extends RouteCandidate {
  readonly id: number
  readonly target: string
}

interface RoutePair {
  readonly route: OrderedRoute
  readonly before: OrderedRoute
}

export interface RouteOverlaps {
  /** Routes that no message can match. */
  readonly unmatchable: readonly OrderedRoute[]
  readonly shadowed: readonly RoutePair[]
  readonly contested: readonly RoutePair[]
}

/** Limit on compared characters; beyond it, conflicts are not reported. */
const WORK_MAX = 50_000_000

export function findRouteOverlaps(routes: readonly OrderedRoute[]): RouteOverlaps {
  const globs = new GlobComparer(WORK_MAX)
  const earlier = new ScopesByRoom<OrderedRoute>()
  const unmatchable: OrderedRoute[] = []
  const shadowed: RoutePair[] = []
  const contested: RoutePair[] = []
  for (const route of routes.toSorted((a, b) => (isBefore(a, b) ? -1 : 1))) {
    const scope = parseRouteScope(route)
    if (!scope) {
      unmatchable.push(route)
      continue
    }
    const overlapping = [...earlier.overlapping(scope.pattern)]
    const shadow = overlapping.find((each) => coversAll(globs, each, scope))
    if (shadow) shadowed.push({ route, before: shadow.route })
    else {
      const rival = overlapping.find((each) => isRival(each, scope) && globs.mayShareChats(each.pattern, scope.pattern))
      if (rival && !globs.isExhausted) contested.push({ route, before: rival.route })
    }
    earlier.add(scope)
  }
  return { unmatchable, shadowed, contested }
}

/** Whether the first takes every message that the second matches. */
function coversAll(globs: GlobComparer, first: RouteScope, second: RouteScope): boolean {
  if (!globs.includes(first.pattern, second.pattern)) return false
  return first.otherConditions.every(({ key, glob }) =>
    second.otherConditions.some((other) => other.key === key && globs.covers(glob, other.glob)),
  )
}

/** Both take whole chats with the same `seq` to different targets. */
function isRival(first: RouteScope<OrderedRoute>, second: RouteScope<OrderedRoute>): boolean {
  const nameOf = ({ route }: RouteScope<OrderedRoute>): string => parseRouteTarget(route.target)?.name ?? ''
  return (
    first.takesWholeChats &&
    second.takesWholeChats &&
    first.route.seq === second.route.seq &&
    nameOf(first) !== nameOf(second)
  )
}
