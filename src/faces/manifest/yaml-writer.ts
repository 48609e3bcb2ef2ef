// Rows as YAML text, written straight from their values: a document tree of a large store would cost many times the reading.
// Whatever a reader of YAML 1.1 or 1.2 might take for something else than text stands in quotes.
import { setImmediate as immediate } from 'node:timers/promises'
import { readConfigVersion } from '../../core/config-version.ts'
import type { StoredRow, Tx, Value } from '../../store/engine.ts'
import { placeholders, query } from '../../store/statement.ts'
import type { ManifestResource, ManifestRow } from './manifest-resource.ts'

/** So many rows are read at once; between two pages others get their turn. */
const PAGE = 1000

/** Starts with a letter, `_` or `/`; a colon or a blank only where a word follows. */
const PLAIN = /^[A-Za-z_/][\w./@+=*?~#-]*(?:[: ][\w/][\w./@+=*?~#-]*)*$/
/** Words that a reader of YAML 1.1 or 1.2 may take for a boolean, for nothing, or (e0) for a number. */
const WORD = /^(?:y|n|yes|no|on|off|true|false|null|e[-+]?\d+)$/i
/** Needs quotes and no escape. */
const ASCII = /^[ !#-[\]-~]*$/
/** What JSON leaves as it is and YAML does not allow, or takes for a line break. */
const UNPRINTABLE = /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g
/** Lines that a literal block would change: unprintable, led or trailed by blanks, or with several ends. */
const NOT_LITERAL = /^[ \n]|[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]| $| \n|\n\n$/

const FIELD_INDENT = '      '

/** The whole store as one manifest: one snapshot, and the same bytes for the same rows. */
export async function writeManifest(tx: Tx, shapes: readonly ManifestResource[]): Promise<string> {
  const parts = [`config_version: ${await readConfigVersion(tx)}\n`]
  for (const shape of [...shapes].sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const head = parts.push(`${shape.name}: []\n`) - 1
    for await (const rows of pages(tx, shape)) {
      if (rows.length === 0) continue
      parts[head] = `${shape.name}:\n`
      parts.push(rowsText(shape.columns, rows))
    }
  }
  return parts.join('')
}

/** Joined once from small parts: strings that grow by concatenation cost three times as much in the end. */
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
  return typeof value === 'string' && value.includes('\n') ? prose(value) : scalar(value)
}

/** A value on one line; lists and maps in brackets. */
export function scalar(value: unknown): string {
  if (typeof value === 'string') return PLAIN.test(value) && !WORD.test(value) ? value : quoted(value)
  if (typeof value === 'boolean' || Number.isSafeInteger(value)) return String(value)
  if (Array.isArray(value)) return `[${value.map(scalar).join(', ')}]`
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array)
    throw new Error(`a manifest cannot hold ${typeof value}`)
  const members = Object.entries(value).map(([name, member]) => `${quoted(name)}: ${scalar(member)}`)
  return `{${members.join(', ')}}`
}

/** JSON's quotes and escapes are YAML's, but for the characters that YAML will not see as they are. */
function quoted(text: string): string {
  if (ASCII.test(text)) return `"${text}"`
  return JSON.stringify(text).replace(UNPRINTABLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Text of several lines as people write it, where that says exactly the same. */
function prose(text: string): string {
  if (NOT_LITERAL.test(text) || !text.isWellFormed()) return quoted(text)
  const [sign, body] = text.endsWith('\n') ? ['|', text.slice(0, -1)] : ['|-', text]
  return `${sign}\n${body.replace(/^(?=.)/gm, FIELD_INDENT)}`
}

/**
 * Every row that is shown, in the order of the manifest's key or in the rows' own. Text sorts by its UTF-8 bytes on every
 * engine, numbers as numbers.
 */
async function* pages(tx: Tx, { table, columns, key, exported }: ManifestResource): AsyncGenerator<ManifestRow[]> {
  const { ordered, exportRow = (row: ManifestRow) => row } = exported
  const by = ordered ? [ordered.within, ordered.counter] : key
  const order = by.join(', ')
  const select = `select ${[...new Set([...columns, ...by])].join(', ')} from ${table.name}`
  const beyond = `where (${order}) > (${placeholders(by.length)})`
  let last: StoredRow | undefined
  do {
    const place: Value[] = last ? by.map((column) => last?.[column] ?? null) : []
    const sql = `${select} ${last ? beyond : ''} order by ${order} limit ${PAGE}`
    const rows = await query(tx, (row) => row, sql, place)
    yield rows.map((record) => exportRow(table.decode(record))).filter((row) => row !== undefined)
    last = rows.length === PAGE ? rows.at(-1) : undefined
    if (last) await immediate()
  } while (last)
}
