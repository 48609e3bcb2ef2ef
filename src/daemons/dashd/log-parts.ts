// The log of a turn on a page, with a search that marks what it finds among the other lines.
import { renderFilters } from '../../web/dash/filter-bar.ts'
import { link, logBlock, visibleText } from '../../web/dash/parts.ts'
import { EMPTY_HTML, type Html, html } from '../../web/html.ts'
import type { PageView } from './page.ts'

export interface LogTail {
  readonly lines: readonly string[]
  readonly is_cut: boolean
}

const LINES_CHOICES = ['200', '1000'] as const
const WORDS_MAX = 200
/** Links to places in the log. */
const PLACES_MAX = 30

/** How many lines the person wants to see. */
export function logLines({ query }: Pick<PageView, 'query'>): number {
  return Number(LINES_CHOICES.find((count) => count === query.lines) ?? LINES_CHOICES[query.find ? 1 : 0])
}

export function renderTurnLog(view: PageView, tail: LogTail | undefined): Html {
  if (!tail) return html`<p class="muted">There is no log of the turn on this machine.</p>`
  const words = (view.query.find ?? '').trim().slice(0, WORDS_MAX)
  const text = tail.lines.join('\n')
  const note = tail.is_cut ? html`<p class="muted">The last ${tail.lines.length} lines.</p>` : EMPTY_HTML
  const shown = words === '' ? logBlock('turn-log', text) : renderFound(view, text, words)
  return html`${searchForm(view)}${note}${shown}`
}

/** Live updates leave it alone. */
function searchForm({ path, query }: PageView): Html {
  const form = renderFilters({
    ...{ id: 'log-search', path, query, submit: 'Find', anchor: 'log-tools' },
    fields: [
      { name: 'find', label: 'Find in the log', kind: 'search', maxLength: WORDS_MAX },
      { name: 'lines', label: 'Lines', kind: 'select', options: LINES_CHOICES, value: String(logLines({ query })) },
    ],
  })
  return html`<div id="log-tools" hx-morph-skip>${form}</div>`
}

function renderFound(view: PageView, text: string, words: string): Html {
  const pattern = new RegExp(`(${visibleText(words).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')})`, 'i')
  const parts = visibleText(text).split(pattern)
  const marked = parts.map((part, at) =>
    at % 2 === 1 ? html`<mark id="found-${(at + 1) / 2}">${part}</mark>` : html`${part}`,
  )
  const count = (parts.length - 1) / 2
  const places = Array.from({ length: Math.min(count, PLACES_MAX) }, (_, at) =>
    link(`#found-${at + 1}`, String(at + 1)),
  )
  const found =
    count === 0
      ? html`<p>Nothing in these lines matches.</p>`
      : html`<p>${count === 1 ? '1 match' : `${count} matches`}: ${places.map((place) => html`${place} `)}${link(view.url({ find: undefined }), 'without marks')}</p>`
  return html`${found}<pre class="log" dir="auto">${marked}</pre>`
}
