// Step 3 of routing: finds the first route that matches a message, by `seq` and then by id. The routes are compiled once per
// change of the table.
import { createHash } from 'node:crypto'
import { compileSegments, isGlob } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { routeStamp } from '../change-stamps.ts'
import { platformOf } from '../delivery/channel.ts'
import { basePlatformOf, shortNameOf } from '../delivery/platforms.ts'
import {
  MATCH_KEYS,
  parseRouteTarget,
  type Route,
  type RouteTarget,
  roomOf,
  routes,
  routeTargetFolder,
  splitMatch,
} from './routes.ts'

export interface RoutableMessage {
  readonly jid: string
  readonly sender: string
  readonly verb: string
}

export interface MatchedRoute {
  readonly route: Route
  /** With `{sender}` replaced. */
  readonly target: RouteTarget
}

interface ObserveWindows {
  readonly messages?: number | undefined
  readonly chars?: number | undefined
}

export interface RouteTable {
  /** All routes in order; the same list until a route changes. */
  readonly routes: readonly Route[]
  /** The routes to this folder in order, also those with a part for the sender. */
  routesTo(folder: string): readonly Route[]
  match(message: RoutableMessage): MatchedRoute | undefined
  /** The routes that can match messages of this chat, in order, whatever the sender and verb. */
  routesForChat(jid: string): Route[]
  /** The window sizes of the first route to this folder that sets them. */
  observeWindowsOf(folder: string): ObserveWindows
}

type MatchValues = Readonly<Record<(typeof MATCH_KEYS)[number], string>>
type MatchPredicate = (values: MatchValues) => boolean

interface CompiledRoute {
  readonly route: Route
  readonly target: RouteTarget
  readonly index: number
  readonly matches: MatchPredicate
}

export function compileRoutes(rows: readonly Route[]): RouteTable {
  const sorted = rows.toSorted((a, b) => a.seq - b.seq || a.id - b.id)
  // Nearly every route names one room or chat, so routes are looked up by it instead of matched one by one.
  const named = new Map<string, CompiledRoute[]>()
  const general: CompiledRoute[] = []
  const windows = new Map<string, ObserveWindows>()
  for (const [index, route] of sorted.entries()) {
    const target = parseRouteTarget(route.target)
    if (!target) continue
    const entry: CompiledRoute = { route, target, index, matches: compileLazily(route.match) }
    const key = literalKeyOf(route.match)
    if (key === undefined) general.push(entry)
    else {
      const known = named.get(key)
      if (known) known.push(entry)
      else named.set(key, [entry])
    }
    if (target.kind === 'folder') windows.set(target.name, mergeWindows(windows.get(target.name), route))
  }

  // Grouped on first use: only pages ask for it.
  let byFolder: ReadonlyMap<string, readonly Route[]> | undefined

  const candidatesOf = ({ room, chat_jid }: MatchValues): readonly (readonly CompiledRoute[])[] => [
    named.get(`room=${room}`) ?? [],
    named.get(`chat_jid=${chat_jid}`) ?? [],
    general,
  ]

  return {
    routes: sorted,
    routesTo: (folder) => {
      byFolder ??= Map.groupBy(sorted, ({ target }) => routeTargetFolder(target))
      return folder === '' ? [] : (byFolder.get(folder) ?? [])
    },
    match: (message) => {
      const values = valuesOf(message)
      let first: CompiledRoute | undefined
      for (const list of candidatesOf(values)) {
        const found = list.find((each) => (!first || each.index < first.index) && each.matches(values))
        if (found) first = found
      }
      return first && { route: first.route, target: expandSender(first.target, message) }
    },
    routesForChat: (jid) =>
      candidatesOf(valuesOf({ jid, sender: '', verb: '' }))
        .flat()
        .filter(({ route }) => matchesChat(route.match, jid))
        .sort((a, b) => a.index - b.index)
        .map(({ route }) => route),
    observeWindowsOf: (folder) => windows.get(folder) ?? {},
  }
}

