// A form whose fields are the query of the page, so that filters survive a reload, the back button and a copied link.
import { EMPTY_HTML, type Html, html } from '../html.ts'
import { type FormField, renderField } from './form.ts'

export interface FilterBar {
  readonly id: string
  /** The path of the page. */
  readonly path: string
  readonly fields: readonly FormField[]
  /** Parameters that stay, such as the view of a folder. */
  readonly fixed?: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  /** Default: Filter. */
  readonly submit?: string
  /** The id of an element that the next page shows first. */
  readonly anchor?: string
}

export function renderFilters(filters: FilterBar): Html {
  const { id, path, fields, fixed = {}, query, submit = 'Filter', anchor } = filters
  const place = anchor === undefined ? '' : `#${anchor}`
  const kept = Object.entries(fixed).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
  const shown = fields.map((field) =>
    renderField(id, { ...field, isUnmarked: true, value: query[field.name] ?? field.value ?? '' }),
  )
  const isFiltered = fields.some(({ name }) => (query[name] ?? '') !== '')
  const clear = isFiltered
    ? html`<a class="button quiet" href="${withQuery(path, fixed)}${place}">Clear</a>`
    : EMPTY_HTML
  return html`<form id="${id}" class="filters" method="get" action="${path}${place}" role="search">${kept}${shown}<button class="quiet">${submit}</button>${clear}</form>`
}

/** The path with a query. Empty values are left out. */
export function withQuery(path: string, query: Readonly<Record<string, string | undefined>>): string {
  const parameters = Object.entries(query).flatMap(([name, value]) => (value ? [[name, value]] : []))
  const text = new URLSearchParams(parameters).toString()
  return text === '' ? path : `${path}?${text}`
}
