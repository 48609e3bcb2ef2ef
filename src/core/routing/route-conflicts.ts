// Whether a new route takes chats from folders that its writer does not reach. A chat belongs to every route that matches
// some of its messages, unless a route in front takes all of them.
import { compileSegments, isGlob, type Matcher, patternCovers, patternsMayOverlap } from '../../lib/text/glob.ts'
import { roomOf } from './routes.ts'

/** A route of the table, or with no id one that would be added at the end of its `seq`. */
export interface RouteCandidate {
  readonly id?: number | undefined
  readonly seq: number
  readonly match: string
}

/** The conditions of a match on the chat, without those on sender and verb: all of these globs hold. */
export interface ChatPattern {
  readonly platforms: readonly string[]
  readonly rooms: readonly string[]
  /** Globs of whole JIDs that cannot be split at the colon. */
  readonly jids: readonly string[]
  /** The room that it names, where one glob has no wildcard. */
  readonly room: string | undefined
}

export interface RouteScope<R extends RouteCandidate = RouteCandidate> {
  readonly route: R
  readonly pattern: ChatPattern
  /** The conditions on sender and verb. */
  readonly otherConditions: readonly { readonly key: string; readonly glob: string }[]
  /** It takes every message of its chats. */
  readonly takesAllMessages: boolean
}

/** Compared characters. A list of routes that needs more is refused, so that it cannot stall the process. */
const WORK_MAX = 10_000_000

export class RouteConflictChecker {
  readonly #outside = new ScopesByRoom()
  readonly #whole = new ScopesByRoom()
  readonly #globs = new GlobComparer(WORK_MAX)

  /** `isOutside`: whether a route leads to where the caller has no say. */
  constructor(routes: Iterable<RouteCandidate & { readonly target: string }>, isOutside: (target: string) => boolean) {
    for (const route of routes) {
      const claim = parseRouteScope(route)
      if (!claim) continue
      if (claim.takesAllMessages) this.#whole.add(claim)
      if (isOutside(route.target)) this.#outside.add(claim)
    }
  }

  /** Whether it would, or might, take any message of a chat that leads outside. */
  takesOutsideChats(route: RouteCandidate): boolean {
    const wanted = parseRouteScope(route)
    if (!wanted) return false
    for (const claim of this.#outside.overlapping(wanted.pattern))
      if (this.#globs.mayShareChats(wanted.pattern, claim.pattern) && !this.#isSettled(wanted, claim)) return true
    return false
  }

  /** A route in front of either of them takes all messages of the chats that both match, so nothing changes hands. */
  #isSettled(wanted: RouteScope, claim: RouteScope): boolean {
    for (const pattern of [wanted.pattern, claim.pattern])
      for (const whole of this.#whole.overlapping(pattern)) {
        const isInFront = isBefore(whole.route, wanted.route) || isBefore(whole.route, claim.route)
        if (isInFront && this.#globs.includes(whole.pattern, pattern)) return true
      }
    return false
  }
}

/** Compares globs, each compiled once, as long as there is work left; then in doubt everything meets and nothing covers. */
export class GlobComparer {
  readonly #matchers = new Map<string, Matcher>()
  #left: number

  constructor(work: number) {
    this.#left = work
  }

  get isExhausted(): boolean {
    return this.#left < 0
  }

  /** Whether some chat may match both. JIDs that cannot be split are left open. */
  mayShareChats(left: ChatPattern, right: ChatPattern): boolean {
    const meet = (globs: readonly string[], others: readonly string[]): boolean =>
      globs.every((glob) => others.every((other) => this.mayOverlap(glob, other)))
    return meet(left.platforms, right.platforms) && meet(left.rooms, right.rooms)
  }

  /** Whether the wide one surely matches every chat of the narrow one. */
  includes(wide: ChatPattern, narrow: ChatPattern): boolean {
    const include = (globs: readonly string[], inner: readonly string[]): boolean =>
      globs.every((glob) => inner.some((other) => this.covers(glob, other)))
    if (!include(wide.platforms, narrow.platforms) || !include(wide.rooms, narrow.rooms)) return false
    return wide.jids.every((glob) => narrow.jids.includes(glob))
  }

  mayOverlap(left: string, right: string): boolean {
    if (!isGlob(left)) return !this.#work(left.length + right.length) || this.#matcher(right)(left)
    if (!isGlob(right)) return !this.#work(left.length + right.length) || this.#matcher(left)(right)
    return !this.#work(left.length * right.length) || patternsMayOverlap(left, right)
  }

  covers(outer: string, inner: string): boolean {
    if (!this.#work(outer.length + inner.length)) return false
    return isGlob(inner) ? patternCovers(outer, inner) : this.#matcher(outer)(inner)
  }

  #work(amount: number): boolean {
    this.#left -= amount
    return this.#left >= 0
  }

  #matcher(glob: string): Matcher {
    const known = this.#matchers.get(glob) ?? compileSegments(glob) ?? (() => false)
    this.#matchers.set(glob, known)
    return known
  }
}

/** Claims by the room that they name, so that those of other rooms are not compared. */
export class ScopesByRoom<R extends RouteCandidate = RouteCandidate> {
  readonly #named = new Map<string, RouteScope<R>[]>()
  readonly #general: RouteScope<R>[] = []

  add(claim: RouteScope<R>): void {
    const { room } = claim.pattern
    const known = room === undefined ? this.#general : this.#named.get(room)
    if (known) known.push(claim)
    else if (room !== undefined) this.#named.set(room, [claim])
  }

  /** Those that may match a chat of the pattern. */
  *overlapping({ room }: ChatPattern): Iterable<RouteScope<R>> {
    yield* this.#general
    if (room !== undefined) yield* this.#named.get(room) ?? []
    else for (const claims of this.#named.values()) yield* claims
  }
}

export function isBefore(first: RouteCandidate, second: RouteCandidate): boolean {
  if (first.seq !== second.seq) return first.seq < second.seq
  return (first.id ?? Number.POSITIVE_INFINITY) < (second.id ?? Number.POSITIVE_INFINITY)
}

/** Nothing where no chat can match. */
export function parseRouteScope<R extends RouteCandidate>(route: R): RouteScope<R> | undefined {
  const pattern = { platforms: [] as string[], rooms: [] as string[], jids: [] as string[] }
  const others: { key: string; glob: string }[] = []
  for (const token of route.match.split(/\s+/).filter(Boolean)) {
    const [key, glob] = [token.slice(0, token.indexOf('=')), token.slice(token.indexOf('=') + 1)]
    if (key === 'sender' || key === 'verb') {
      others.push({ key, glob })
      continue
    }
    // No chat lacks any of these.
    if (glob === '') return undefined
    if (key === 'platform') pattern.platforms.push(glob)
    else if (key === 'room') pattern.rooms.push(glob)
    else if (key !== 'chat_jid') return undefined
    else if (/^[^*?[\\:/]+:./s.test(glob)) {
      pattern.platforms.push(glob.slice(0, glob.indexOf(':')))
      pattern.rooms.push(roomOf(glob))
    } else if (isGlob(glob)) pattern.jids.push(glob)
    else return undefined
  }
  const room = pattern.rooms.find((glob) => !isGlob(glob))
  return { route, otherConditions: others, takesAllMessages: others.length === 0, pattern: { ...pattern, room } }
}
