// One statement for many rows: in one round trip where the server is elsewhere, row by row where it is in this process.
import type { Dialect, Tx, Value } from './engine.ts'
import { execute, integer } from './statement.ts'

export interface InsertIdOptions {
  /** A column that tells the rows apart. */
  readonly key: string
  /** The column that the store counts up. */
  readonly counter: string
  /** Whether nothing follows in its transaction. */
  readonly isLast?: boolean
}

/**
 * `v` in the text is a table with these columns, and one named `n` that counts from 1. `{rows}` stands where it is
 * joined, in front of another table, and `{in order}` at the end of what reads it.
 */
export class MultiRowStatement {
  readonly #sql: string
  readonly #columns: readonly (readonly [name: string, type: string])[]
  readonly #texts = new Map<string, string>()

  constructor(columns: Readonly<Record<string, 'text' | 'bytea' | 'bigint'>>, sql: string) {
    this.#columns = Object.entries(columns)
    this.#sql = sql
  }

  /** The number of rows that all of them changed. */
  async run(tx: Tx, dialect: Dialect, rows: readonly (readonly Value[])[]): Promise<number> {
    if (rows.length === 0) return 0
    const sql = this.#text(dialect)
    if (dialect.isRemote) return execute(tx, sql, this.#parameters(rows))
    let changes = 0
    for (const row of rows) changes += await execute(tx, sql, row)
    return changes
  }

  /** Of an insert that returns nothing: the number that each row was given, or nothing where it was not inserted. */
  async insertReturningIds(
    tx: Tx,
    dialect: Dialect,
    rows: readonly (readonly Value[])[],
    { key, counter, isLast = false }: InsertIdOptions,
  ): Promise<readonly (number | undefined)[]> {
    if (rows.length === 0) return []
    const sql = this.#text(dialect)
    if (tx.executeEach)
      return tx.executeEach(sql, rows).map(({ changes, lastId }) => (changes > 0 ? lastId : undefined))
    const at = this.#columns.findIndex(([name]) => name === key)
    const statement = { sql: `${sql} returning ${key}, ${counter}`, parameters: this.#parameters(rows) }
    const { rows: stored } = await (isLast && tx.executeLast ? tx.executeLast(statement) : tx.executeQuery(statement))
    const numbers = new Map(stored.map((row) => [row[key], integer(row[counter], counter)]))
    return rows.map((row) => numbers.get(row[at] ?? null))
  }

  #text(dialect: Dialect): string {
    const known = this.#texts.get(dialect.name)
    if (known !== undefined) return known
    const text = dialect.isRemote ? this.#arrays() : this.#single()
    this.#texts.set(dialect.name, text)
    return text
  }

  /**
   * Bytes go as one piece with where each begins and how long it is: in an array the driver would have to write each of
   * them out in hexadecimal, and the server to read it.
   */
  #arrays(): string {
    let mark = 0
    const next = (type: string): string => `$${++mark}::${type}`
    const [arrays, names, values]: [string[], string[], string[]] = [[], [], []]
    for (const [name, type] of this.#columns) {
      if (type === 'bytea') {
        values.push(`substring(${next('bytea')} from u.${name}_at for u.${name}_for) as ${name}`)
        arrays.push(next('integer[]'), next('integer[]'))
        names.push(`${name}_at`, `${name}_for`)
      } else {
        values.push(`u.${name}`)
        arrays.push(next(`${type}[]`))
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
      else parameters.push(...pieces(column))
    }
    // The driver takes arrays; a value of ours is none, so its type does not know them.
    return parameters as never
  }

  /** Of one row nothing needs to be joined or sorted: its values stand where they are used. */
  #single(): string {
    return this.#sql
      .replace('{rows}', '')
      .replace('{in order}', '')
      .replace(/\bv\.(\w+)/g, (_, name) => `$${this.#columns.findIndex(([column]) => column === name) + 1}`)
  }
}

/** All bytes of a column, where each begins (from 1), and how long it is. */
function pieces(column: readonly Value[]): [Uint8Array, (number | null)[], (number | null)[]] {
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
