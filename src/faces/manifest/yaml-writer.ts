// Writes rows as YAML without a document tree, which would cost many times the reading of a large store. Text that a reader of
// YAML 1.1 or 1.2 could take for another type is quoted.
import { setImmediate as immediate } from 'node:timers/promises'
import { readConfigVersion } from '../../core/config-version.ts'
import type { StoredRow, Tx, Value } from '../../store/engine.ts'
import { placeholders, query } from '../../store/statement.ts'
import type { ManifestResource, ManifestRow } from './manifest-resource.ts'

/** Rows per read; other work runs between two pages. */
const PAGE_SIZE = 1000

/** Starts with a letter, `_` or `/`; has a colon or a space only before a word. */
const PLAIN = /^[A-Za-z_/][\w./@+=*?~#-]*(?:[: ][\w/][\w./@+=*?~#-]*)*$/
/** Words that a reader of YAML 1.1 or 1.2 may take for a boolean, null, or a number (e0). */
const RESERVED = /^(?:y|n|yes|no|on|off|true|false|null|e[-+]?\d+)$/i
/** Needs quotes but no escape. */
const ASCII = /^[ !#-[\]-~]*$/
/** Characters that JSON does not escape and YAML forbids or takes for a line break. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g
/** Text that a literal block would change: unprintable characters, leading or trailing spaces, several newlines at the end. */
const NOT_LITERAL = /^[ \n]|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]| $| \n|\n\n$/

const FIELD_INDENT = '      '

/** The store as one manifest: the same bytes for the same rows. */
export async function writeManifest(tx: Tx, resources: readonly ManifestResource[]): Promise<string> {
  const parts = [`config_version: ${await readConfigVersion(tx)}\n`]
  for (const resource of [...resources].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const head = parts.push(`${resource.name}: []\n`) - 1
    for await (const rows of readPages(tx, resource)) {
      if (rows.length === 0) continue
      parts[head] = `${resource.name}:\n`
      parts.push(rowsText(resource.columns, rows))
    }
  }
  return parts.join('')
}

/** Joins small parts once, because repeated concatenation takes three times as long. */
export function rowsText(columns: readonly string[], rows: readonly ManifestRow[]): string {
  const fields = columns.map((name) => ({ name, first: `  - ${name}: `, further: `\n    ${name}: ` }))
  const parts: string[] = []
  for (const row of rows) {
    let isFirst = true
    for (const { name, first, further } of fields) {
      const value = row[name]
      if (value === undefined) continue
      parts.push(isFirst ? first : further, fieldText(value))
      isFirst = false
    }
    parts.push('\n')
  }
  return parts.join('')
}

function fieldText(value: unknown): string {
  return typeof value === 'string' && value.includes('\n') ? blockText(value) : inlineText(value)
}

/** A value on one line; lists and maps are in brackets. */
export function inlineText(value: unknown): string {
  if (typeof value === 'string') return PLAIN.test(value) && !RESERVED.test(value) ? value : quote(value)
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return String(value)
  if (Array.isArray(value)) return `[${value.map(inlineText).join(', ')}]`
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array)
    throw new Error(`a manifest cannot contain ${typeof value}`)
  const members = Object.entries(value).map(([name, member]) => `${quote(name)}: ${inlineText(member)}`)
  return `{${members.join(', ')}}`
}

/** YAML reads JSON strings, except for some characters that JSON does not escape. */
function quote(text: string): string {
  if (ASCII.test(text)) return `"${text}"`
  return JSON.stringify(text).replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Text of several lines as a literal block, if that preserves it exactly. */
function blockText(text: string): string {
  if (NOT_LITERAL.test(text) || !text.isWellFormed()) return quote(text)
  const [indicator, body] = text.endsWith('\n') ? ['|', text.slice(0, -1)] : ['|-', text]
  return `${indicator}\n${body.replace(/^(?=.)/gm, FIELD_INDENT)}`
}

/** The exported rows, sorted by manifest key or by their own order; text sorts by its UTF-8 bytes on every engine. */
async function* readPages(tx: Tx, { table, columns, key, exported }: ManifestResource): AsyncGenerator<ManifestRow[]> {
  const { ordered, exportRow = (row: ManifestRow) => row } = exported
  const sortColumns = ordered ? [ordered.within, ordered.counter] : key
  const order = sortColumns.join(', ')
  const select = `select ${[...new Set([...columns, ...sortColumns])].join(', ')} from ${table.name}`
  const afterLast = `where (${order}) > (${placeholders(sortColumns.length)})`
  let last: StoredRow | undefined
  do {
    const values: Value[] = last ? sortColumns.map((column) => last?.[column] ?? null) : []
    const sql = `${select} ${last ? afterLast : ''} order by ${order} limit ${PAGE_SIZE}`
    const rows = await query(tx, (row) => row, sql, values)
    yield rows.map((record) => exportRow(table.decode(record))).filter((row) => row !== undefined)
    last = rows.length === PAGE_SIZE ? rows.at(-1) : undefined
    if (last) await immediate()
  } while (last)
}
