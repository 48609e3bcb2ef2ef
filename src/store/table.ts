// A row schema tied to a table. Absent is a missing key in TypeScript and NULL in SQL alone; lists and maps are JSON text.
import type { z } from 'zod'
import { refuse } from '../lib/refusal.ts'
import { readCursor, writeCursor } from './cursor.ts'
import type { StoredRow, Tx, Value } from './engine.ts'
import type { MigrationStep, StoredTable } from './migrate.ts'
import { afterPosition, allEqual, equal, subtree, withinSubtrees } from './sql-conditions.ts'
import { execute, integer, query, queryOne } from './statement.ts'
import { StatementCache } from './statement-cache.ts'

export type Order<Row> = readonly (readonly [keyof Row & string, 'asc' | 'desc'])[]

export interface RowPage<Row> {
  rows: Row[]
  /** Where the next page begins; absent on the last one. */
  next?: string
}

export interface PageRequest<Row> {
  where?: Partial<Row>
  /** Columns that are never empty and that together name one row. */
  order: Order<Row>
  limit: number
  after?: string | undefined
  /** Only rows whose column is one of these paths or lies below one. */
  below?: { readonly column: keyof Row & string; readonly paths: readonly string[] } | undefined
  /** Rows that the caller may not see are passed over before `limit` counts. */
  keep?(row: Row): boolean
}

export interface TableDeclaration<R extends z.ZodObject> {
  name: string
  row: R
  key: (keyof z.output<R> & string) | readonly (keyof z.output<R> & string)[]
  storage: readonly MigrationStep[]
}

export type Patch<Row> = { [K in keyof Row]?: Row[K] | undefined }

/** Names and values of some columns. A condition gives none of them as undefined: it would quietly hold for more rows. */
type ColumnValues = readonly [names: string[], values: Value[]]

/** When rows are passed over, many are read at a time. */
const CHUNK = 500

export class Table<R extends z.ZodObject, Row extends z.output<R> = z.output<R>> implements StoredTable {
  readonly name: string
  readonly row: R
  readonly key: readonly string[]
  readonly storage: readonly MigrationStep[]
  readonly columns: readonly string[]
  readonly #parted: ReadonlySet<string>
  readonly #statements = new StatementCache()

  constructor({ name, row, key, storage }: TableDeclaration<R>) {
    this.name = name
    this.row = row
    this.key = [key].flat()
    this.storage = storage
    this.columns = Object.keys(row.shape)
    this.#parted = new Set(this.columns.filter((column) => hasParts(row.shape[column])))
  }

