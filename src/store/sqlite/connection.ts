// One connection to a SQLite file: node:sqlite under Kysely, with the settings that durability rests on.
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from 'kysely'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../engine.ts'
import { answered } from './faults.ts'

/** Long enough to step over another process's commit, short enough not to hold the event loop. */
const BUSY_MS = 5
const STATEMENTS_KEPT = 500

interface Prepared {
  statement: StatementSync
  reads: boolean
  booleans: readonly string[]
}

export class Connection implements DatabaseConnection {
  readonly db: DatabaseSync
  readonly tx: Tx
  readonly #prepared = new Map<string, Prepared>()

  constructor(path: string) {
    this.db = answered(path, () => new DatabaseSync(path, { timeout: BUSY_MS, enableForeignKeyConstraints: true }))
    this.tx = kyselyOver(this)
  }

  /** Sets what must hold and reads it back: a disk that cannot do WAL must not look as if it could. */
  configure(path: string): void {
    answered(path, () => {
      this.db.exec('pragma journal_mode = wal')
      this.db.exec('pragma synchronous = full')
      this.db.exec('pragma foreign_keys = on')
      this.db.exec(`pragma busy_timeout = ${BUSY_MS}`)
    })
    const wanted = { journal_mode: 'wal', synchronous: 2, foreign_keys: 1, timeout: BUSY_MS }
    for (const [name, value] of Object.entries(wanted)) {
      const is = this.pragma(name === 'timeout' ? 'busy_timeout' : name)
      if (is !== value) refuse('unavailable', `the store at ${path} cannot have ${name} = ${value}; it has ${is}`)
    }
  }

  pragma(name: string): unknown {
    const row = this.db.prepare(`pragma ${name}`).get()
    return row && Object.values(row)[0]
  }

  async executeQuery<R>(compiled: CompiledQuery): Promise<QueryResult<R>> {
    const { statement, reads, booleans } = this.#prepare(compiled.sql)
    const parameters = compiled.parameters.map(bindable)
    if (!reads) {
      const { changes, lastInsertRowid } = statement.run(...parameters)
      return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) }
    }
    const rows = statement.all(...parameters)
    for (const name of booleans)
      for (const row of rows) if (row[name] !== null) Object.assign(row, { [name]: row[name] === 1 })
    // The caller says what the rows are; Kysely's port leaves no other way.
    return { rows: rows as R[], numAffectedRows: BigInt(rows.length) }
  }

  // biome-ignore lint/correctness/useYield: the port asks for it and nobody streams
  async *streamQuery<R>(): AsyncIterableIterator<QueryResult<R>> {
    throw new Error('rows are read in pages, not streamed')
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql)
    if (known) return known
    const statement = this.db.prepare(sql.replace(/\$\d+/g, '?'))
    const columns = statement.columns()
    const prepared = {
      statement,
      reads: columns.length > 0,
      booleans: columns.filter((column) => column.type?.toLowerCase() === 'boolean').map((column) => column.name),
    }
    if (this.#prepared.size >= STATEMENTS_KEPT) this.#prepared.clear()
    this.#prepared.set(sql, prepared)
    return prepared
  }

  close(): void {
    this.#prepared.clear()
    if (this.db.isOpen) this.db.close()
  }
}

function bindable(value: unknown): string | number | bigint | Uint8Array | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return value
  if (value instanceof Uint8Array) return value
  throw new Error(`a ${typeof value} cannot be stored`)
}

/** Kysely on exactly this connection. Transactions are opened by the engine, so the driver's own are never called. */
function kyselyOver(connection: Connection): Tx {
  const driver: Driver = {
    init: async () => {},
    acquireConnection: async () => connection,
    beginTransaction: async () => {},
    commitTransaction: async () => {},
    rollbackTransaction: async () => {},
    releaseConnection: async () => {},
    destroy: async () => {},
  }
  return new Kysely({
    dialect: {
      // Without "several connections" Kysely would queue every query behind a lock of its own.
      createAdapter: () => Object.defineProperty(new SqliteAdapter(), 'supportsMultipleConnections', { value: true }),
      createDriver: () => driver,
      createIntrospector: (db) => new SqliteIntrospector(db),
      createQueryCompiler: () => new SqliteQueryCompiler(),
    },
  })
}
