// Fills a new SQLite store from a backup. No other process has it open, so it is written without a journal and synced once at
// the end.
import { closeSync, fsyncSync, openSync } from 'node:fs'
import { type BackupRow, refuseRow, type StoreLoad, type TableShape } from '../backup-rows.ts'
import { createTables, type StoredTable } from '../migrate.ts'
import { RunningTx } from '../running-transaction.ts'
import { placeholders } from '../statement.ts'
import { SqliteConnection } from './connection.ts'
import { sqliteDialect } from './dialect.ts'
import { translateSqliteError } from './errors.ts'
import { hasSequenceTable, readSqliteTables } from './snapshot.ts'
import { createStore } from './store-file.ts'

export async function openSqliteLoad(path: string, steps: readonly StoredTable[]): Promise<StoreLoad> {
  createStore(path)
  const connection = new SqliteConnection(path)
  try {
    for (const pragma of ['journal_mode = off', 'synchronous = off', 'foreign_keys = off']) connection.pragma(pragma)
    connection.exec('begin')
    await new RunningTx(connection).runWork((tx) => createTables(tx, sqliteDialect, steps))
    return new SqliteLoad(path, connection)
  } catch (error) {
    connection.close()
    throw translateSqliteError(path, error)
  }
}

class SqliteLoad implements StoreLoad {
  readonly tables: readonly TableShape[]
  readonly #path: string
  readonly #connection: SqliteConnection
  readonly #triggers: readonly string[]

  constructor(path: string, connection: SqliteConnection) {
    this.#path = path
    this.#connection = connection
    this.tables = readSqliteTables((sql) => this.#all(sql))
    const triggers = this.#all(`select name, sql from sqlite_schema where type = 'trigger'`)
    this.#triggers = triggers.map(({ sql }) => String(sql))
    for (const { name } of triggers) connection.exec(`drop trigger ${String(name)}`)
    // The backup also contains the rows that migration steps insert.
    for (const { name } of this.tables) connection.exec(`delete from ${name}`)
  }

  async insert({ name, columns }: TableShape, rows: readonly BackupRow[]): Promise<void> {
    this.#attempt(name, () =>
      this.#connection.runEach(
        `insert into ${name} (${columns.join(', ')}) values (${placeholders(columns.length)})`,
        rows,
      ),
    )
  }

  async finish(counters: Readonly<Record<string, number>>): Promise<void> {
    const hasSequences = hasSequenceTable((sql) => this.#all(sql))
    if (hasSequences) this.#connection.exec('delete from sqlite_sequence')
    for (const [name, seq] of hasSequences ? Object.entries(counters) : [])
      this.#connection.query('insert into sqlite_sequence (name, seq) values ($1, $2)', [name, seq])
    for (const sql of this.#triggers) this.#connection.exec(sql)
    const [violation] = this.#all('pragma foreign_key_check')
    if (violation) refuseRow(String(violation.table))
    this.#attempt('', () => this.#connection.exec('commit'))
    this.#connection.close()
    const file = openSync(this.#path, 'r+')
    fsyncSync(file)
    closeSync(file)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#connection.close()
  }

  #all(sql: string): Record<string, unknown>[] {
    return this.#connection.query(sql, []).rows as Record<string, unknown>[]
  }

  #attempt(table: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      const translated = translateSqliteError(this.#path, error)
      if (translated === error || isConflict(translated)) refuseRow(table)
      throw translated
    }
  }
}

function isConflict(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'conflict'
}
