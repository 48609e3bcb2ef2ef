// Describes in words which messages a route takes and what happens to them, for the tool that inspects routing.
import { isGlob, patternCovers } from '../../lib/text/glob.ts'
import { isBefore } from './route-conflicts.ts'
import { type MatchCondition, parseRouteTarget, type Route, type RouteTarget, splitMatch } from './routes.ts'

interface RouteDescription {
  readonly mode: 'trigger' | 'observe' | 'daemon' | 'builtin'
  readonly fires_turn: boolean
  readonly triggers_on: string
  readonly explain: string
  /** The id of an earlier route that takes all messages of this one. */
  readonly shadowed_by?: number
}

type DescribedRoute = Route & RouteDescription

/** Describes the routes in `shown`. Any route in `all` may shadow one of them. */
export function describeRoutes(all: readonly Route[], shown: readonly Route[]): DescribedRoute[] {
  const byLiteral = groupByLiteral(all)
  return shown.map((route) => {
    const shadow = findShadow(byLiteral, route)
    return { ...route, ...describeRoute(route), ...(shadow ? { shadowed_by: shadow.id } : {}) }
  })
}

type RoutesByLiteral = ReadonlyMap<string, readonly Route[]>

const literalGroups = new WeakMap<readonly Route[], RoutesByLiteral>()

/**
 * A condition without wildcards can only shadow the same condition, so routes are looked up by their first such condition. Kept
 * with the list: pages ask again and again about the same routes.
 */
function groupByLiteral(all: readonly Route[]): RoutesByLiteral {
  const known = literalGroups.get(all)
  if (known) return known
  const groups = Map.groupBy(all, ({ match }) => splitMatch(match).find(({ glob }) => !isGlob(glob))?.token ?? '')
  literalGroups.set(all, groups)
  return groups
}

/** The first route that takes all messages of this one. */
function findShadow(byLiteral: RoutesByLiteral, route: Route): Route | undefined {
  const own = splitMatch(route.match)
  const others = [...new Set(['', ...own.map(({ token }) => token)])].flatMap((token) => byLiteral.get(token) ?? [])
  return others
    .filter((other) => isBefore(other, route) && coversAll(splitMatch(other.match), own))
    .reduce<Route | undefined>((first, other) => (first && isBefore(first, other) ? first : other), undefined)
}

/** Whether `wide` certainly matches everything that `narrow` matches. */
function coversAll(wide: readonly MatchCondition[], narrow: readonly MatchCondition[]): boolean {
  return wide.every(({ key, glob }) =>
    narrow.some(
      (inner) =>
        inner.key === key &&
        (inner.glob === glob || (inner.glob !== '' && glob !== '' && patternCovers(glob, inner.glob))),
    ),
  )
}

function describeRoute({ match, target }: Route): Omit<RouteDescription, 'shadowed_by'> {
  const parsed = parseRouteTarget(target)
  const mode = modeOf(parsed)
  const conditions = splitMatch(match)
  const verbs = conditions.filter(({ key }) => key === 'verb').map(({ glob }) => glob)
  const where = conditions.filter(({ key }) => key !== 'verb').map(({ token }) => token)
  const triggers_on = `${verbs.length ? verbs.join(' and ') : 'every message'} ${where.length ? `of ${where.join(' and ')}` : 'of any chat'}`
  return {
    mode,
    fires_turn: mode === 'trigger',
    triggers_on,
    explain: `${triggers_on.charAt(0).toUpperCase()}${triggers_on.slice(1)} ${describeEffect(mode, parsed)}.`,
  }
}

function modeOf(target: RouteTarget | undefined): RouteDescription['mode'] {
  if (target?.kind === 'daemon' || target?.kind === 'builtin') return target.kind
  return target?.fragment === 'observe' ? 'observe' : 'trigger'
}

function describeEffect(mode: RouteDescription['mode'], target: RouteTarget | undefined): string {
  const name = target?.name ?? ''
  if (mode === 'daemon') return `goes to the daemon ${name}`
  if (mode === 'builtin') return name === 'drop' ? 'is dropped' : `is answered by the built-in ${name}`
  if (mode === 'observe') return `is shown to ${name} as context, without starting a turn`
  return `starts a turn of ${name}${target?.fragment === undefined ? '' : ` in the topic ${target.fragment}`}`
}
