// Web routes: access to paths of published pages. proxyd reads them.
import { z } from 'zod'
import { Table } from '../../store/table.ts'
import { frontStamp } from '../change-stamps.ts'
import { checkedText, codePoints, Folder, Timestamp } from '../values.ts'

/** Accepts plain absolute paths only, so that every parser reads them the same way. */
export function webPathFault(path: string): string | undefined {
  if (!path.startsWith('/')) return 'must start with /'
  if (codePoints(path) > 1024) return 'is longer than 1024 characters'
  if (path.includes('//')) return 'must not contain //'
  if (/[\u0000-\u0020\u007f\\%?#]/.test(path)) return 'must not contain spaces, control characters, \\, %, ? or #'
  if (path.split('/').some((segment) => segment === '.' || segment === '..'))
    return 'must not contain . or .. as a segment'
  return undefined
}

const PATH_NAME = '[^\\u0000-\\u0020\\u007f\\\\%?#/]+'

export const WebPath = checkedText(webPathFault, {
  minLength: 1,
  maxLength: 1024,
  pattern: `^/(${PATH_NAME}(/${PATH_NAME})*/?)?$`,
  not: { pattern: '/\\.{1,2}(/|$)' },
}).describe('URL path, such as /pub/team/')

export const WebRoute = z
  .object({
    path_prefix: WebPath,
    access: z.enum(['public', 'auth', 'deny', 'redirect']),
    redirect_to: WebPath.optional().describe('Target if access is redirect'),
    folder: Folder,
    created_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'WebRoutes' })

export type WebRoute = z.output<typeof WebRoute>

export const webRoutes = new Table({
  name: 'web_routes',
  row: WebRoute,
  key: 'path_prefix',
  storage: [
    `create table web_routes (
       path_prefix text primary key, access text not null, redirect_to text,
       folder text not null references groups (folder) on delete cascade, created_at text not null)`,
    'create index web_routes_of on web_routes (folder)',
    () => frontStamp.createStatements(),
    frontStamp.updateOnWrite('web_routes'),
  ],
})
