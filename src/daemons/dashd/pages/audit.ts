// The audit log: who changed what, and which calls were denied.
import type { z } from 'zod'
import type { Audit } from '../../../registry/audit.ts'
import { auditResource } from '../../../resources/audit.ts'
import { renderFilters } from '../../../web/dash/filter-bar.ts'
import { badge, link, notice, textBlock, timeOf, visibleText } from '../../../web/dash/parts.ts'
import { type AnyTable, defineTable } from '../../../web/dash/table.ts'
import { EMPTY_HTML, type Html } from '../../../web/html.ts'
import { omitEmpty, optionalFolderLink } from '../message-parts.ts'
import { definePage, type PageContent, type PageView } from '../page.ts'
import { explainWrongFilter } from '../wrong-filters.ts'

type AuditRow = z.output<typeof Audit>

const { list } = auditResource.verbs

/** The largest page of the verb. */
const PAGE_MAX = 200

export const auditPage = definePage({
  path: '/dash/audit',
  title: 'Audit',
  nav: 'system',
  show: async (view) => ({
    title: 'Audit',
    top: renderTop(view),
    ...(await explainWrongFilter(() => readContent(view))),
    isLive: true,
  }),
})

function renderTop({ path, query }: PageView): Html {
  return renderFilters({
    id: 'audit-filters',
    path,
    query,
    fields: [
      {
        ...{ name: 'category', label: 'Result', kind: 'select' },
        options: [
          ['', 'any'],
          ['mutation', 'done'],
          ['authz', 'denied'],
        ],
      },
      { name: 'actor', label: 'Actor', kind: 'search', placeholder: 'github:alice' },
      { name: 'folder', label: 'Folder and below', kind: 'search' },
    ],
  })
}

async function readContent(view: PageView): Promise<Partial<PageContent>> {
  const { category, actor, folder, after } = view.query
  // The verb checks the values.
  const filters = omitEmpty({ category, actor, folder, after }) as Omit<z.input<typeof list.input>, 'limit'>
  const { audit, next } = await view.call(list, { ...filters, limit: view.limit })
  const isShort = next !== undefined && audit.length < Math.min(view.limit, PAGE_MAX)
  const main = isShort
    ? notice('warn', link(view.url({ after: next }), 'Many entries did not match. Search further back.'))
    : EMPTY_HTML
  return { main, table: auditTable(view, audit, next) }
}

function auditTable(view: PageView, rows: readonly AuditRow[], next: string | undefined): AnyTable {
  return defineTable<AuditRow>({
    id: 'audit',
    caption: 'Audit log, newest first',
    rows,
    rowId: ({ id }) => String(id),
    columns: [
      {
        label: 'Time',
        cell: ({ created_at }) => timeOf(created_at, view.nowMs),
        value: ({ created_at }) => created_at,
      },
      {
        label: 'Result',
        cell: ({ outcome }) => badge(outcome, outcome === 'ok' ? 'ok' : 'fault'),
        value: ({ outcome }) => outcome,
      },
      {
        label: 'Actor',
        cell: ({ actor }) => link(view.url({ actor }), visibleText(actor)),
        value: ({ actor }) => actor,
      },
      { label: 'By', cell: ({ surface }) => surface },
      { label: 'Action', cell: ({ action }) => action },
      { label: 'Key', isProse: true, cell: ({ key }) => visibleText(key) },
      { label: 'Folder', cell: ({ folder }) => optionalFolderLink(folder), value: ({ folder }) => folder },
      {
        label: 'Detail',
        isProse: true,
        cell: (row) => textBlock(`detail-${row.id}`, detailOf(row)),
        value: detailOf,
      },
      {
        label: 'Turn',
        cell: ({ turn_id }) =>
          turn_id === undefined ? undefined : link(`/dash/turns/${turn_id}`, turn_id.slice(0, 13)),
        value: ({ turn_id }) => turn_id,
      },
    ],
    empty: { text: 'No entries match.', command: view.inTerminal(`svc audit ${view.host.instance}`) },
    next,
  })
}

function detailOf({ error_msg, params_summary, count }: AuditRow): string {
  return `${error_msg ?? params_summary}${count === undefined ? '' : ` (${count} times)`}`
}
