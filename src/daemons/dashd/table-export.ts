// Downloads of the lists of a page as CSV or JSON, with all their pages.
import { Readable } from 'node:stream'
import type { Context } from 'hono'
import { refuse } from '../../lib/refusal.ts'
import { csvHead, csvRows, plainRows } from '../../web/dash/table.ts'
import type { SignedIn } from '../http/signed-in.ts'
import type { DashPage } from './page.ts'
import type { PagesContext } from './page-rendering.ts'
import { createView } from './view.ts'

const EXPORT_LIMIT = '1000'

/** All pages of the table, one after the other. */
export async function exportTable(
  { daemon }: PagesContext,
  c: Context,
  page: DashPage,
  person: SignedIn,
  format: 'csv' | 'json',
): Promise<Response> {
  const read = async (query: Readonly<Record<string, string>>) => {
    const view = await createView({ daemon, c, person, query })
    const { table } = await page.show(view)
    return list === undefined ? table : view.lists.get(list)
  }
  const { format: _, after: __, list, ...given } = (await createView({ daemon, c, person })).query
  const query = { ...given, limit: EXPORT_LIMIT }
  const first = await read(query)
  if (!first) refuse('not_found', 'this page has no list')
  const pages = async function* (): AsyncGenerator<string> {
    if (format === 'csv') yield csvHead(first)
    let isFirst = true
    for (let table: typeof first | undefined = first; table; ) {
      if (format === 'csv') yield csvRows(table)
      else
        for (const row of plainRows(table)) {
          yield `${isFirst ? '[' : ',\n'}${JSON.stringify(row)}`
          isFirst = false
        }
      table = table.next === undefined ? undefined : await read({ ...query, after: table.next })
    }
    if (format === 'json') yield isFirst ? '[]\n' : ']\n'
  }
  const name = `${first.id}.${format}`
  return new Response(Readable.toWeb(Readable.from(pages(), { objectMode: false })) as ReadableStream, {
    headers: {
      'Content-Type': format === 'csv' ? 'text/csv; charset=utf-8' : 'application/json',
      'Content-Disposition': `attachment; filename="${name}"`,
      'Cache-Control': 'no-store',
    },
  })
}
