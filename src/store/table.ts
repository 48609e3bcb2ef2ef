// A row schema tied to a table. Absent is a missing key in TypeScript and NULL in SQL alone; lists and maps are JSON text.
import type { Kysely } from 'kysely'
import type { z } from 'zod'
import { refuse } from '../lib/refusal.ts'
import type { Tx, Value } from './engine.ts'
import type { Step, Stored } from './migrate.ts'
import { run } from './statement.ts'

export type Order<Row> = readonly (readonly [keyof Row & string, 'asc' | 'desc'])[]

export interface Page<Row> {
  rows: Row[]
  /** Where the next page begins; absent on the last one. */
  next?: string
}

export interface PageRequest<Row> {
  where?: Partial<Row>
  order: Order<Row>
  limit: number
  after?: string | undefined
  /** Rows that the caller may not see are passed over before `limit` counts. */
  keep?(row: Row): boolean
}

export interface TableDeclaration<R extends z.ZodObject> {
  name: string
  row: R
  key: (keyof z.output<R> & string) | readonly (keyof z.output<R> & string)[]
  storage: readonly Step[]
}

export type Patch<Row> = { [K in keyof Row]?: Row[K] | undefined }

/** The SQL columns of a row: what is optional is nullable, what has parts is text. */
type Columns<Row> = {
  [K in keyof Row]-?: undefined extends Row[K] ? Column<Exclude<Row[K], undefined>> | null : Column<Row[K]>
}
type Column<V> = V extends Value ? V : string

export class Table<R extends z.ZodObject, Row extends z.output<R> = z.output<R>> implements Stored {
  readonly name: string
  readonly row: R
  readonly key: readonly string[]
  readonly storage: readonly Step[]
  readonly columns: readonly string[]
  readonly #parted: ReadonlySet<string>
  readonly #sql = new Map<string, string>()

  constructor({ name, row, key, storage }: TableDeclaration<R>) {
    this.name = name
    this.row = row
    this.key = [key].flat()
    this.storage = storage
    this.columns = Object.keys(row.shape)
    this.#parted = new Set(this.columns.filter((column) => hasParts(row.shape[column])))
  }

  async find(tx: Tx, where: Partial<Row>): Promise<Row | undefined> {
    const [names, values] = this.#split(where)
    const sql = this.#once(`find ${names}`, () => `${this.#select()} where ${matches(names)} limit 1`)
    const { rows } = await run(tx, sql, values)
    return rows[0] && this.decode(rows[0])
  }

