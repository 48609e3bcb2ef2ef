// What a route does, in words: for whoever looks at the table and wonders why a message went where it went.
import type { z } from 'zod'
import { isGlob, patternCovers } from '../../lib/text/glob.ts'
import { parseRouteTarget, type Route, type RouteTarget } from './routes.ts'

type RouteRow = z.output<typeof Route>

export interface RouteDescription {
  readonly mode: 'trigger' | 'observe' | 'daemon' | 'builtin'
  readonly fires_turn: boolean
  /** Which messages it takes. */
  readonly triggers_on: string
  readonly explain: string
  /** The id of an earlier route that takes all that this one would. */
  readonly shadowed_by?: number
}

export type DescribedRoute = RouteRow & RouteDescription

/** These of all routes with their notes; all of them may shadow one. */
export function describeRoutes(all: readonly RouteRow[], shown: readonly RouteRow[]): DescribedRoute[] {
  const pairs = new Map(all.map((route) => [route.id, pairsOf(route.match)]))
  const pairsFor = ({ id }: RouteRow): readonly Pair[] => pairs.get(id) ?? []
  // What names a room or a chat without a glob can shadow only what names the same: looked up, not compared with each.
  const named = Map.groupBy(
    all,
    (route) =>
      pairsFor(route)
        .find(([, glob]) => !isGlob(glob))
        ?.join('=') ?? '',
  )
  const shadowOf = (route: RouteRow): RouteRow | undefined => {
    const keys = new Set(['', ...pairsFor(route).map((pair) => pair.join('='))])
    const others = [...keys].flatMap((key) => named.get(key) ?? [])
    return others
      .filter((other) => isBefore(other, route) && takesAll(pairsFor(other), pairsFor(route)))
      .reduce<RouteRow | undefined>((first, other) => (first && isBefore(first, other) ? first : other), undefined)
  }
  return shown.map((route) => {
    const shadow = shadowOf(route)
    return { ...route, ...notesOf(route), ...(shadow ? { shadowed_by: shadow.id } : {}) }
  })
}

type Pair = readonly [key: string, glob: string]

function pairsOf(match: string): Pair[] {
  return match
    .split(/\s+/)
    .filter(Boolean)
    .map((token) => [token.slice(0, token.indexOf('=')), token.slice(token.indexOf('=') + 1)])
}

function isBefore(other: RouteRow, route: RouteRow): boolean {
  return other.seq < route.seq || (other.seq === route.seq && other.id < route.id)
}

/** Whether whatever the narrow one matches is matched by the wide one. Where that is not plain, it is not said. */
function takesAll(wide: readonly Pair[], narrow: readonly Pair[]): boolean {
  return wide.every(([key, glob]) =>
    narrow.some(
      ([name, inner]) =>
        name === key && (inner === glob || (inner !== '' && glob !== '' && patternCovers(glob, inner))),
    ),
  )
}

function notesOf({ match, target }: RouteRow): Omit<RouteDescription, 'shadowed_by'> {
  const read = parseRouteTarget(target)
  const mode = modeOf(read)
  const pairs = pairsOf(match)
  const verbs = pairs.filter(([key]) => key === 'verb').map(([, glob]) => glob)
  const where = pairs.filter(([key]) => key !== 'verb').map((pair) => pair.join('='))
  const triggers_on = `${verbs.length ? verbs.join(' and ') : 'every message'} ${where.length ? `of ${where.join(' and ')}` : 'of any chat'}`
  return {
    mode,
    fires_turn: mode === 'trigger',
    triggers_on,
    explain: `${sentenceStart(triggers_on)} ${doneBy(mode, read)}.`,
  }
}

function modeOf(target: RouteTarget | undefined): RouteDescription['mode'] {
  if (target?.kind === 'daemon' || target?.kind === 'builtin') return target.kind
  return target?.fragment === 'observe' ? 'observe' : 'trigger'
}

function doneBy(mode: RouteDescription['mode'], target: RouteTarget | undefined): string {
  const name = target?.name ?? ''
  if (mode === 'daemon') return `goes to the daemon ${name}`
  if (mode === 'builtin') return name === 'drop' ? 'is dropped' : `is answered by the built-in ${name}`
  if (mode === 'observe') return `is kept for ${name} to see, without a turn`
  return `starts a turn of ${name}${target?.fragment === undefined ? '' : `, in the topic ${target.fragment}`}`
}

function sentenceStart(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
