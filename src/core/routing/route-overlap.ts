// Routes that get in each other's way: those that never match because an earlier one takes all of their messages, and those
// that claim the same chats with the same `seq`, so that only their age decides.
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

export interface RoutePair {
  readonly route: OrderedRoute
  /** The one that is tried before it. */
  readonly before: OrderedRoute
}

export interface RouteOverlaps {
  /** No message can match these. */
  readonly unmatchable: readonly OrderedRoute[]
  readonly shadowed: readonly RoutePair[]
  readonly contested: readonly RoutePair[]
}

/** Compared characters; what needs more is not looked at. */
const WORK_MAX = 50_000_000

export function routeOverlaps(routes: readonly OrderedRoute[]): RouteOverlaps {
  const globs = new GlobComparer(WORK_MAX)
  const earlier = new ScopesByRoom<OrderedRoute>()
  const unmatchable: OrderedRoute[] = []
  const shadowed: RoutePair[] = []
  const contested: RoutePair[] = []
  for (const route of routes.toSorted((a, b) => (isBefore(a, b) ? -1 : 1))) {
    const claim = parseRouteScope(route)
    if (!claim) {
      unmatchable.push(route)
      continue
    }
    const met = [...earlier.overlapping(claim.pattern)]
    const shadow = met.find((each) => coversAll(globs, each, claim))
    if (shadow) shadowed.push({ route, before: shadow.route })
    else {
      const rival = met.find((each) => isRival(each, claim) && globs.mayShareChats(each.pattern, claim.pattern))
      if (rival && !globs.isExhausted) contested.push({ route, before: rival.route })
    }
    earlier.add(claim)
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

/** Both take whole chats, with the same `seq`, to different places. */
function isRival(first: RouteScope<OrderedRoute>, second: RouteScope<OrderedRoute>): boolean {
  const nameOf = ({ route }: RouteScope<OrderedRoute>): string => parseRouteTarget(route.target)?.name ?? ''
  return (
    first.takesAllMessages &&
    second.takesAllMessages &&
    first.route.seq === second.route.seq &&
    nameOf(first) !== nameOf(second)
  )
}
