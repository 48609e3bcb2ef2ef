// Checks whether a new route takes chats from folders that its author has no rights to. A chat belongs to every route that
// matches some of its messages, unless an earlier route takes all of them.
import { compileSegments, isGlob, type Matcher, patternCovers, patternsMayOverlap } from '../../lib/text/glob.ts'
import { roomOf, splitMatch } from './routes.ts'

/** A route; without an id, one that would be added after the others with its `seq`. */
export interface RouteCandidate {
  readonly id?: number | undefined
  readonly seq: number
  readonly match: string
}

/** The conditions of a match on the chat, without those on sender and verb. All globs must match. */
interface ChatPattern {
  readonly platforms: readonly string[]
  readonly rooms: readonly string[]
  /** Globs of whole JIDs, whose platform contains wildcards. */
  readonly jids: readonly string[]
  /** The room, if a glob has no wildcards. */
  readonly room: string | undefined
}

export interface RouteScope<R extends RouteCandidate = RouteCandidate> {
  readonly route: R
  readonly pattern: ChatPattern
  /** Conditions on sender and verb. */
  readonly otherConditions: readonly { readonly key: string; readonly glob: string }[]
  /** Whether it takes every message of its chats. */
  readonly takesWholeChats: boolean
}

/** Limit on compared characters. Beyond it a route counts as conflicting, so that a long list cannot stall the process. */
const WORK_MAX = 10_000_000

export class RouteConflictChecker {
  readonly #outside = new ScopesByRoom()
  readonly #wholeChats = new ScopesByRoom()
  readonly #globs = new GlobComparer(WORK_MAX)

  /** `isOutside`: whether the caller has no rights to the target. */
  constructor(routes: Iterable<RouteCandidate & { readonly target: string }>, isOutside: (target: string) => boolean) {
    for (const route of routes) {
      const scope = parseRouteScope(route)
      if (!scope) continue
      if (scope.takesWholeChats) this.#wholeChats.add(scope)
      if (isOutside(route.target)) this.#outside.add(scope)
    }
  }

  /** Whether the route could take any message of a chat that belongs to an outside route. */
  takesOutsideChats(route: RouteCandidate): boolean {
    const wanted = parseRouteScope(route)
    if (!wanted) return false
    for (const scope of this.#outside.overlapping(wanted.pattern))
      if (this.#globs.mayShareChats(wanted.pattern, scope.pattern) && !this.#isPreempted(wanted, scope)) return true
    return false
  }

  /** Whether an earlier route takes all messages of the chats that both match, so that the new route changes nothing. */
  #isPreempted(wanted: RouteScope, other: RouteScope): boolean {
    for (const pattern of [wanted.pattern, other.pattern])
      for (const whole of this.#wholeChats.overlapping(pattern)) {
        const isEarlier = isBefore(whole.route, wanted.route) || isBefore(whole.route, other.route)
        if (isEarlier && this.#globs.includes(whole.pattern, pattern)) return true
      }
    return false
  }
}

/** Compares globs and caches their matchers. Beyond its work limit, all globs may overlap and none covers another. */
export class GlobComparer {
  readonly #matchers = new Map<string, Matcher>()
  #workLeft: number

  constructor(workMax: number) {
    this.#workLeft = workMax
  }

  get isExhausted(): boolean {
    return this.#workLeft < 0
  }

  /** Whether some chat may match both patterns. Ignores globs of whole JIDs. */
  mayShareChats(left: ChatPattern, right: ChatPattern): boolean {
    const mayMeet = (globs: readonly string[], others: readonly string[]): boolean =>
      globs.every((glob) => others.every((other) => this.mayOverlap(glob, other)))
    return mayMeet(left.platforms, right.platforms) && mayMeet(left.rooms, right.rooms)
  }

  /** Whether `wide` certainly matches every chat that `narrow` matches. */
  includes(wide: ChatPattern, narrow: ChatPattern): boolean {
    const coversSome = (globs: readonly string[], inner: readonly string[]): boolean =>
      globs.every((glob) => inner.some((other) => this.covers(glob, other)))
    if (!coversSome(wide.platforms, narrow.platforms) || !coversSome(wide.rooms, narrow.rooms)) return false
    return wide.jids.every((glob) => narrow.jids.includes(glob))
  }

  mayOverlap(left: string, right: string): boolean {
    if (!isGlob(left)) return !this.#spend(left.length + right.length) || this.#matcher(right)(left)
    if (!isGlob(right)) return !this.#spend(left.length + right.length) || this.#matcher(left)(right)
    return !this.#spend(left.length * right.length) || patternsMayOverlap(left, right)
  }

  covers(outer: string, inner: string): boolean {
    // In a match, `key=` takes exactly the empty value, which no other glob takes.
    if (outer === '' || inner === '') return outer === inner
    if (!this.#spend(outer.length + inner.length)) return false
    return isGlob(inner) ? patternCovers(outer, inner) : this.#matcher(outer)(inner)
  }

  /** Returns false once the limit is exceeded. */
  #spend(amount: number): boolean {
    this.#workLeft -= amount
    return this.#workLeft >= 0
  }

  #matcher(glob: string): Matcher {
    const known = this.#matchers.get(glob) ?? compileSegments(glob) ?? (() => false)
    this.#matchers.set(glob, known)
    return known
  }
}

/** Scopes by the room that they name, so that scopes of different rooms are not compared. */
export class ScopesByRoom<R extends RouteCandidate = RouteCandidate> {
  readonly #named = new Map<string, RouteScope<R>[]>()
  readonly #general: RouteScope<R>[] = []

  add(scope: RouteScope<R>): void {
    const { room } = scope.pattern
    const known = room === undefined ? this.#general : this.#named.get(room)
    if (known) known.push(scope)
    else if (room !== undefined) this.#named.set(room, [scope])
  }

  /** The scopes that may match a chat of the pattern. */
  *overlapping({ room }: ChatPattern): Iterable<RouteScope<R>> {
    yield* this.#general
    if (room !== undefined) yield* this.#named.get(room) ?? []
    else for (const scopes of this.#named.values()) yield* scopes
  }
}

export function isBefore(first: RouteCandidate, second: RouteCandidate): boolean {
  if (first.seq !== second.seq) return first.seq < second.seq
  return (first.id ?? Number.POSITIVE_INFINITY) < (second.id ?? Number.POSITIVE_INFINITY)
}

/** Undefined if no chat can match. */
export function parseRouteScope<R extends RouteCandidate>(route: R): RouteScope<R> | undefined {
  const pattern = { platforms: [] as string[], rooms: [] as string[], jids: [] as string[] }
  const otherConditions: { key: string; glob: string }[] = []
  for (const { key, glob } of splitMatch(route.match)) {
    if (key === 'sender' || key === 'verb') {
      otherConditions.push({ key, glob })
      continue
    }
    // No chat has an empty platform, room or JID.
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
  return { route, otherConditions, takesWholeChats: otherConditions.length === 0, pattern: { ...pattern, room } }
}
