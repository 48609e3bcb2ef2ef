// Routes: which folder a message goes to. The rules for writing one stand here; choosing among them is routing's.
import { z } from 'zod'
import { compileSegments } from '../../lib/text/glob.ts'
import { Table } from '../../store/table.ts'
import { containsFolder } from '../access/tiers.ts'
import { routeStamp } from '../change-stamps.ts'
import { ObserveWindow } from '../groups/groups.ts'
import { folderFault, text } from '../values.ts'

export const MATCH_KEYS = ['platform', 'room', 'chat_jid', 'sender', 'verb'] as const
export const BUILTINS = ['drop', 'echo'] as const

/** Why a `match` must not be stored, or nothing: a typo must never become a catch-all (decision T1). */
export function matchFault(match: string): string | undefined {
  if (match.length > 1024) return 'is longer than 1024 characters'
  for (const token of match.split(/\s+/).filter(Boolean)) {
    const at = token.indexOf('=')
    if (at < 1) return `has "${token}", which is not key=glob`
    const key = token.slice(0, at)
    if (!MATCH_KEYS.some((known) => known === key))
      return `has the unknown key "${key}"; keys are ${MATCH_KEYS.join(', ')}`
    if (!compileSegments(token.slice(at + 1))) return `has "${token}", whose glob is malformed`
  }
  return undefined
}

export interface RouteTarget {
  kind: 'folder' | 'daemon' | 'builtin'
  name: string
  /** What follows `#`: `observe`, or a topic. */
  fragment?: string
}

/** A target as its parts; `{sender}` stands for one segment. Nothing when it is none. */
export function parseRouteTarget(target: string): RouteTarget | undefined {
  const [, prefix, rest = '', fragment] = /^(?:(folder|daemon|builtin):)?([^#]*)(?:#(.*))?$/s.exec(target) ?? []
  if (fragment !== undefined && !/^[^\s#\u0000-\u001f]{1,128}$/u.test(fragment)) return undefined
  const kind = prefix === 'daemon' || prefix === 'builtin' ? prefix : 'folder'
  if (kind === 'builtin' && !BUILTINS.some((name) => name === rest)) return undefined
  if (kind === 'daemon' && !/^[a-z][a-z0-9_-]{0,63}$/.test(rest)) return undefined
  if (kind === 'folder' && folderFault(rest.replaceAll('{sender}', 'sender'))) return undefined
  return { kind, name: rest, ...(fragment === undefined ? {} : { fragment }) }
}

/** Whether a route to `target` belongs to the subtree of `folder`; `daemon:` and `builtin:` belong to nobody's. */
export function isWithin(folder: string, target: string): boolean {
  const read = parseRouteTarget(target)
  return read?.kind === 'folder' && containsFolder(folder, read.name)
}

/** The folder that a route speaks for; empty for what goes to a daemon or a built-in handler, which is the instance's. */
export function scopeOfTarget(target: string): string {
  const read = parseRouteTarget(target)
  return read?.kind === 'folder' ? read.name.replace(/\/?[^/]*\{sender\}.*$/, '') : ''
}

export const Route = z
  .object({
    id: z.int().meta({ readOnly: true }),
    seq: z.int().min(-1_000_000).max(1_000_000).describe('Lower is tried first'),
    match: text(matchFault, { maxLength: 1024, format: 'route-match' }).describe(
      `key=glob pairs with spaces between them, all of which must hold; keys are ${MATCH_KEYS.join(', ')}; empty matches everything`,
    ),
    target: text(
      (value) =>
        parseRouteTarget(value)
          ? undefined
          : 'must be a folder, or folder:<path>, daemon:<name>, builtin:drop or builtin:echo',
      { minLength: 1, format: 'route-target' },
    ).describe(
      'A folder, folder:<path>, daemon:<name>, builtin:drop or builtin:echo; {sender} in a folder stands for one segment, and #observe or #<topic> may follow',
    ),
    observe_window_messages: ObserveWindow.optional(),
    observe_window_chars: ObserveWindow.optional(),
  })
  .meta({ id: 'Routes' })

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
  ],
})

/** The room is everything behind the first colon. */
export function roomOf(jid: string): string {
  return jid.slice(jid.indexOf(':') + 1)
}

/** What `group add` routes (document 001): a guild channel fires on mentions and is otherwise observed. */
export function defaultRoutesFor(jid: string, folder: string): { seq: number; match: string; target: string }[] {
  const room = `room=${roomOf(jid)}`
  const isGuildChannel = jid.startsWith('discord:') && !jid.startsWith('discord:dm/')
  if (!isGuildChannel) return [{ seq: 0, match: room, target: folder }]
  return [
    { seq: -1, match: `${room} verb=mention`, target: folder },
    { seq: 0, match: room, target: `${folder}#observe` },
  ]
}