/** Compiles on first use: of ten thousand routes only a few are ever tested. */
function compileLazily(match: string): MatchPredicate {
  let matches: MatchPredicate | undefined
  return (values) => {
    matches ??= compileMatch(match) ?? (() => false)
    return matches(values)
  }
}

function mergeWindows(known: ObserveWindows | undefined, route: Route): ObserveWindows {
  return {
    messages: known?.messages ?? (route.observe_window_messages || undefined),
    chars: known?.chars ?? (route.observe_window_chars || undefined),
  }
}

function valuesOf({ jid, sender, verb }: RoutableMessage): MatchValues {
  return { platform: platformOf(jid), room: roomOf(jid), chat_jid: jid, sender, verb }
}

/** Whether the route names its chat, without wildcards. */
export function isRouteOfChat({ match }: Route): boolean {
  return literalKeyOf(match) !== undefined
}

/** The `room=` or `chat_jid=` condition without wildcards. */
function literalKeyOf(match: string): string | undefined {
  return splitMatch(match).find(({ token }) => /^(room|chat_jid)=./s.test(token) && !isGlob(token))?.token
}

/** Undefined if a condition is malformed: such a route matches nothing rather than everything. */
function compileMatch(match: string, isTested: (key: string) => boolean = () => true): MatchPredicate | undefined {
  const conditions: MatchPredicate[] = []
  for (const { key: name, glob } of splitMatch(match)) {
    const key = MATCH_KEYS.find((known) => known === name)
    const matches = compileSegments(glob)
    if (key === undefined || !matches) return undefined
    // `key=` matches exactly the empty value, which no glob matches.
    if (isTested(key))
      conditions.push((values) => (glob === '' || values[key] === '' ? values[key] === glob : matches(values[key])))
  }
  return (values) => conditions.every((matches) => matches(values))
}

/** Whether the route can match messages of this chat. Ignores the conditions on `sender` and `verb`. */
export function matchesChat(match: string, jid: string): boolean {
  const matches = compileMatch(match, (key) => key !== 'sender' && key !== 'verb')
  return matches?.(valuesOf({ jid, sender: '', verb: '' })) ?? false
}

function expandSender(target: RouteTarget, { jid, sender }: RoutableMessage): RouteTarget {
  if (!target.name.includes('{sender}')) return target
  return { ...target, name: target.name.replaceAll('{sender}', senderSegment(sender, jid)) }
}

const SEGMENT_MAX = 64

/** The sender as a folder segment: always valid, and different for any two senders of a platform. */
export function senderSegment(sender: string, jid: string): string {
  const hasPlatform = /^[a-z][a-z0-9_-]*:/.test(sender)
  const platform = hasPlatform ? platformOf(sender) : platformOf(jid)
  const id = hasPlatform ? roomOf(sender) : sender
  const plain = id.replace(/[^A-Za-z0-9._-]/g, '-')
  const whole = `${shortNameOf(platform) || 'id'}-${plain}`
  const isAccount = basePlatformOf(platform) !== platform
  if (plain === id && id !== '' && whole.length <= SEGMENT_MAX && !isAccount) return whole
  // After replacing or cutting characters, or at two accounts, two senders may look the same: a hash tells them apart.
  const hash = createHash('sha256').update(`${platform}:${id}`).digest('hex').slice(0, 12)
  return `${whole.slice(0, SEGMENT_MAX - hash.length - 1).replace(/-$/, '')}-${hash}`
}

/** Caches the compiled table until a route changes. */
export class RouteTableCache {
  #stamp: string | undefined
  #table: RouteTable | undefined

  async read(tx: Tx): Promise<RouteTable> {
    const stamp = await routeStamp.read(tx)
    if (this.#table && stamp === this.#stamp) return this.#table
    this.#table = compileRoutes(await routes.list(tx))
    this.#stamp = stamp
    return this.#table
  }
}
