// Tables of the dashboard, also as CSV and JSON. On a narrow screen each row becomes a card, so cells name their column.
import { EMPTY_HTML, type Html, html } from '../html.ts'
import { type EmptyState, emptyState, groupDigits, money, visibleText } from './parts.ts'

type CellContent = Html | string | number | undefined

export interface TableColumn<R> {
  readonly label: string
  readonly cell: (row: R) => CellContent
  /** For CSV and JSON; default: the cell as text, with exact times. */
  readonly value?: (row: R) => string | number | boolean | undefined
  /** Numbers are aligned at their end. */
  readonly isNumber?: true
  /** Sentences, which need some width. */
  readonly isProse?: true
}

/** A column of counts, with separators on the page and without them in CSV and JSON. */
export function countColumn<R>(label: string, value: (row: R) => number | undefined): TableColumn<R> {
  const cell = (row: R): string => {
    const count = value(row)
    return count === undefined ? '' : groupDigits(count)
  }
  return { label, cell, value, isNumber: true }
}

/** A column of cents, which are dollars on the page, in CSV and in JSON. */
export function moneyColumn<R>(label: string, cents: (row: R) => number | undefined): TableColumn<R> {
  const cell = (row: R): string => {
    const amount = cents(row)
    return amount === undefined ? '' : money(amount)
  }
  const value = (row: R): number | undefined => {
    const amount = cents(row)
    return amount === undefined ? undefined : amount / 100
  }
  return { label, cell, value, isNumber: true }
}

export interface DataTable<R> {
  readonly id: string
  /** Read by screen readers. */
  readonly caption: string
  readonly columns: readonly TableColumn<R>[]
  readonly rows: readonly R[]
  /** Unique in the table and stable: live updates keep the row's place and focus by it. */
  readonly rowId: (row: R) => string
  readonly rowActions?: ((row: R) => Html) | undefined
  readonly empty: EmptyState
  /** Cursor of the next page. */
  readonly next?: string | undefined
}

/** What CSV and JSON have of a table. */
export type TableData<R> = Pick<DataTable<R>, 'id' | 'columns' | 'rows' | 'next'>

/** A table of any rows, for pages that return one. */
export type AnyTable = DataTable<never>

/** Keeps the type of the rows inside of the columns. */
export function defineTable<R>(table: DataTable<R>): AnyTable {
  return table as unknown as AnyTable
}

export function renderTable<R>(table: DataTable<R>): Html {
  const { id, caption, columns, rows, rowActions, empty } = table
  if (rows.length === 0) return emptyState(empty)
  const heads = columns.map(({ label, isNumber }) => html`<th scope="col"${numberClass(isNumber)}>${label}</th>`)
  const actions = rowActions ? html`<th scope="col"><span class="unseen">Actions</span></th>` : EMPTY_HTML
  const body = rows.map((row) => renderRow(table, row))
  return html`<div class="scroll"><table id="${id}"><caption class="unseen">${caption}</caption><thead><tr>${heads}${actions}</tr></thead><tbody>${body}</tbody></table></div>`
}

/** URLs with the path of this page. */
export interface TableLinks {
  readonly first?: string | undefined
  readonly next?: string | undefined
  readonly csv: string
  readonly json: string
  /** Numbers of rows to choose from; the one without a link is in use. */
  readonly sizes?: readonly (readonly [rows: number, href: string | undefined])[]
}

/** What follows a table: other pages of it, and downloads. */
export function renderTableLinks({ first, next, csv, json, sizes = [] }: TableLinks): Html {
  const pages = [
    ...(first === undefined ? [] : [html`<a href="${first}" rel="first">First page</a> `]),
    ...(next === undefined ? [] : [html`<a href="${next}" rel="next">Next page</a>`]),
  ]
  const shown = sizes.map(
    ([rows, href]) =>
      html` ${href === undefined ? html`<strong>${rows}</strong>` : html`<a href="${href}">${rows}</a>`}`,
  )
  return html`${pages.length === 0 ? EMPTY_HTML : html`<p class="more">${pages}</p>`}<p class="hint">${
    shown.length === 0 ? EMPTY_HTML : html`Rows of a page:${shown}. `
  }Download: <a href="${csv}">CSV</a>, <a href="${json}">JSON</a></p>`
}

function renderRow<R>({ id, columns, rowId, rowActions }: DataTable<R>, row: R): Html {
  const cells = columns.map((column) => {
    const shown = column.cell(row) ?? ''
    const content = typeof shown === 'string' ? visibleText(shown) : shown
    return html`<td data-label="${column.label}"${cellClass(column, content)}>${content}</td>`
  })
  const actions = rowActions ? html`<td class="actions">${rowActions(row)}</td>` : EMPTY_HTML
  return html`<tr id="${rowElementId(id, rowId(row))}">${cells}${actions}</tr>`
}

function cellClass<R>({ isNumber, isProse }: TableColumn<R>, content: Html | string | number): Html {
  if (isNumber) return numberClass(isNumber)
  if (isProse) return html` class="prose"`
  return hasLongWord(content) ? html` class="long"` : EMPTY_HTML
}

/** A longer word may break anywhere; others would become columns of a few letters. */
const WORD_MAX = 26

function hasLongWord(content: Html | string | number): boolean {
  const text = String(content).replace(/<[^<>]*>/g, '')
  return text.length > WORD_MAX && text.split(/\s+/).some((word) => word.length > WORD_MAX)
}

/** Ids of elements must not contain white space. */
export function rowElementId(table: string, row: string): string {
  return `${table}-${encodeURIComponent(row)}`
}

function numberClass(isNumber: true | undefined): Html {
  return isNumber ? html` class="number"` : EMPTY_HTML
}

/** Names of columns as keys: `Next run` becomes `next_run`. */
function keyOfColumn(label: string): string {
  return label.toLowerCase().replace(/[^a-z0-9]+/g, '_')
}

type PlainRow = Readonly<Record<string, string | number | boolean | undefined>>

export function plainRows<R>({ columns, rows }: TableData<R>): PlainRow[] {
  return rows.map((row) =>
    Object.fromEntries(columns.map((column) => [keyOfColumn(column.label), plainValue(column, row)])),
  )
}

function plainValue<R>({ cell, value }: TableColumn<R>, row: R): string | number | boolean | undefined {
  if (value) return value(row)
  const content: unknown = cell(row)
  if (content === undefined || typeof content === 'number' || typeof content === 'string') return content
  return textOfHtml(String(content)) || undefined
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', '#39': "'" }

function textOfHtml(markup: string): string {
  return markup
    .replace(/<time datetime="([^"<]*)"[^<>]*>[^<]*/g, '$1')
    .replace(/<(?:br|\/p|\/li|\/pre|\/summary)>/g, ' ')
    .replace(/<[^<>]*>/g, '')
    .replace(/&([a-z0-9#]+);/g, (entity, name: string) => ENTITIES[name] ?? entity)
    .trim()
}

export function csvHead<R>({ columns }: TableData<R>): string {
  return csvLine(columns.map(({ label }) => keyOfColumn(label)))
}

export function csvRows<R>(table: TableData<R>): string {
  return plainRows(table)
    .map((row) => csvLine(Object.values(row)))
    .join('')
}

function csvLine(values: readonly (string | number | boolean | undefined)[]): string {
  return `${values.map(csvValue).join(',')}\r\n`
}

/** Spreadsheets run a text that starts like a formula, so such a text gets an apostrophe in front. */
function csvValue(value: string | number | boolean | undefined): string {
  if (typeof value !== 'string') return value === undefined ? '' : String(value)
  const text = /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
