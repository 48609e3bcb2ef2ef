// Tables with a row schema. A missing value is an absent key in TypeScript and NULL in SQL; lists and maps are JSON text.
import type { z } from 'zod'
import { refuse } from '../lib/refusal.ts'
import { readCursor, writeCursor } from './cursor.ts'
import type { StoredRow, Tx, Value } from './engine.ts'
import type { MigrationStep, StoredTable } from './migrate.ts'
import { afterPosition, allEqual, containsText, equal, likePattern, subtree, withinSubtrees } from './sql-conditions.ts'
import { execute, integer, placeholders, query, queryOne } from './statement.ts'
import { StatementCache } from './statement-cache.ts'

export type Order<Row> = readonly (readonly [keyof Row & string, 'asc' | 'desc'])[]

interface RowPage<Row> {
  rows: Row[]
  /** The cursor of the next page; absent on the last one. */
  next?: string
}

export interface PageRequest<Row> {
  where?: Partial<Row>
  /** Non-null columns that together identify a row. */
  order: Order<Row>
  limit: number
  after?: string | undefined
  /** Only rows whose column is one of these paths or below one. */
  below?: { readonly column: keyof Row & string; readonly paths: readonly string[] } | undefined
  /**
   * Only rows that match one of these; null is a column without a value. Each is read by itself, so an index that has its columns
   * and then those of the order finds a page without sorting.
   */
  anyOf?: readonly { readonly [K in keyof Row]?: Row[K] | null }[] | undefined
  /** Only rows in which one of the columns contains the text; ASCII letters match in either case. */
  containing?: { readonly columns: readonly (keyof Row & string)[]; readonly text: string } | undefined
  /** Filters rows that the caller may not see; they do not count towards `limit`. */
  keep?(row: Row): boolean
  /** After this many rows the page ends with a cursor, even if `keep` left fewer than `limit`. Default: no limit. */
  examinedMax?: number | undefined
}

interface TableDeclaration<R extends z.ZodObject> {
  name: string
  row: R
  key: (keyof z.output<R> & string) | readonly (keyof z.output<R> & string)[]
  storage: readonly MigrationStep[]
}

export type Patch<Row> = { [K in keyof Row]?: Row[K] | undefined }

/** Names and values of some columns. */
type ColumnValues = readonly [names: string[], values: Value[]]

interface ConditionArm {
  readonly names: readonly string[]
  readonly values: readonly Value[]
  /** Columns without a value. */
  readonly missing: readonly string[]
}

/** Rows per query when a filter drops rows. */
const CHUNK_ROWS = 500

export class Table<R extends z.ZodObject, Row extends z.output<R> = z.output<R>> implements StoredTable {
  readonly name: string
  readonly row: R
  readonly key: readonly string[]
  readonly storage: readonly MigrationStep[]
  readonly columns: readonly string[]
  readonly #jsonColumns: ReadonlySet<string>
  readonly #statements = new StatementCache()

  constructor({ name, row, key, storage }: TableDeclaration<R>) {
    this.name = name
    this.row = row
    this.key = [key].flat()
    this.storage = storage
    this.columns = Object.keys(row.shape)
    this.#jsonColumns = new Set(this.columns.filter((column) => isJsonSchema(row.shape[column])))
  }

