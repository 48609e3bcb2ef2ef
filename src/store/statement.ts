// Runs SQL that `Table` does not generate: `query` for statements that return rows, `execute` for others. Parameters are
// $1, $2 …
import type { StoredRow, Tx, Value } from './engine.ts'

/** Decodes one value of a column; `name` is for errors. */
type ColumnDecoder<T> = (value: Value | undefined, name: string) => T

/** The columns that a statement returns, each with its decoder. */
type RowSchema = Readonly<Record<string, ColumnDecoder<unknown>>>
export type DecodedRow<S extends RowSchema> = { [K in keyof S]: ReturnType<S[K]> }
type RowDecoder<Row> = (row: StoredRow) => Row

export const text: ColumnDecoder<string> = (value, name) =>
  typeof value === 'string' ? value : failDecoding('text', value, name)

export const integer: ColumnDecoder<number> = (value, name) =>
  typeof value === 'number' ? value : failDecoding('an integer', value, name)

export const bytes: ColumnDecoder<Uint8Array> = (value, name) =>
  value instanceof Uint8Array ? value : failDecoding('bytes', value, name)

/** SQLite returns the result of a condition as 0 or 1. */
export const flag: ColumnDecoder<boolean> = (value, name) => {
  if (typeof value === 'boolean') return value
  return value === 0 || value === 1 ? value === 1 : failDecoding('a boolean', value, name)
}

/** NULL becomes undefined. */
export function optional<T>(decode: ColumnDecoder<T>): ColumnDecoder<T | undefined> {
  return (value, name) => (value === null || value === undefined ? undefined : decode(value, name))
}

export function oneOf<const T extends string>(options: readonly T[]): ColumnDecoder<T> {
  return (value, name) => options.find((option) => option === value) ?? failDecoding(options.join(' or '), value, name)
}

function failDecoding(expected: string, value: Value | undefined, name: string): never {
  const type = value === null ? 'NULL' : value instanceof Uint8Array ? 'bytes' : typeof value
  throw new Error(`column "${name}" of a query must be ${expected}, not ${type}`)
}

/**
 * Runs a statement and returns its rows, decoded by the schema or, for whole rows of a table, by `table.decode`. It is on
 * hot paths, so it is not an async function.
 */
export function query<S extends RowSchema>(
  tx: Tx,
  schema: S,
  sql: string,
  parameters?: readonly Value[],
): Promise<DecodedRow<S>[]>
export function query<Row>(tx: Tx, decode: RowDecoder<Row>, sql: string, parameters?: readonly Value[]): Promise<Row[]>
export function query(
  tx: Tx,
  schema: RowSchema | RowDecoder<unknown>,
  sql: string,
  parameters: readonly Value[] = [],
): Promise<unknown[]> {
  return tx.executeQuery({ sql, parameters }).then(({ rows }) => decodeRows(schema, rows))
}

/** Runs a statement that always returns one row, such as a count. */
export async function queryOne<S extends RowSchema>(
  tx: Tx,
  schema: S,
  sql: string,
  parameters?: readonly Value[],
): Promise<DecodedRow<S>> {
  const [row] = await query(tx, schema, sql, parameters)
  if (!row) throw new Error(`query returned no row: ${sql}`)
  return row
}

/** Runs a statement and returns the number of rows that it changed. */
export async function execute(tx: Tx, sql: string, parameters: readonly Value[] = []): Promise<number> {
  return (await tx.executeQuery({ sql, parameters })).changes
}

function decodeRows(schema: RowSchema | RowDecoder<unknown>, rows: readonly StoredRow[]): unknown[] {
  if (typeof schema === 'function') return rows.map((row) => schema(row))
  return rows.map((row) => {
    const decoded: Record<string, unknown> = {}
    for (const name in schema) decoded[name] = schema[name]?.(row[name], name)
    return decoded
  })
}

/** The most values in one list of a statement. */
const VALUES_MAX = 128

/**
 * Runs a statement for a list of values, in batches. `sql` gets the placeholders of one batch, numbered after those of
 * `before`. Batches are padded to a power of two with their last value, so that few statements are prepared.
 */
export async function queryForValues<S extends RowSchema>(
  tx: Tx,
  schema: S,
  values: readonly Value[],
  sql: (placeholders: string) => string,
  before: readonly Value[] = [],
): Promise<DecodedRow<S>[]> {
  const rows: DecodedRow<S>[] = []
  for (let from = 0; from < values.length; from += VALUES_MAX) {
    const batch = values.slice(from, from + VALUES_MAX)
    const length = 2 ** Math.ceil(Math.log2(batch.length))
    const padded = Array.from({ length }, (_, at) => batch[at] ?? batch.at(-1) ?? null)
    rows.push(...(await query(tx, schema, sql(placeholders(length, before.length)), [...before, ...padded])))
  }
  return rows
}

/** Writes `count` placeholders, numbered after the first `after`: `$1, $2 …` */
export function placeholders(count: number, after = 0): string {
  return Array.from({ length: count }, (_, at) => `$${after + at + 1}`).join(', ')
}

/** Applies `change` to the parts of `sql` outside quoted strings. */
export function replaceOutsideQuotes(sql: string, change: (part: string) => string): string {
  return sql
    .split(/('(?:[^']|'')*')/)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('')
}