  /** Every row that matches, in the key's order unless another is given. */
  async list(tx: Tx, where: Partial<Row> = {}, order?: Order<Row>): Promise<Row[]> {
    const [names, values] = this.#split(where)
    const by = order?.map(([name, way]) => `${name} ${way}`).join(', ') ?? this.key.join(', ')
    const sql = this.#once(
      `list ${names} ${by}`,
      () => `${this.#select()}${names.length ? ` where ${matches(names)}` : ''} order by ${by}`,
    )
    const { rows } = await run(tx, sql, values)
    return rows.map((row) => this.decode(row))
  }

  async page(tx: Tx, { where = {}, order, limit, after, keep }: PageRequest<Row>): Promise<Page<Row>> {
    const rows: Row[] = []
    let from = after === undefined ? undefined : this.#place(after, order)
    for (;;) {
      const chunk = await this.#chunk(tx, where, order, from, keep ? Math.max(limit + 1, 500) : limit + 1)
      for (const row of chunk) {
        if (keep && !keep(row)) continue
        const last = rows[limit - 1]
        if (last) return { rows, next: this.#cursor(last, order) }
        rows.push(row)
      }
      const end = chunk.at(-1)
      if (!keep || !end || chunk.length < Math.max(limit + 1, 500)) return { rows }
      from = order.map(([name]) => encodeValue(end[name]))
    }
  }

  async insert(tx: Tx, row: Row): Promise<void> {
    const [names, values] = this.#split(row)
    const sql = this.#once(
      `insert ${names}`,
      () => `insert into ${this.name} (${names.join(', ')}) values (${marks(names)})`,
    )
    await run(tx, sql, values)
  }

  /** Inserts and answers with the row as stored, counters included. */
  async add(tx: Tx, row: Partial<Row>): Promise<Row> {
    const [names, values] = this.#split(row)
    const sql = this.#once(
      `add ${names}`,
      () =>
        `insert into ${this.name} (${names.join(', ')}) values (${marks(names)}) returning ${this.columns.join(', ')}`,
    )
    const { rows } = await run(tx, sql, values)
    return this.decode(rows[0] ?? {})
  }

  /** Inserts unless a row of this key is there; whether it did. */
  async insertIfMissing(tx: Tx, row: Row): Promise<boolean> {
    const [names, values] = this.#split(row)
    const sql = this.#once(
      `insert if missing ${names}`,
      () => `insert into ${this.name} (${names.join(', ')}) values (${marks(names)}) on conflict do nothing`,
    )
    return Number((await run(tx, sql, values)).numAffectedRows) > 0
  }

  /** Inserts, or sets the other columns of the row that has this key. */
  async upsert(tx: Tx, row: Row): Promise<void> {
    const [names, values] = this.#split(row)
    const sql = this.#once(`upsert ${names}`, () => {
      const rest = names.filter((name) => !this.key.includes(name)).map((name) => `${name} = excluded.${name}`)
      const action = rest.length ? `update set ${rest.join(', ')}` : 'nothing'
      return `insert into ${this.name} (${names.join(', ')}) values (${marks(names)})
        on conflict (${this.key.join(', ')}) do ${action}`
    })
    await run(tx, sql, values)
  }

  /** How many rows changed. A key that is present with `undefined` clears its column. */
  async update(tx: Tx, where: Partial<Row>, patch: Patch<Row>): Promise<number> {
    const set = Object.keys(patch)
    if (set.length === 0) return 0
    const [names, values] = this.#split(where)
    const sql = this.#once(
      `update ${set} where ${names}`,
      () => `update ${this.name} set ${matches(set, ', ')} where ${matches(names, ' and ', set.length)}`,
    )
    const changes = set.map((name) => this.#encode(name, patch[name as keyof Row]))
    return Number((await run(tx, sql, [...changes, ...values])).numAffectedRows)
  }

  async remove(tx: Tx, where: Partial<Row>): Promise<number> {
    const [names, values] = this.#split(where)
    if (names.length === 0) throw new Error(`remove from ${this.name} needs a condition`)
    const sql = this.#once(`remove ${names}`, () => `delete from ${this.name} where ${matches(names)}`)
    return Number((await run(tx, sql, values)).numAffectedRows)
  }

  async count(tx: Tx): Promise<number> {
    const { rows } = await run(tx, `select count(*) as n from ${this.name}`)
    return Number(rows[0]?.n ?? 0)
  }

  /** A record of the store as the row it is. */
  decode(record: Record<string, Value>): Row {
    const row: Record<string, unknown> = {}
    for (const name of this.columns) {
      const value = record[name]
      if (value === null || value === undefined) continue
      row[name] = this.#parted.has(name) && typeof value === 'string' ? JSON.parse(value) : value
    }
    // Columns and schema are compared by the house test, so what the table holds is the row.
    return row as Row
  }

  #select(): string {
    return `select ${this.columns.join(', ')} from ${this.name}`
  }

  #once(shape: string, write: () => string): string {
    const known = this.#sql.get(shape)
    if (known) return known
    const sql = write()
    this.#sql.set(shape, sql)
    return sql
  }

  #split(row: Partial<Row>): [string[], Value[]] {
    const names: string[] = []
    const values: Value[] = []
    for (const [name, value] of Object.entries(row)) {
      if (value === undefined) continue
      names.push(name)
      values.push(this.#encode(name, value))
    }
    return [names, values]
  }

  #encode(name: string, value: unknown): Value {
    return this.#parted.has(name) && value !== undefined ? JSON.stringify(value) : encodeValue(value)
  }

  async #chunk(
    tx: Tx,
    where: Partial<Row>,
    order: Order<Row>,
    from: Value[] | undefined,
    limit: number,
  ): Promise<Row[]> {
    const [names, values] = this.#split(where)
    const by = order.map(([name, way]) => `${name} ${way}`).join(', ')
    const sql = this.#once(`page ${names} ${by} ${from !== undefined}`, () => {
      const conditions = names.length ? [matches(names)] : []
      if (from) conditions.push(beyond(order, names.length))
      const only = conditions.length ? ` where ${conditions.join(' and ')}` : ''
      const places = from ? (order.length * (order.length + 1)) / 2 : 0
      return `${this.#select()}${only} order by ${by} limit $${names.length + places + 1}`
    })
    const places = from ? order.flatMap((_, index) => from.slice(0, index + 1)) : []
    const { rows } = await run(tx, sql, [...values, ...places, limit])
    return rows.map((row) => this.decode(row))
  }

  #cursor(row: Row, order: Order<Row>): string {
    const place = order.map(([name]) => {
      const value = encodeValue(row[name])
      return value instanceof Uint8Array ? { bytes: Buffer.from(value).toString('base64url') } : value
    })
    return Buffer.from(JSON.stringify(place)).toString('base64url')
  }

  #place(cursor: string, order: Order<Row>): Value[] {
    try {
      const place: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
      if (Array.isArray(place) && place.length === order.length)
        return place.map((part, i) => this.#placed(part, order[i]?.[0]))
    } catch {
      // Falls through to the refusal: whatever is wrong with it, it is not a cursor of ours.
    }
    return refuse('invalid', 'after is not a cursor of this list', 'take it from the `next` of the page before')
  }

  #placed(part: unknown, name: string | undefined): Value {
    const value: unknown =
      typeof part === 'object' && part !== null && 'bytes' in part && typeof part.bytes === 'string'
        ? Buffer.from(part.bytes, 'base64url')
        : part
    const checked = name === undefined ? undefined : this.row.shape[name]
    if (checked === undefined || !('safeParse' in checked)) throw new Error('no such column')
    // The column's own schema says whether a cursor made by hand fits; PostgreSQL would fail on the type otherwise.
    const { success } = (checked as z.ZodType).safeParse(value)
    if (!success) throw new Error('not a place')
    return encodeValue(value)
  }
}

