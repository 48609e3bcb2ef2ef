// One statement for many rows: one round trip to a remote server, or one execution per row in this process.
import type { Dialect, Tx, Value } from './engine.ts'
import { execute, integer } from './statement.ts'

interface InsertIdOptions {
  /** A column that identifies the rows. */
  readonly key: string
  /** The auto-increment column. */
  readonly counter: string
  /** Whether it is the last statement of its transaction. */
  readonly isLast?: boolean
}

/**
 * In the SQL text, `v` is a table of the rows, with their columns and a row number `n` from 1. `{rows}` marks where it is
 * joined, before another table, and `{in order}` where the result is sorted by it.
 */
export class MultiRowStatement {
  readonly #sql: string
  readonly #columns: readonly (readonly [name: string, type: string])[]
  readonly #sqlByDialect = new Map<string, string>()

  constructor(columns: Readonly<Record<string, 'text' | 'bytea' | 'bigint'>>, sql: string) {
    this.#columns = Object.entries(columns)
    this.#sql = sql
  }

  /** Returns the total number of changed rows. */
  async run(tx: Tx, dialect: Dialect, rows: readonly (readonly Value[])[]): Promise<number> {
    if (rows.length === 0) return 0
    const sql = this.#sqlFor(dialect)
    if (dialect.isRemote) return execute(tx, sql, this.#parameters(rows))
    let changes = 0
    for (const row of rows) changes += await execute(tx, sql, row)
    return changes
  }

  /** Runs an insert without `returning`. Returns the id of each row, or undefined if it was not inserted. */
  async insertReturningIds(
    tx: Tx,
    dialect: Dialect,
    rows: readonly (readonly Value[])[],
    { key, counter, isLast = false }: InsertIdOptions,
  ): Promise<readonly (number | undefined)[]> {
    if (rows.length === 0) return []
    const sql = this.#sqlFor(dialect)
    if (tx.executeEach)
      return tx.executeEach(sql, rows).map(({ changes, lastId }) => (changes > 0 ? lastId : undefined))
    const at = this.#columns.findIndex(([name]) => name === key)
    const statement = { sql: `${sql} returning ${key}, ${counter}`, parameters: this.#parameters(rows) }
    const { rows: stored } = await (isLast && tx.executeLast ? tx.executeLast(statement) : tx.executeQuery(statement))
    const ids = new Map(stored.map((row) => [row[key], integer(row[counter], counter)]))
    return rows.map((row) => ids.get(row[at] ?? null))
  }

  #sqlFor(dialect: Dialect): string {
    const known = this.#sqlByDialect.get(dialect.name)
    if (known !== undefined) return known
    const text = dialect.isRemote ? this.#writeMultiRowSql() : this.#writeSingleRowSql()
    this.#sqlByDialect.set(dialect.name, text)
    return text
  }

  /** Bytes are sent as one parameter with offsets and lengths: in an array, each value would be encoded as hexadecimal. */
  #writeMultiRowSql(): string {
    let mark = 0
    const placeholder = (type: string): string => `$${++mark}::${type}`
    const [arrays, names, values]: [string[], string[], string[]] = [[], [], []]
    for (const [name, type] of this.#columns) {
      if (type === 'bytea') {
        values.push(`substring(${placeholder('bytea')} from u.${name}_at for u.${name}_for) as ${name}`)
        arrays.push(placeholder('integer[]'), placeholder('integer[]'))
        names.push(`${name}_at`, `${name}_for`)
      } else {
        values.push(`u.${name}`)
        arrays.push(placeholder(`${type}[]`))
        names.push(name)
      }
    }
    const rows = `(select ${values.join(', ')}, u.n from unnest(${arrays.join(', ')}) with ordinality as u(${names.join(', ')}, n)) as v,`
    return this.#sql.replace('{rows}', rows).replace('{in order}', 'order by v.n')
  }

  #parameters(rows: readonly (readonly Value[])[]): readonly Value[] {
    const parameters: (Value | readonly Value[])[] = []
    for (const [at, [, type]] of this.#columns.entries()) {
      const column = rows.map((row) => row[at] ?? null)
      if (type !== 'bytea') parameters.push(column)
      else parameters.push(...joinBytes(column))
    }
    // The driver accepts arrays, which `Value` does not include.
    return parameters as never
  }

  /** One row needs no join: placeholders replace its columns. */
  #writeSingleRowSql(): string {
    return this.#sql
      .replace('{rows}', '')
      .replace('{in order}', '')
      .replace(/\bv\.(\w+)/g, (_, name) => `$${this.#columns.findIndex(([column]) => column === name) + 1}`)
  }
}

/** Joins the values of a column; also returns their offsets (from 1) and lengths. */
function joinBytes(column: readonly Value[]): [Uint8Array, (number | null)[], (number | null)[]] {
  const all = column.map((value) => (value instanceof Uint8Array ? value : undefined))
  let from = 1
  const starts = all.map((bytes) => {
    const start = from
    from += bytes?.byteLength ?? 0
    return bytes ? start : null
  })
  const present = all.filter((bytes) => bytes !== undefined)
  return [Buffer.concat(present), starts, all.map((bytes) => bytes?.byteLength ?? null)]
}
