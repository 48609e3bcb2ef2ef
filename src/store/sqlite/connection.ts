// A connection to an SQLite file, with the settings that durability depends on.
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { refuse } from '../../lib/refusal.ts'
import type { QueryResult, RunResult, Value } from '../engine.ts'
import type { TransactionConnection } from '../running-transaction.ts'
import { primarySqliteCode, SQLITE } from '../sqlite-codes.ts'
import { replaceOutsideQuotes } from '../statement.ts'
import { isBusy, translateSqliteError } from './errors.ts'
import { FileIdentity } from './file-identity.ts'

/** Longer than a commit of another process, but too short to block the event loop. */
const CONNECTION_BUSY_MS = 5
const STATEMENT_CACHE_SIZE = 500
const WAL_KEPT_BYTES = 32 * 1024 * 1024

/** Required settings of every connection. */
const PRAGMAS: Readonly<Record<string, string | number>> = {
  journal_mode: 'wal',
  synchronous: 2,
  foreign_keys: 1,
  busy_timeout: CONNECTION_BUSY_MS,
  journal_size_limit: WAL_KEPT_BYTES,
  // wal-checkpointer.ts does it.
  wal_autocheckpoint: 0,
  temp_store: 2,
  trusted_schema: 0,
}

interface PreparedStatement {
  readonly statement: StatementSync
  readonly returnsRows: boolean
  readonly booleans: readonly string[]
}

export class SqliteConnection implements TransactionConnection {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, PreparedStatement>()
  readonly #file: FileIdentity
  #isReadOnly = false

  /** `path` is the path in errors, if the store is created under a temporary name. */
  constructor(file: string, path = file) {
    this.path = path
    try {
      this.#db = new DatabaseSync(file, { timeout: CONNECTION_BUSY_MS, enableForeignKeyConstraints: true })
    } catch (error) {
      throw translateSqliteError(path, error)
    }
    this.#file = new FileIdentity(file)
  }

  /** Sets the required pragmas and reads them back: some file systems do not support WAL. */
  configure(): void {
    this.#db.enableDefensive(true)
    for (const [name, wanted] of Object.entries(PRAGMAS)) {
      this.#db.exec(`pragma ${name} = ${wanted}`)
      const actual = this.pragma(name)
      if (actual !== wanted)
        refuse('unavailable', `the store at ${this.path} does not support ${name} = ${wanted}; it has ${actual}`)
    }
  }

  /** Commits no longer wait for the disk: the caller must sync the log before it reports a commit. */
  disableCommitSync(): void {
    this.#db.exec('pragma synchronous = normal')
  }

  /** Messages touch pages all over the store; the default cache of 2 MiB would read each page again. */
  setCacheSize(kib: number): void {
    this.#db.exec(`pragma cache_size = -${kib}`)
  }

  makeReadOnly(): void {
    this.#db.exec('pragma query_only = on')
    this.#isReadOnly = true
  }

  pragma(name: string): unknown {
    const row = this.#prepare(`pragma ${name}`).statement.get()
    return row && Object.values(row)[0]
  }

  get isInTransaction(): boolean {
    return this.#db.isTransaction
  }

  /** Runs a statement without parameters or result. Fails on a commit if the file was replaced. */
  exec(sql: string): void {
    this.#prepare(sql).statement.run()
    if (sql === 'commit' && !this.#isReadOnly) this.#file.requireUnchanged()
  }

  get pageBytes(): number {
    return Number(this.pragma('page_size'))
  }

  /** Number of pages in the write-ahead log, and how many of them are checkpointed. */
  get walPages(): { readonly pages: number; readonly checkpointed: number } {
    return this.checkpoint('noop')
  }

  /**
   * Checkpoints the log. SQLite's automatic checkpoints hide failures. With two writing connections, a checkpoint may leave
   * pages for the next one to sync; if that sync fails, the pages are lost and not written again. So a failure is thrown and
   * must end the process: the next process starts with the whole log.
   *
   * `restart` blocks other writers and then restarts the log from its beginning, unless a reader uses it.
   */
  checkpoint(mode: 'noop' | 'passive' | 'restart'): { pages: number; checkpointed: number } {
    const row = this.#prepare(`pragma wal_checkpoint(${mode})`).statement.get()
    return { pages: Number(row?.log), checkpointed: Number(row?.checkpointed) }
  }

  query(sql: string, parameters: readonly unknown[]): QueryResult {
    const { statement, returnsRows, booleans } = this.#prepare(sql)
    const bound = parameters.map(toInputValue)
    if (!returnsRows) {
      const { changes } = statement.run(...bound)
      return { rows: [], changes: Number(changes) }
    }
    // Without BigInt, the types of node:sqlite are those of `Value`.
    const rows = statement.all(...bound) as Record<string, Value>[]
    for (const name of booleans) for (const row of rows) if (row[name] !== null) row[name] = row[name] === 1
    return { rows, changes: rows.length }
  }

  runEach(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[] {
    const { statement } = this.#prepare(sql)
    const results: RunResult[] = []
    for (const row of rows) {
      const { changes, lastInsertRowid } = statement.run(...row.map(toInputValue))
      results.push({ changes: Number(changes), lastId: Number(lastInsertRowid) })
    }
    return results
  }

  translateError(error: unknown): unknown {
    if (this.#isReadOnly && primarySqliteCode(error) === SQLITE.READ_ONLY)
      return new Error('a read-only transaction tried to write')
    return translateSqliteError(this.path, error)
  }

  close(): void {
    this.#prepared.clear()
    if (this.#db.isOpen) this.#db.close()
  }

  #prepare(sql: string): PreparedStatement {
    const cached = this.#prepared.get(sql)
    if (cached) return cached
    const text = replaceOutsideQuotes(sql, (part) => part.replace(/\$(\d+)/g, '?$1'))
    const statement = this.#db.prepare(text)
    // SQLite silently ignores all statements after the first.
    if (/[^\s;]/.test(text.slice(statement.sourceSQL.length))) throw new Error(`more than one statement: ${sql}`)
    const columns = statement.columns()
    const prepared = {
      statement,
      returnsRows: columns.length > 0,
      booleans: columns.filter((column) => column.type?.toLowerCase() === 'boolean').map((column) => column.name),
    }
    const [oldest] = this.#prepared.size >= STATEMENT_CACHE_SIZE ? this.#prepared.keys() : []
    if (oldest !== undefined) this.#prepared.delete(oldest)
    this.#prepared.set(sql, prepared)
    return prepared
  }
}

/** Blocks the thread while another process has an exclusive lock, which happens briefly when it opens the file. */
export function openSqliteConnection(path: string, busyMs: number): SqliteConnection {
  const connection = new SqliteConnection(path)
  const deadline = performance.now() + busyMs
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    try {
      connection.configure()
      return connection
    } catch (error) {
      if (isBusy(error) && performance.now() < deadline) {
        Atomics.wait(cell, 0, 0, 5)
        continue
      }
      connection.close()
      throw translateSqliteError(path, error)
    }
  }
}

function toInputValue(value: unknown): SQLInputValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'string') {
    // PostgreSQL does not support NUL in text, so SQLite refuses it too.
    if (value.includes('\u0000')) refuse('invalid', 'text must not contain a NUL character')
    return value
  }
  if (typeof value === 'number' || typeof value === 'bigint') return value
  if (value instanceof Uint8Array) return value
  throw new Error(`a value of type ${typeof value} cannot be stored`)
}