  async find(tx: Tx, where: Partial<Row>): Promise<Row | undefined> {
    const [names, values] = this.#encodeCondition(where)
    const sql = this.#statements.getOrCreate(['find', ...names], () => {
      this.#requireColumns(names)
      return `${this.#select()} where ${allEqual(names)} limit 1`
    })
    const [row] = await query(tx, this.decode, sql, values)
    return row
  }

  /** Lists all matching rows, ordered by the key unless another order is given. */
  async list(tx: Tx, where: Partial<Row> = {}, order?: Order<Row>): Promise<Row[]> {
    const [names, values] = this.#encodeCondition(where)
    const sql = this.#statements.getOrCreate(['list', ...names, 'by', ...(order?.flat() ?? [])], () => {
      this.#requireColumns(names)
      const by = order?.map(([name, way]) => `${name} ${way}`).join(', ') ?? this.key.join(', ')
      const filter = names.length ? ` where ${allEqual(names)}` : ''
      return `${this.#select()}${filter} order by ${by}`
    })
    return query(tx, this.decode, sql, values)
  }

  async page(tx: Tx, request: PageRequest<Row>): Promise<RowPage<Row>> {
    const { order, limit, after, keep, examinedMax = Number.POSITIVE_INFINITY } = request
    const rows: Row[] = []
    let from = after === undefined ? undefined : this.#readPosition(after, order)
    let size = limit + 1
    for (let examined = 0; ; ) {
      const chunk = await this.#readChunk(tx, request, from, size)
      for (const row of chunk) {
        if (keep && !keep(row)) continue
        const last = rows[limit - 1]
        if (last) return { rows, next: writeCursor(positionOf(last, order)) }
        rows.push(row)
      }
      const end = chunk.at(-1)
      if (!keep || !end || chunk.length < size) return { rows }
      from = positionOf(end, order)
      examined += chunk.length
      if (examined >= examinedMax) return { rows, next: writeCursor(from) }
      size = Math.max(size, CHUNK_ROWS)
    }
  }

  async insert(tx: Tx, row: Row): Promise<void> {
    const sql = this.#statements.getOrCreate(['insert whole'], () => this.#insertSql(this.columns))
    await execute(tx, sql, this.#encodeAll(row))
  }

  /** Inserts a row whose key is a counter. */
  async append(tx: Tx, row: Partial<Row>): Promise<void> {
    const [names, values] = this.#encodePresent(row)
    const sql = this.#statements.getOrCreate(['insert', ...names], () => this.#insertSql(names))
    await execute(tx, sql, values)
  }

  /** Inserts a row and returns it as stored, with its counter. */
  async insertReturning(tx: Tx, row: Partial<Row>): Promise<Row> {
    const [names, values] = this.#encodePresent(row)
    const sql = this.#statements.getOrCreate(
      ['add', ...names],
      () => `${this.#insertSql(names)} returning ${this.columns.join(', ')}`,
    )
    const [stored] = await query(tx, this.decode, sql, values)
    if (!stored) throw new Error(`insert into ${this.name} returned no row`)
    return stored
  }

  /** Inserts unless a row with this key exists; returns whether it did. */
  async insertIfMissing(tx: Tx, row: Row): Promise<boolean> {
    const sql = this.#statements.getOrCreate(
      ['insert if missing'],
      () => `${this.#insertSql(this.columns)} on conflict do nothing`,
    )
    return (await execute(tx, sql, this.#encodeAll(row))) > 0
  }

  /** Inserts the row, or replaces the row with the same key. */
  async upsert(tx: Tx, row: Row): Promise<void> {
    const sql = this.#statements.getOrCreate(['upsert'], () => {
      const rest = this.columns.filter((name) => !this.key.includes(name)).map((name) => `${name} = excluded.${name}`)
      const change = rest.length ? `update set ${rest.join(', ')}` : 'nothing'
      return `${this.#insertSql(this.columns)} on conflict (${this.key.join(', ')}) do ${change}`
    })
    await execute(tx, sql, this.#encodeAll(row))
  }

  /** Returns the number of changed rows. A member of `patch` that is undefined sets its column to NULL. */
  async update(tx: Tx, where: Partial<Row>, patch: Patch<Row>): Promise<number> {
    const set = Object.keys(patch)
    if (set.length === 0) return 0
    const [names, values] = this.#encodeCondition(where)
    const sql = this.#statements.getOrCreate(['update', ...names, 'set', ...set], () => {
      this.#requireColumns([...names, ...set])
      return `update ${this.name} set ${equal(set).join(', ')} where ${allEqual(names, set.length)}`
    })
    const changes = set.map((name) => this.#encode(name, getMember(patch, name)))
    return execute(tx, sql, [...changes, ...values])
  }

  async remove(tx: Tx, where: Partial<Row>): Promise<number> {
    const [names, values] = this.#encodeCondition(where)
    const sql = this.#statements.getOrCreate(['remove', ...names], () => {
      this.#requireColumns(names)
      return `delete from ${this.name} where ${allEqual(names)}`
    })
    return execute(tx, sql, values)
  }

  async count(tx: Tx): Promise<number> {
    return (await queryOne(tx, { n: integer }, `select count(*) as n from ${this.name}`)).n
  }

  /** Decodes a stored row. Also used as the schema of `query` for whole rows. */
  readonly decode = (stored: StoredRow): Row => {
    const row: Record<string, unknown> = {}
    for (const name of this.columns) {
      const value = stored[name]
      if (value === null || value === undefined) continue
      row[name] = this.#jsonColumns.has(name) && typeof value === 'string' ? JSON.parse(value) : value
    }
    // A test checks that the columns match the schema.
    return row as Row
  }

  #select(): string {
    return `select ${this.columns.join(', ')} from ${this.name}`
  }

  #insertSql(names: readonly string[]): string {
    this.#requireColumns(names)
    return `insert into ${this.name} (${names.join(', ')}) values (${placeholders(names.length)})`
  }

  #requireColumns(names: readonly string[]): void {
    const unknown = names.find((name) => !this.columns.includes(name))
    if (unknown !== undefined) throw new Error(`${this.name} has no column ${unknown}`)
  }

  #encodeAll(row: Partial<Row>): Value[] {
    return this.columns.map((name) => this.#encode(name, getMember(row, name)))
  }

  #encodePresent(row: Partial<Row>): ColumnValues {
    const names: string[] = []
    const values: Value[] = []
    for (const [name, value] of Object.entries(row)) {
      if (value === undefined) continue
      names.push(name)
      values.push(this.#encode(name, value))
    }
    return [names, values]
  }

  #encodeCondition(where: Partial<Row>): ColumnValues {
    const names = Object.keys(where)
    const values = names.map((name) => this.#encode(name, getMember(where, name)))
    // A dropped condition would match more rows.
    if (values.includes(null)) throw new Error(`a condition on ${this.name} has a column without a value`)
    return [names, values]
  }

  #encode(name: string, value: unknown): Value {
    return this.#jsonColumns.has(name) && value !== undefined ? JSON.stringify(value) : encodeValue(value)
  }

  async #readChunk(tx: Tx, request: PageRequest<Row>, from: Value[] | undefined, limit: number): Promise<Row[]> {
    const { where = {}, order, below, containing, anyOf = [{}] } = request
    if (anyOf.length === 0) return []
    const arms = anyOf.map((each) => this.#encodeArm(where, each))
    const paths = below?.paths.flatMap(subtree) ?? []
    const shape = [
      `page by ${order.flat().join(' ')} ${from ? 'on' : 'from the start'} below ${below?.column} ${paths.length}`,
      ...(containing?.columns ?? []),
      ...arms.flatMap(({ names, missing }) => ['of', ...names, 'without', ...missing]),
    ]
    const sql = this.#statements.getOrCreate(shape, () => this.#pageSql(request, arms, from !== undefined))
    const pattern = containing === undefined ? [] : [likePattern(containing.text)]
    const values = arms.flatMap((arm) => [...arm.values, ...paths, ...(from ?? [])])
    return query(tx, this.decode, sql, [limit, ...pattern, ...values])
  }

  /** One of `anyOf`: columns with a value, and those that must have none. */
  #encodeArm(where: Partial<Row>, arm: { readonly [K in keyof Row]?: Row[K] | null }): ConditionArm {
    const missing = Object.keys(arm).filter((name) => getMember(arm, name) === null)
    const given = Object.fromEntries(Object.entries(arm).filter(([, value]) => value !== null))
    const [names, values] = this.#encodeCondition({ ...where, ...given })
    return { names, values, missing }
  }

  /** The parameters are the limit, the searched text if there is one, and then those of each arm. */
  #pageSql({ order, below, containing }: PageRequest<Row>, arms: readonly ConditionArm[], isLater: boolean): string {
    const pathMarks = (below?.paths.length ?? 0) * 3
    let marks = containing ? 2 : 1
    const filters = arms.map(({ names, missing }) => {
      this.#requireColumns([...names, ...missing, ...(containing?.columns ?? [])])
      const conditions = [
        ...equal(names, marks),
        ...missing.map((name) => `${name} is null`),
        ...(below ? [withinSubtrees(below.column, below.paths.length, marks + names.length)] : []),
        ...(isLater ? [afterPosition(order, marks + names.length + pathMarks)] : []),
        ...(containing ? [containsText(containing.columns, 2)] : []),
      ]
      marks += names.length + pathMarks + (isLater ? order.length : 0)
      return conditions.length ? ` where ${conditions.join(' and ')}` : ''
    })
    const tail = ` order by ${order.map(([name, way]) => `${name} ${way}`).join(', ')} limit $1`
    if (filters.length === 1) return `${this.#select()}${filters.join()}${tail}`
    // Each arm reads only the columns of the order, which identify the rows; the whole rows are read at the end.
    const names = order.map(([name]) => name)
    const firsts = filters.map(
      (filter, at) => `select * from (select ${names.join(', ')} from ${this.name}${filter}${tail}) as arm${at}`,
    )
    const found = `select ${names.join(', ')} from (${firsts.join(' union ')}) as arms${tail}`
    const columns = this.columns.map((name) => `t.${name}`).join(', ')
    // SQLite keeps the order of a cross join: first the rows that were found.
    return `select ${columns} from (${found}) as found cross join ${this.name} as t
      where ${names.map((name) => `t.${name} = found.${name}`).join(' and ')}
      order by ${order.map(([name, way]) => `t.${name} ${way}`).join(', ')}`
  }

  #readPosition(cursor: string, order: Order<Row>): Value[] {
    const parts = readCursor(cursor)
    const isValid =
      parts?.length === order.length && parts.every((part, index) => this.#isValidPart(part, order[index]?.[0]))
    if (parts && isValid) return parts.map(encodeValue)
    return refuse('invalid', 'after is not a cursor of this list', 'use the `next` of the previous page')
  }

  /** Validates a part of a cursor with the schema of its column: clients can forge cursors. */
  #isValidPart(part: unknown, name: string | undefined): boolean {
    const column = name === undefined ? undefined : this.row.shape[name]
    if (column === undefined || part === undefined || part === null) return false
    // PostgreSQL text cannot contain NUL.
    if (typeof part === 'string' && part.includes('\u0000')) return false
    // Shapes are declared with the full zod API; the static type is only its core.
    return (column as z.ZodType).safeParse(part).success
  }
}

function getMember(row: object, name: string): unknown {
  // The caller passes the name of a column.
  return (row as Record<string, unknown>)[name]
}

function positionOf<Row>(row: Row, order: Order<Row>): Value[] {
  return order.map(([name]) => encodeValue(row[name]))
}

function encodeValue(value: unknown): Value {
  if (value === undefined || value === null) return null
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value instanceof Uint8Array) return value
  throw new Error(`a value of type ${typeof value} cannot be stored`)
}

function isJsonSchema(schema: z.core.$ZodType | undefined): boolean {
  if (!schema) return false
  const { def } = schema._zod
  // Wrappers such as optional() have this member, which the common type does not declare.
  if ('innerType' in def) return isJsonSchema(def.innerType as z.core.$ZodType)
  return def.type === 'array' || def.type === 'object' || def.type === 'record'
}
