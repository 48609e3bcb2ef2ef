// The routes that lead a chat to its group. They name the room alone, as long as no other platform has a room of that name.
import type { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { chats } from '../chats/chats.ts'
import { isLinkChat, platformOf } from '../delivery/channel.ts'
import { matchesChat } from './route-table.ts'
import { defaultRoutesFor, parseRouteTarget, Route, roomOf, routes } from './routes.ts'

type RouteRow = z.output<typeof Route>
type NewRoute = Omit<RouteRow, 'id'>

export interface RoutePlan {
  /** Routes that are not there yet. */
  readonly added: readonly NewRoute[]
  /** Routes that are there and get a lower `seq`. */
  readonly moved: readonly Pick<RouteRow, 'id' | 'seq'>[]
  /** The other chat with the same room, because of which the match names the platform too. */
  readonly sharedWith?: string | undefined
  /** Routes to elsewhere in front of those of the plan, which therefore never fire. */
  readonly inFront: readonly RouteRow[]
  /** Routes to elsewhere that had the chat until now. */
  readonly overtaken: readonly RouteRow[]
}

/** What leads the chat to the folder. Repeated, it changes nothing. `isFirst`: in front of every route that takes it elsewhere. */
export async function planChatRoutes(tx: Tx, jid: string, folder: string, isFirst = false): Promise<RoutePlan> {
  const about = (await inOrder(tx)).filter(({ match }) => matchesChat(match, jid))
  const specified = defaultRoutesFor(jid, folder)
  const sharedWith = await otherChat(tx, jid)
  const shift = shiftOf(about, specified, { folder, room: roomOf(jid), isFirst, isShared: sharedWith !== undefined })
  const added: NewRoute[] = []
  const moved: Pick<RouteRow, 'id' | 'seq'>[] = []
  const [inFront, overtaken] = [new Set<RouteRow>(), new Set<RouteRow>()]
  for (const route of specified) {
    const scoped = { ...route, match: `platform=${platformOf(jid)} ${route.match}` }
    const [plain, narrow] = [route, scoped].map((wanted) => about.find((other) => isSame(other, wanted)))
    const first = about.find((other) => takes(other, route.match))
    const rival = first && !leadsTo(first, folder) ? first : undefined
    if ((plain || narrow) && !(rival && isFirst)) {
      if (rival) inFront.add(rival)
      continue
    }
    const seq = allowedSeq(route.seq - shift)
    // In front, one without the platform would take the chat of the other, too.
    const movable = sharedWith === undefined ? (plain ?? narrow) : narrow
    if (movable) moved.push({ id: movable.id, seq })
    else added.push({ ...(sharedWith === undefined ? route : scoped), seq })
    if (rival) (rival.seq <= seq ? inFront : overtaken).add(rival)
  }
  const isScoped = sharedWith !== undefined && added.length > 0
  return { added, moved, ...(isScoped ? { sharedWith } : {}), inFront: [...inFront], overtaken: [...overtaken] }
}

/** The ids of the routes that are new. The chat is remembered, so that a chat of another platform with the same room is told apart. */
export async function addChatRoutes(tx: Tx, jid: string, plan: RoutePlan): Promise<number[]> {
  const ids: number[] = []
  for (const route of plan.added) ids.push((await routes.insertReturning(tx, route)).id)
  for (const { id, seq } of plan.moved) await routes.update(tx, { id }, { seq })
  if (!isLinkChat(jid)) await chats.insertIfMissing(tx, { jid })
  return ids
}

function inOrder(tx: Tx): Promise<RouteRow[]> {
  return routes.list(tx, {}, [
    ['seq', 'asc'],
    ['id', 'asc'],
  ])
}

/** A chat of another platform whose room has the same name, by the chats and the routes that name one. */
async function otherChat(tx: Tx, jid: string): Promise<string | undefined> {
  const [room, platform] = [roomOf(jid), platformOf(jid)]
  const isOther = (other: string): boolean => roomOf(other) === room && platformOf(other) !== platform
  // The pattern narrows; capitals and the first colon are compared exactly.
  const pattern = `%:${room.replace(/[\\%_]/g, '\\$&')}`
  const sql = `select jid from chats where jid like $1 escape '\\' order by jid`
  const known = (await query(tx, { jid: text }, sql, [pattern])).map(({ jid }) => jid).find(isOther)
  if (known !== undefined) return known
  for (const { match } of await routes.list(tx)) {
    const values = Object.fromEntries(tokensOf(match).map((token) => token.split(/=(.*)/s)))
    const named = values.chat_jid ?? (values.platform && values.room ? `${values.platform}:${values.room}` : '')
    if (isOther(named)) return named
  }
  return undefined
}

interface Placing {
  readonly folder: string
  readonly room: string
  readonly isFirst: boolean
  readonly isShared: boolean
}

/** By how much `seq` is lowered: below what names the same room of any platform, or below all that takes the chat elsewhere. */
function shiftOf(
  about: readonly RouteRow[],
  specified: readonly NewRoute[],
  { folder, room, isFirst, isShared }: Placing,
): number {
  if (!isFirst && !isShared) return 0
  const namesRoom = ({ match }: RouteRow): boolean =>
    tokensOf(match).includes(`room=${room}`) && !tokensOf(match).some((token) => token.startsWith('platform='))
  const isRival = (route: RouteRow): boolean => specified.some(({ match }) => takes(route, match))
  const passed = about.filter((route) => !leadsTo(route, folder) && (isFirst ? isRival(route) : namesRoom(route)))
  const last = Math.max(...specified.map(({ seq }) => seq))
  const lowest = Math.min(...passed.map(({ seq }) => seq))
  return Math.max(isShared ? 1 : 0, last - lowest + 1)
}

function allowedSeq(seq: number): number {
  return Route.shape.seq.safeParse(seq).success
    ? seq
    : refuse('conflict', `a route in front would need the seq ${seq}, which is too low`, 'raise the seq of the others')
}

function isSame(route: NewRoute, other: { match: string; target: string }): boolean {
  return route.match === other.match && route.target === other.target
}

/** Whether a route about the chat takes every message that a route of `match` would take. */
function takes({ match }: RouteRow, wanted: string): boolean {
  const conditions = tokensOf(match).filter((token) => /^(?:sender|verb)=/.test(token))
  const given = tokensOf(wanted)
  return conditions.every((token) => given.includes(token))
}

function leadsTo({ target }: RouteRow, folder: string): boolean {
  const read = parseRouteTarget(target)
  return read?.kind === 'folder' && read.name === folder
}

function tokensOf(match: string): string[] {
  return match.split(/\s+/).filter(Boolean)
}
