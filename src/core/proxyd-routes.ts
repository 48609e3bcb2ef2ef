// Routes of the front door as rows: which backend answers which path.
import { z } from 'zod'
import { Table } from '../store/table.ts'
import { isFrontPath } from './front-paths.ts'
import { frontStamp } from './stamp.ts'
import { line, text } from './values.ts'
import { WebPath } from './web-routes.ts'

export const ProxydRoute = z
  .object({
    path: WebPath.describe('With a trailing / a prefix, without one exactly this path'),
    backend: text(backendFault).optional().describe('Where to: http://host:port'),
    auth: z.enum(['public', 'user', 'operator']).describe('Who may pass'),
    gated_by: text((value) => (/^[A-Z][A-Z0-9_]{0,63}$/.test(value) ? undefined : 'must look like SOME_SETTING'))
      .optional()
      .describe('The setting that must be present for this route to exist'),
    redirect_to: line(1024).optional().describe('Where the client is sent instead of a backend'),
    preserve_headers: z
      .array(text((value) => (/^[A-Za-z0-9-]{1,64}$/.test(value) ? undefined : 'must be a header name')))
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
  const { path, backend, redirect_to, preserve_headers = [] } = route
  if (isFrontPath(path)) return `${path} belongs to the front door`
  if ((backend === undefined) === (redirect_to === undefined))
    return `${path}: one of backend and redirect_to is required`
  const told = preserve_headers.find(isIdentityHeader)
  if (told !== undefined) return `${path}: ${told} cannot be preserved: only the front door says who somebody is`
  if (redirect_to === undefined || /^\/(?![/\\])/.test(redirect_to)) return undefined
  return /^https?:\/\//.test(redirect_to) ? undefined : `${path}: redirect_to must be a path or an http(s) URL`
}

/** What says who somebody is or where they are. */
export function isIdentityHeader(name: string): boolean {
  return /^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-for|forwarded|x-real-ip)$/i.test(name)
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
