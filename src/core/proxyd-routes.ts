// Routes of the front door as rows: which backend answers which path.
import { z } from 'zod'
import { Table } from '../store/table.ts'
import { isFrontPath } from './front-paths.ts'
import { frontStamp } from './stamp.ts'
import { line, matching, text } from './values.ts'
import { WebPath } from './web-routes.ts'

const REDIRECT = /^(?:\/$|\/[^/\\]|https?:\/\/)/
/** In either case letter by letter: patterns of an API description have no flags. */
const IDENTITY_HEADER = '^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-for|forwarded|x-real-ip)$'.replace(
  /[a-z]/g,
  (letter) => `[${letter}${letter.toUpperCase()}]`,
)
const identity = new RegExp(IDENTITY_HEADER)

export const ProxydRoute = z
  .object({
    path: WebPath.describe('With a trailing / a prefix, without one exactly this path'),
    backend: text(backendFault, { minLength: 8, format: 'uri', pattern: '^[hH][tT][tT][pP][sS]?://[^/?#@]+([/?#]|$)' })
      .optional()
      .describe('Where to: http://host:port'),
    auth: z.enum(['public', 'user', 'operator']).describe('Who may pass'),
    gated_by: matching(/^[A-Z][A-Z0-9_]{0,63}$/, 'must look like SOME_SETTING')
      .optional()
      .describe('The setting that must be present for this route to exist'),
    redirect_to: line(1024)
      .refine((value) => REDIRECT.test(value), 'must be a path or an http(s) URL')
      .meta({ pattern: `${REDIRECT.source}[^\\u0000-\\u001f\\u007f]*$` })
      .optional()
      .describe('Where the client is sent instead of a backend: a path, or an http(s) URL'),
    preserve_headers: z
      .array(
        matching(/^[A-Za-z0-9-]{1,64}$/, 'must be a header name')
          .refine((name) => !isIdentityHeader(name), 'cannot be preserved: only the front door says who somebody is')
          .meta({ not: { pattern: IDENTITY_HEADER } }),
      )
      .max(32)
      .optional(),
    strip_prefix: z.boolean().optional().describe('Whether the backend sees the path without the prefix'),
  })
  .meta({ id: 'ProxydRoutes' })

export type ProxydRoute = z.output<typeof ProxydRoute>

function backendFault(value: string): string | undefined {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http:// or https:// URL'
  return url.username || url.password ? 'must not hold a password' : undefined
}

/** Why a row is no route, or nothing. */
export function proxydRouteFault(route: ProxydRoute): string | undefined {
  const { path, backend, redirect_to } = route
  if (isFrontPath(path)) return `${path} belongs to the front door`
  if ((backend === undefined) === (redirect_to === undefined))
    return `${path}: one of backend and redirect_to is required`
  return undefined
}

/** What says who somebody is or where they are. */
export function isIdentityHeader(name: string): boolean {
  return identity.test(name)
}

export const proxydRoutes = new Table({
  name: 'proxyd_routes',
  row: ProxydRoute,
  key: 'path',
  storage: [
    `create table proxyd_routes (
       path text primary key, backend text, auth text not null, gated_by text, redirect_to text,
       preserve_headers text, strip_prefix boolean)`,
    frontStamp.notedBy('proxyd_routes'),
  ],
})