/** `tx` as Kysely over just these tables, with the columns that their rows have. */
export function on<T extends Record<string, Table<z.ZodObject>>>(
  tx: Tx,
  _tables: T,
): Kysely<{ [K in keyof T]: T[K] extends Table<infer R> ? Columns<z.output<R>> : never }> {
  // Types alone: the machinery's view of the store is the widest, and this is one of its parts.
  return tx as never
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
  if ('innerType' in def) return hasParts(def.innerType as z.core.$ZodType)
  return def.type === 'array' || def.type === 'object' || def.type === 'record'
}

function marks(names: readonly string[]): string {
  return names.map((_, index) => `$${index + 1}`).join(', ')
}

function matches(names: readonly string[], join = ' and ', from = 0): string {
  return names.map((name, index) => `${name} = $${from + index + 1}`).join(join)
}

/** Rows behind a place, for mixed directions: (a > x) or (a = x and b < y) or … */
function beyond(order: readonly (readonly [string, 'asc' | 'desc'])[], from: number): string {
  let mark = from
  const arms = order.map(([name, way], index) => {
    const same = order.slice(0, index).map(([before]) => `${before} = $${++mark}`)
    return `(${[...same, `${name} ${way === 'asc' ? '>' : '<'} $${++mark}`].join(' and ')})`
  })
  return `(${arms.join(' or ')})`
}
