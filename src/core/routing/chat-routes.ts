// Adds the routes that lead a chat to its group. They name only the room, unless another platform has a room of that name.
// See docs/decisions.md#routes-of-group-add.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { chats } from '../chats/chats.ts'
import { isLinkChat, platformOf } from '../delivery/channel.ts'
import { matchesChat } from './route-table.ts'
import { defaultRoutesFor, parseRouteTarget, Route, roomOf, routes, splitMatch } from './routes.ts'

type NewRoute = Omit<Route, 'id'>

export interface RoutePlan {
  /** Routes to create. */
  readonly added: readonly NewRoute[]
  /** Existing routes that get a lower `seq`. */
  readonly moved: readonly Pick<Route, 'id' | 'seq'>[]
  /** Another platform's chat with the same room name, because of which the match includes the platform. */
  readonly sharedWith?: string | undefined
  /** Earlier routes to other targets, because of which routes of the plan never match. */
  readonly inFront: readonly Route[]
  /** Routes to other targets that had the chat until now. */
  readonly overtaken: readonly Route[]
}

interface RoutePlanOptions {
  /** Puts the routes before every route to another target. */
  readonly isFirst?: boolean | undefined
  /** The match includes the platform even if no other platform has the room. */
  readonly namesPlatform?: boolean | undefined
}

/** Plans the routes from the chat to the folder. Idempotent. */
export async function planChatRoutes(
  tx: Tx,
  jid: string,
  folder: string,
  { isFirst = false, namesPlatform = false }: RoutePlanOptions = {},
): Promise<RoutePlan> {
  const ordered = await routes.list(tx, {}, [
    ['seq', 'asc'],
    ['id', 'asc'],
  ])
  const existing = ordered.filter(({ match }) => matchesChat(match, jid))
  const defaults = defaultRoutesFor(jid, folder)
  const sharedWith = await findSameRoom(tx, jid)
  const shift = seqShift(existing, defaults, { folder, room: roomOf(jid), isFirst, isShared: sharedWith !== undefined })
  const added: NewRoute[] = []
  const moved: Pick<Route, 'id' | 'seq'>[] = []
  const [inFront, overtaken] = [new Set<Route>(), new Set<Route>()]
  for (const route of defaults) {
    const scoped = { ...route, match: `platform=${platformOf(jid)} ${route.match}` }
    const [plain, narrow] = [route, scoped].map((wanted) => existing.find((other) => isSame(other, wanted)))
    const first = existing.find((other) => takesAll(other, route.match))
    const rival = first && !leadsTo(first, folder) ? first : undefined
    if ((plain || narrow) && !(rival && isFirst)) {
      if (rival) inFront.add(rival)
      continue
    }
    const seq = allowedSeq(route.seq - shift)
    // Moving a route without the platform to the front would also take the other platform's chat.
    const movable = sharedWith === undefined ? (plain ?? narrow) : narrow
    if (movable) moved.push({ id: movable.id, seq })
    else added.push({ ...(sharedWith === undefined && !namesPlatform ? route : scoped), seq })
    if (rival) (rival.seq <= seq ? inFront : overtaken).add(rival)
  }
  const isScoped = sharedWith !== undefined && added.length > 0
  return { added, moved, ...(isScoped ? { sharedWith } : {}), inFront: [...inFront], overtaken: [...overtaken] }
}

/** Returns the ids of the new routes. Records the chat, so that another platform's chat with the same room can be detected. */
export async function addChatRoutes(tx: Tx, jid: string, plan: RoutePlan): Promise<number[]> {
  const ids: number[] = []
  for (const route of plan.added) ids.push((await routes.insertReturning(tx, route)).id)
  for (const { id, seq } of plan.moved) await routes.update(tx, { id }, { seq })
  if (!isLinkChat(jid)) await chats.insertIfMissing(tx, { jid })
  return ids
}

/** Finds a chat of another platform with the same room name, in the chats and in the routes. */
async function findSameRoom(tx: Tx, jid: string): Promise<string | undefined> {
  const [room, platform] = [roomOf(jid), platformOf(jid)]
  const isOther = (other: string): boolean => roomOf(other) === room && platformOf(other) !== platform
  // LIKE is only a filter: it may ignore case, and rooms may contain colons.
  const pattern = `%:${room.replace(/[\\%_]/g, '\\$&')}`
  const sql = `select jid from chats where jid like $1 escape '\\' order by jid`
  const known = (await query(tx, { jid: text }, sql, [pattern])).map(({ jid }) => jid).find(isOther)
  if (known !== undefined) return known
  for (const { match } of await routes.list(tx)) {
    const values = Object.fromEntries(splitMatch(match).map(({ key, glob }) => [key, glob]))
    const named = values.chat_jid ?? (values.platform && values.room ? `${values.platform}:${values.room}` : '')
    if (isOther(named)) return named
  }
  return undefined
}

interface ShiftOptions {
  readonly folder: string
  readonly room: string
  readonly isFirst: boolean
  readonly isShared: boolean
}

/** How far to lower `seq` to come before routes for the same room on any platform or, if `isFirst`, before all rivals. */
function seqShift(
  existing: readonly Route[],
  defaults: readonly NewRoute[],
  { folder, room, isFirst, isShared }: ShiftOptions,
): number {
  if (!isFirst && !isShared) return 0
  const namesOnlyRoom = ({ match }: Route): boolean =>
    hasToken(match, `room=${room}`) && !splitMatch(match).some(({ key }) => key === 'platform')
  const isRival = (route: Route): boolean => defaults.some(({ match }) => takesAll(route, match))
  const passed = existing.filter(
    (route) => !leadsTo(route, folder) && (isFirst ? isRival(route) : namesOnlyRoom(route)),
  )
  const last = Math.max(...defaults.map(({ seq }) => seq))
  const lowest = Math.min(...passed.map(({ seq }) => seq))
  return Math.max(isShared ? 1 : 0, last - lowest + 1)
}

function allowedSeq(seq: number): number {
  return Route.shape.seq.safeParse(seq).success
    ? seq
    : refuse(
        'conflict',
        `the route would need the seq ${seq}, which is below the minimum`,
        'raise the seq of the other routes',
      )
}

function isSame(route: NewRoute, other: { match: string; target: string }): boolean {
  return route.match === other.match && route.target === other.target
}

/** Whether a route for the chat takes every message that a route with the match `wanted` would take. */
function takesAll({ match }: Route, wanted: string): boolean {
  const conditions = splitMatch(match).filter(({ key }) => key === 'sender' || key === 'verb')
  return conditions.every(({ token }) => hasToken(wanted, token))
}

function leadsTo({ target }: Route, folder: string): boolean {
  const parsed = parseRouteTarget(target)
  return parsed?.kind === 'folder' && parsed.name === folder
}

function hasToken(match: string, token: string): boolean {
  return splitMatch(match).some((condition) => condition.token === token)
}
