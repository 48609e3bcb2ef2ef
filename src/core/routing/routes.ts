// The routes table: validation and parsing of routes. route-table.ts matches messages against it (step 3 of routing).
import { z } from 'zod'
import { compileSegments } from '../../lib/text/glob.ts'
import { Table } from '../../store/table.ts'
import { containsFolder } from '../access/tiers.ts'
import { routeStamp } from '../change-stamps.ts'
import { ObserveWindow } from '../groups/groups.ts'
import { checkedText, folderFault, Jid } from '../values.ts'

export const MATCH_KEYS = ['platform', 'room', 'chat_jid', 'sender', 'verb'] as const
const BUILTINS = ['drop', 'echo'] as const

export interface MatchCondition {
  readonly token: string
  /** Empty if the token is not `key=glob`. */
  readonly key: string
  readonly glob: string
}

export function splitMatch(match: string): MatchCondition[] {
  return match
    .split(/\s+/)
    .filter(Boolean)
    .map((token) => {
      const at = token.indexOf('=')
      return { token, key: token.slice(0, Math.max(at, 0)), glob: token.slice(at + 1) }
    })
}

/** Rejects malformed matches, so that a typo never becomes a catch-all. See docs/decisions.md#routing. */
export function routeMatchFault(match: string): string | undefined {
  if (match.length > 1024) return 'is longer than 1024 characters'
  for (const { token, key, glob } of splitMatch(match)) {
    if (key === '') return `has "${token}", which is not key=glob`
    if (!MATCH_KEYS.some((known) => known === key))
      return `has the unknown key "${key}"; keys are ${MATCH_KEYS.join(', ')}`
    if (!compileSegments(glob)) return `has "${token}", whose glob is malformed`
  }
  return undefined
}

export interface RouteTarget {
  kind: 'folder' | 'daemon' | 'builtin'
  name: string
  /** The part after `#`: `observe`, or a topic. */
  fragment?: string
}

/** Undefined if the target is invalid. `{sender}` is allowed in place of a segment. */
export function parseRouteTarget(target: string): RouteTarget | undefined {
  const [, prefix, rest = '', fragment] = /^(?:(folder|daemon|builtin):)?([^#]*)(?:#(.*))?$/s.exec(target) ?? []
  if (fragment !== undefined && !/^[^\s#\u0000-\u001f]{1,128}$/u.test(fragment)) return undefined
  const kind = prefix === 'daemon' || prefix === 'builtin' ? prefix : 'folder'
  if (kind === 'builtin' && !BUILTINS.some((name) => name === rest)) return undefined
  if (kind === 'daemon' && !/^[a-z][a-z0-9_-]{0,63}$/.test(rest)) return undefined
  if (kind === 'folder' && folderFault(rest.replaceAll('{sender}', 'sender'))) return undefined
  return { kind, name: rest, ...(fragment === undefined ? {} : { fragment }) }
}

/** Whether the target is in the subtree of `folder`; never for `daemon:` and `builtin:`. */
export function isRouteWithin(folder: string, target: string): boolean {
  const { kind, name = '' } = parseRouteTarget(target) ?? {}
  return kind === 'folder' && containsFolder(folder, name)
}

/** The folder whose rights a change of the route needs; empty (the instance) for `daemon:` and `builtin:`. */
export function routeTargetFolder(target: string): string {
  const { kind, name = '' } = parseRouteTarget(target) ?? {}
  if (kind !== 'folder') return ''
  const at = name.indexOf('{sender}')
  return at < 0 ? name : name.slice(0, Math.max(0, name.lastIndexOf('/', at)))
}

export const Route = z
  .object({
    id: z.int().meta({ readOnly: true }),
    seq: z.int().min(-1_000_000).max(1_000_000).describe('Lower is tried first'),
    match: checkedText(routeMatchFault, { maxLength: 1024, format: 'route-match' }).describe(
      `key=glob pairs separated by spaces, all of which must match; keys are ${MATCH_KEYS.join(', ')}; empty matches everything`,
    ),
    target: checkedText(
      (value) =>
        parseRouteTarget(value)
          ? undefined
          : 'must be a folder, or folder:<path>, daemon:<name>, builtin:drop or builtin:echo',
      { minLength: 1, format: 'route-target' },
    ).describe(
      'A folder, folder:<path>, daemon:<name>, builtin:drop or builtin:echo; {sender} in a folder is replaced by a segment for the sender, and #observe or #<topic> may follow',
    ),
    observe_window_messages: ObserveWindow.optional(),
    observe_window_chars: ObserveWindow.optional(),
    ack_reaction: z
      .string()
      .regex(/^[^\p{Cc}]{0,64}$/u, 'must be at most 64 characters without control characters')
      .optional()
      .describe('Reaction to messages that start a turn through this route, where the platform has reactions'),
  })
  .meta({ id: 'Routes' })
export type Route = z.output<typeof Route>

export const routes = new Table({
  name: 'routes',
  row: Route,
  key: 'id',
  storage: [
    (dialect) => [
      `create table routes (
         id ${dialect.counter}, seq integer not null, match text not null, target text not null,
         observe_window_messages integer, observe_window_chars integer, unique (seq, match, target))`,
    ],
    () => routeStamp.createStatements(),
    routeStamp.updateOnWrite('routes'),
    'alter table routes add column ack_reaction text',
  ],
})

/** The part after the first colon. */
export function roomOf(jid: string): string {
  return jid.slice(jid.indexOf(':') + 1)
}

/** The room must not contain glob characters: it becomes a glob in a route. */
export const RoutableJid = Jid.refine((jid) => !/[\s*?[\\]/.test(roomOf(jid)), {
  error: 'must not contain blanks, "*", "?", "[" or "\\\\": its room becomes a route\'s glob',
})

/** The routes of `svc group add`. A Discord guild channel starts turns on mentions; its other messages are observed. */
export function defaultRoutesFor(jid: string, folder: string): { seq: number; match: string; target: string }[] {
  const room = `room=${roomOf(jid)}`
  const isGuildChannel = jid.startsWith('discord:') && !jid.startsWith('discord:dm/')
  if (!isGuildChannel) return [{ seq: 0, match: room, target: folder }]
  return [
    { seq: -1, match: `${room} verb=mention`, target: folder },
    { seq: 0, match: room, target: `${folder}#observe` },
  ]
}
