// Routes of proxyd: the backend or redirect for each path.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { frontStamp } from '../change-stamps.ts'
import { checkedText, line, patternText } from '../values.ts'
import { isReservedFromRoutes } from './reserved-paths.ts'
import { WebPath } from './web-routes.ts'

const REDIRECT = /^(?:\/$|\/[^/\\]|https?:\/\/)/
/** Each letter in both cases, because JSON Schema patterns have no flags. */
const IDENTITY_HEADER = '^(x-user-.*|x-chat-.*|x-folder|x-group-name|x-forwarded-for|forwarded|x-real-ip)$'.replace(
  /[a-z]/g,
  (letter) => `[${letter}${letter.toUpperCase()}]`,
)
const IDENTITY_REGEXP = new RegExp(IDENTITY_HEADER)

export const ProxydRoute = z
  .object({
    path: WebPath.describe('A prefix if it ends with /, otherwise an exact path'),
    backend: checkedText(backendFault, {
      minLength: 8,
      format: 'uri',
      pattern: '^[hH][tT][tT][pP][sS]?://[^/?#@]+([/?#]|$)',
    })
      .optional()
      .describe('Base URL of the backend: http://host:port'),
    auth: z.enum(['public', 'user', 'operator']).describe('Who may use the route'),
    gated_by: patternText(/^[A-Z][A-Z0-9_]{0,63}$/, 'must look like SOME_SETTING')
      .optional()
      .describe('Setting that must be set for this route to exist'),
    redirect_to: line(1024)
      .refine((value) => REDIRECT.test(value), 'must be a path or an http(s) URL')
      .meta({ pattern: `${REDIRECT.source}[^\\u0000-\\u001f\\u007f]*$` })
      .optional()
      .describe('Redirect target instead of a backend: a path or an http(s) URL'),
    preserve_headers: z
      .array(
        patternText(/^[A-Za-z0-9-]{1,64}$/, 'must be a header name')
          .refine((name) => !isIdentityHeader(name), 'cannot be preserved: only proxyd sets identity headers')
          .meta({ not: { pattern: IDENTITY_HEADER } }),
      )
      .max(32)
      .optional(),
    strip_prefix: z.boolean().optional().describe('Whether to remove the prefix from the path sent to the backend'),
    escapes: z
      .enum(['refuse', 'keep'])
      .optional()
      .describe('keep: also forward paths with %2F, %5C or %00; they are refused by default'),
  })
  .meta({ id: 'ProxydRoutes' })

export type ProxydRoute = z.output<typeof ProxydRoute>

function backendFault(value: string): string | undefined {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http:// or https:// URL'
  return url.username || url.password ? 'must not contain a password' : undefined
}

export function proxydRouteFault(route: ProxydRoute): string | undefined {
  const { path, backend, redirect_to } = route
  if (isReservedFromRoutes(path)) return `${path} belongs to the front door`
  if ((backend === undefined) === (redirect_to === undefined))
    return `${path}: exactly one of backend and redirect_to is required`
  return undefined
}

/** Headers that identify the user, the chat or the client address. */
export function isIdentityHeader(name: string): boolean {
  return IDENTITY_REGEXP.test(name)
}

export const proxydRoutes = new Table({
  name: 'proxyd_routes',
  row: ProxydRoute,
  key: 'path',
  storage: [
    `create table proxyd_routes (
       path text primary key, backend text, auth text not null, gated_by text, redirect_to text,
       preserve_headers text, strip_prefix boolean)`,
    frontStamp.updateOnWrite('proxyd_routes'),
    'alter table proxyd_routes add column escapes text',
  ],
})