  async find(tx: Tx, where: Partial<Row>): Promise<Row | undefined> {
    const [names, values] = this.#condition(where)
    const sql = this.#statements.getOrCreate(['find', ...names], () => {
      this.#mustHave(names)
      return `${this.#select()} where ${allEqual(names)} limit 1`
    })
    const [row] = await query(tx, this.decode, sql, values)
    return row
  }

  /** Every row that matches, in the key's order unless another is given. */
  async list(tx: Tx, where: Partial<Row> = {}, order?: Order<Row>): Promise<Row[]> {
    const [names, values] = this.#condition(where)
    const sql = this.#statements.getOrCreate(['list', ...names, 'by', ...(order?.flat() ?? [])], () => {
      this.#mustHave(names)
      const by = order?.map(([name, way]) => `${name} ${way}`).join(', ') ?? this.key.join(', ')
      const only = names.length ? ` where ${allEqual(names)}` : ''
      return `${this.#select()}${only} order by ${by}`
    })
    return query(tx, this.decode, sql, values)
  }

  async page(tx: Tx, request: PageRequest<Row>): Promise<RowPage<Row>> {
    const { order, limit, after, keep } = request
    const rows: Row[] = []
    let from = after === undefined ? undefined : this.#place(after, order)
    let size = limit + 1
    for (;;) {
      const chunk = await this.#chunk(tx, request, from, size)
      for (const row of chunk) {
        if (keep && !keep(row)) continue
        const last = rows[limit - 1]
        if (last) return { rows, next: writeCursor(placeOf(last, order)) }
        rows.push(row)
      }
      const end = chunk.at(-1)
      if (!keep || !end || chunk.length < size) return { rows }
      from = placeOf(end, order)
      size = Math.max(size, CHUNK)
    }
  }

  async insert(tx: Tx, row: Row): Promise<void> {
    const sql = this.#statements.getOrCreate(['insert whole'], () => this.#insertSql(this.columns))
    await execute(tx, sql, this.#whole(row))
  }

  /** Inserts what has a counter for its key. */
  async append(tx: Tx, row: Partial<Row>): Promise<void> {
    const [names, values] = this.#given(row)
    const sql = this.#statements.getOrCreate(['insert', ...names], () => this.#insertSql(names))
    await execute(tx, sql, values)
  }

  /** Inserts and answers with the row as stored, counters included. */
  async insertReturning(tx: Tx, row: Partial<Row>): Promise<Row> {
    const [names, values] = this.#given(row)
    const sql = this.#statements.getOrCreate(
      ['add', ...names],
      () => `${this.#insertSql(names)} returning ${this.columns.join(', ')}`,
    )
    const [stored] = await query(tx, this.decode, sql, values)
    if (!stored) throw new Error(`an insert into ${this.name} returned no row`)
    return stored
  }

  /** Inserts unless a row of this key is there; whether it did. */
  async insertIfMissing(tx: Tx, row: Row): Promise<boolean> {
    const sql = this.#statements.getOrCreate(
      ['insert if missing'],
      () => `${this.#insertSql(this.columns)} on conflict do nothing`,
    )
    return (await execute(tx, sql, this.#whole(row))) > 0
  }

  /** Inserts, or makes the row that has this key exactly this one. */
  async upsert(tx: Tx, row: Row): Promise<void> {
    const sql = this.#statements.getOrCreate(['upsert'], () => {
      const rest = this.columns.filter((name) => !this.key.includes(name)).map((name) => `${name} = excluded.${name}`)
      const change = rest.length ? `update set ${rest.join(', ')}` : 'nothing'
      return `${this.#insertSql(this.columns)} on conflict (${this.key.join(', ')}) do ${change}`
    })
    await execute(tx, sql, this.#whole(row))
  }

  /** How many rows changed. A key that is present with `undefined` clears its column. */
  async update(tx: Tx, where: Partial<Row>, patch: Patch<Row>): Promise<number> {
    const set = Object.keys(patch)
    if (set.length === 0) return 0
    const [names, values] = this.#condition(where)
    const sql = this.#statements.getOrCreate(['update', ...names, 'set', ...set], () => {
      this.#mustHave([...names, ...set])
      return `update ${this.name} set ${equal(set).join(', ')} where ${allEqual(names, set.length)}`
    })
    const changes = set.map((name) => this.#encode(name, memberOf(patch, name)))
    return execute(tx, sql, [...changes, ...values])
  }

  async remove(tx: Tx, where: Partial<Row>): Promise<number> {
    const [names, values] = this.#condition(where)
    const sql = this.#statements.getOrCreate(['remove', ...names], () => {
      this.#mustHave(names)
      return `delete from ${this.name} where ${allEqual(names)}`
    })
    return execute(tx, sql, values)
  }

  async count(tx: Tx): Promise<number> {
    return (await queryOne(tx, { n: integer }, `select count(*) as n from ${this.name}`)).n
  }

  /** Decodes a row of the store; as a function it is the schema of a `query` for whole rows. */
  readonly decode = (stored: StoredRow): Row => {
    const row: Record<string, unknown> = {}
    for (const name of this.columns) {
      const value = stored[name]
      if (value === null || value === undefined) continue
      row[name] = this.#parted.has(name) && typeof value === 'string' ? JSON.parse(value) : value
    }
    // A test compares columns and schema, so the columns of the table are those of the row.
    return row as Row
  }

  #select(): string {
    return `select ${this.columns.join(', ')} from ${this.name}`
  }

  #insertSql(names: readonly string[]): string {
    this.#mustHave(names)
    const marks = names.map((_, index) => `$${index + 1}`).join(', ')
    return `insert into ${this.name} (${names.join(', ')}) values (${marks})`
  }

  #mustHave(names: readonly string[]): void {
    const unknown = names.find((name) => !this.columns.includes(name))
    if (unknown !== undefined) throw new Error(`${this.name} has no column ${unknown}`)
  }

  #whole(row: Partial<Row>): Value[] {
    return this.columns.map((name) => this.#encode(name, memberOf(row, name)))
  }

  #given(row: Partial<Row>): ColumnValues {
    const names: string[] = []
    const values: Value[] = []
    for (const [name, value] of Object.entries(row)) {
      if (value === undefined) continue
      names.push(name)
      values.push(this.#encode(name, value))
    }
    return [names, values]
  }

  #condition(where: Partial<Row>): ColumnValues {
    const names = Object.keys(where)
    const values = names.map((name) => this.#encode(name, memberOf(where, name)))
    if (values.includes(null)) throw new Error(`a condition on ${this.name} has a column without a value`)
    return [names, values]
  }

  #encode(name: string, value: unknown): Value {
    return this.#parted.has(name) && value !== undefined ? JSON.stringify(value) : encodeValue(value)
  }

  async #chunk(tx: Tx, request: PageRequest<Row>, from: Value[] | undefined, limit: number): Promise<Row[]> {
    const { where = {}, order, below } = request
    const [names, values] = this.#condition(where)
    const paths = below?.paths.flatMap(subtree) ?? []
    const by = order.map(([name, way]) => `${name} ${way}`).join(', ')
    const shape = `page by ${by} ${from ? 'on' : 'from the start'} below ${below?.column} ${paths.length}`
    const sql = this.#statements.getOrCreate([shape, ...names], () => {
      this.#mustHave(names)
      const conditions = [
        ...equal(names),
        ...(below ? [withinSubtrees(below.column, below.paths.length, names.length)] : []),
        ...(from ? [afterPosition(order, names.length + paths.length)] : []),
      ]
      const only = conditions.length ? ` where ${conditions.join(' and ')}` : ''
      const marks = names.length + paths.length + (from?.length ?? 0)
      return `${this.#select()}${only} order by ${by} limit $${marks + 1}`
    })
    return query(tx, this.decode, sql, [...values, ...paths, ...(from ?? []), limit])
  }

  #place(cursor: string, order: Order<Row>): Value[] {
    const parts = readCursor(cursor)
    const fits = parts?.length === order.length && parts.every((part, index) => this.#fits(part, order[index]?.[0]))
    if (parts && fits) return parts.map(encodeValue)
    return refuse('invalid', 'after is not a cursor of this list', 'take it from the `next` of the page before')
  }

  /** The column's own schema says whether a cursor made by hand fits. */
  #fits(part: unknown, name: string | undefined): boolean {
    const column = name === undefined ? undefined : this.row.shape[name]
    if (column === undefined || part === undefined || part === null) return false
    // PostgreSQL has no such character, whatever the schema says.
    if (typeof part === 'string' && part.includes('\u0000')) return false
    // A row's shape is declared with the whole of zod, of which the type that TypeScript has here is the core.
    return (column as z.ZodType).safeParse(part).success
  }
}

function memberOf(row: object, name: string): unknown {
  // Rows are made of columns; TypeScript knows their names but not that this is one.
  return (row as Record<string, unknown>)[name]
}

function placeOf<Row>(row: Row, order: Order<Row>): Value[] {
  return order.map(([name]) => encodeValue(row[name]))
}

function encodeValue(value: unknown): Value {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return value
  throw new Error(`a ${typeof value} has no column`)
}

function hasParts(schema: z.core.$ZodType | undefined): boolean {
  if (!schema) return false
  const { def } = schema._zod
  // What wraps another schema keeps it under this name, which the type of all schemas does not say.
  if ('innerType' in def) return hasParts(def.innerType as z.core.$ZodType)
  return def.type === 'array' || def.type === 'object' || def.type === 'record'
}
