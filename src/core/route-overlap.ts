// Routes that get in each other's way: those that never match because an earlier one takes all of their messages, and those
// that claim the same chats with the same `seq`, so that only their age decides.
import { ByRoom, type Claim, type ClaimedRoute, claimOf, GlobComparison, isBefore } from './route-claims.ts'
import { readTarget } from './routes.ts'

export interface OrderedRoute extends ClaimedRoute {
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
  const globs = new GlobComparison(WORK_MAX)
  const earlier = new ByRoom<OrderedRoute>()
  const unmatchable: OrderedRoute[] = []
  const shadowed: RoutePair[] = []
  const contested: RoutePair[] = []
  for (const route of routes.toSorted((a, b) => (isBefore(a, b) ? -1 : 1))) {
    const claim = claimOf(route)
    if (!claim) {
      unmatchable.push(route)
      continue
    }
    const met = [...earlier.meeting(claim.pattern)]
    const shadow = met.find((each) => coversAll(globs, each, claim))
    if (shadow) shadowed.push({ route, before: shadow.route })
    else {
      const rival = met.find((each) => isRival(each, claim) && globs.mayShare(each.pattern, claim.pattern))
      if (rival && !globs.isExhausted) contested.push({ route, before: rival.route })
    }
    earlier.add(claim)
  }
  return { unmatchable, shadowed, contested }
}

/** Whether the first takes every message that the second matches. */
function coversAll(globs: GlobComparison, first: Claim, second: Claim): boolean {
  if (!globs.includes(first.pattern, second.pattern)) return false
  return first.others.every(({ key, glob }) =>
    second.others.some((other) => other.key === key && globs.covers(glob, other.glob)),
  )
}

/** Both take whole chats, with the same `seq`, to different places. */
function isRival(first: Claim<OrderedRoute>, second: Claim<OrderedRoute>): boolean {
  const nameOf = ({ route }: Claim<OrderedRoute>): string => readTarget(route.target)?.name ?? ''
  return first.isWhole && second.isWhole && first.route.seq === second.route.seq && nameOf(first) !== nameOf(second)
}
