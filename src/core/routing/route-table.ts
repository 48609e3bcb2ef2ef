// Choosing among the routes: the first that matches, by `seq` and then by age. Compiled once for each change of the table.
import { createHash } from 'node:crypto'
import type { z } from 'zod'
import { compileSegments, isGlob } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { routeStamp } from '../change-stamps.ts'
import { platformOf } from '../delivery/channel.ts'
import { shortNameOf } from '../delivery/platforms.ts'
import { MATCH_KEYS, parseRouteTarget, type Route, type RouteTarget, roomOf, routes } from './routes.ts'

type RouteRow = z.output<typeof Route>

/** What a route is held against. */
export interface RouteInput {
  readonly jid: string
  readonly sender: string
  readonly verb: string
}

export interface MatchedRoute {
  readonly route: RouteRow
  /** With `{sender}` replaced. */
  readonly target: RouteTarget
}

export interface ObserveWindows {
  readonly messages?: number | undefined
  readonly chars?: number | undefined
}

export interface RouteTable {
  match(said: RouteInput): MatchedRoute | undefined
  /** The routes about this chat, in their order, whoever speaks in it and however. */
  routesForChat(jid: string): RouteRow[]
  /** What the first route into this folder that says so lets it observe. */
  observeWindowsOf(folder: string): ObserveWindows
}

type Facts = Readonly<Record<(typeof MATCH_KEYS)[number], string>>
type MatchPredicate = (facts: Facts) => boolean

interface CompiledRoute {
  readonly route: RouteRow
  readonly target: RouteTarget
  readonly at: number
  readonly holds: MatchPredicate
}

export function compileRoutes(rows: readonly RouteRow[]): RouteTable {
  const sorted = rows.toSorted((a, b) => a.seq - b.seq || a.id - b.id)
  // Nearly every route names one room or one chat: looked up, those of other chats need no matching.
  const named = new Map<string, CompiledRoute[]>()
  const general: CompiledRoute[] = []
  const windows = new Map<string, ObserveWindows>()
  for (const [at, route] of sorted.entries()) {
    const target = parseRouteTarget(route.target)
    if (!target) continue
    const entry: CompiledRoute = { route, target, at, holds: whenAsked(route.match) }
    const key = keyOf(route.match)
    if (key === undefined) general.push(entry)
    else {
      const known = named.get(key)
      if (known) known.push(entry)
      else named.set(key, [entry])
    }
    if (target.kind === 'folder') windows.set(target.name, widened(windows.get(target.name), route))
  }

  const candidatesOf = ({ room, chat_jid }: Facts): readonly (readonly CompiledRoute[])[] => [
    named.get(`room=${room}`) ?? [],
    named.get(`chat_jid=${chat_jid}`) ?? [],
    general,
  ]

  return {
    match: (said) => {
      const facts = factsOf(said)
      let first: CompiledRoute | undefined
      for (const list of candidatesOf(facts)) {
        const found = list.find(({ at, holds }) => (first === undefined || at < first.at) && holds(facts))
        if (found) first = found
      }
      return first && { route: first.route, target: forSender(first.target, said) }
    },
    routesForChat: (jid) =>
      candidatesOf(factsOf({ jid, sender: '', verb: '' }))
        .flat()
        .filter(({ route }) => matchesChat(route.match, jid))
        .sort((a, b) => a.at - b.at)
        .map(({ route }) => route),
    observeWindowsOf: (folder) => windows.get(folder) ?? {},
  }
}

/** Compiled when first asked: of ten thousand routes, a handful are ever put to the question. */
function whenAsked(match: string): MatchPredicate {
  let holds: MatchPredicate | undefined
  return (facts) => {
    holds ??= compileMatch(match) ?? (() => false)
    return holds(facts)
  }
}

function widened(known: ObserveWindows | undefined, route: RouteRow): ObserveWindows {
  return {
    messages: known?.messages ?? (route.observe_window_messages || undefined),
    chars: known?.chars ?? (route.observe_window_chars || undefined),
  }
}

function factsOf({ jid, sender, verb }: RouteInput): Facts {
  return { platform: platformOf(jid), room: roomOf(jid), chat_jid: jid, sender, verb }
}

/** The room or the chat that a match names without a glob. */
function keyOf(match: string): string | undefined {
  return tokensOf(match).find((token) => /^(room|chat_jid)=./s.test(token) && !isGlob(token))
}

function tokensOf(match: string): string[] {
  return match.split(/\s+/).filter(Boolean)
}

/** All pairs must hold. Nothing where one is malformed: it must match nothing rather than everything (decision T1). */
function compileMatch(match: string, isAsked: (key: string) => boolean = () => true): MatchPredicate | undefined {
  const conditions: MatchPredicate[] = []
  for (const token of tokensOf(match)) {
    const at = token.indexOf('=')
    const key = MATCH_KEYS.find((known) => known === token.slice(0, at))
    const glob = token.slice(at + 1)
    const matches = compileSegments(glob)
    if (at < 1 || key === undefined || !matches) return undefined
    // Without a value only `key=` holds, and it holds for nothing else.
    if (isAsked(key))
      conditions.push((facts) => (glob === '' || facts[key] === '' ? facts[key] === glob : matches(facts[key])))
  }
  return (facts) => conditions.every((holds) => holds(facts))
}

/** Whether the route is about this chat, whoever speaks in it and however: `sender` and `verb` are left open. */
export function matchesChat(match: string, jid: string): boolean {
  const holds = compileMatch(match, (key) => key !== 'sender' && key !== 'verb')
  return holds?.(factsOf({ jid, sender: '', verb: '' })) ?? false
}

function forSender(target: RouteTarget, { jid, sender }: RouteInput): RouteTarget {
  if (!target.name.includes('{sender}')) return target
  return { ...target, name: target.name.replaceAll('{sender}', senderSegment(sender, jid)) }
}

const SEGMENT_MAX = 64

/** A person as a segment of a folder: always a valid one, and never the same for two people of a platform. */
export function senderSegment(sender: string, jid: string): string {
  const hasPlatform = /^[a-z][a-z0-9_-]*:/.test(sender)
  const platform = hasPlatform ? platformOf(sender) : platformOf(jid)
  const id = hasPlatform ? roomOf(sender) : sender
  const plain = id.replace(/[^A-Za-z0-9._-]/g, '-')
  const whole = `${shortNameOf(platform) || 'id'}-${plain}`
  if (plain === id && id !== '' && whole.length <= SEGMENT_MAX) return whole
  // Something was replaced or cut off, and somebody else's may look the same then.
  const mark = createHash('sha256').update(`${platform}:${id}`).digest('hex').slice(0, 12)
  return `${whole.slice(0, SEGMENT_MAX - mark.length - 1).replace(/-$/, '')}-${mark}`
}

/** The table as it stands in this transaction; compiled anew only when a row has changed. */
export class RouteTableCache {
  #stamp: string | undefined
  #table: RouteTable | undefined

  async read(tx: Tx): Promise<RouteTable> {
    const stamp = await routeStamp.read(tx)
    if (this.#table && stamp === this.#stamp) return this.#table
    this.#table = compileRoutes(
      await routes.list(tx, {}, [
        ['seq', 'asc'],
        ['id', 'asc'],
      ]),
    )
    this.#stamp = stamp
    return this.#table
  }
}
