// One connection to a SQLite file: node:sqlite with the settings that durability rests on.
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { refuse } from '../../lib/refusal.ts'
import type { QueryResult, RunResult, Value } from '../engine.ts'
import type { TransactionConnection } from '../running-transaction.ts'
import { replaceOutsideQuotes } from '../statement.ts'
import { isBusy, primaryCode, READ_ONLY, translateSqliteError, withSqliteErrors } from './errors.ts'
import { FileIdentity } from './file-identity.ts'

/** Long enough to step over another process's commit, short enough not to hold the event loop. */
export const CONNECTION_BUSY_MS = 5
const STATEMENTS_KEPT = 500
const LOG_KEPT_BYTES = 32 * 1024 * 1024

/** What must hold on every connection: each is set, and read back. */
const PRAGMAS: Readonly<Record<string, string | number>> = {
  journal_mode: 'wal',
  synchronous: 2,
  foreign_keys: 1,
  busy_timeout: CONNECTION_BUSY_MS,
  journal_size_limit: LOG_KEPT_BYTES,
  // By hand, see wal-checkpointer.ts.
  wal_autocheckpoint: 0,
  temp_store: 2,
  trusted_schema: 0,
}

interface Prepared {
  readonly statement: StatementSync
  readonly reads: boolean
  readonly booleans: readonly string[]
}

export class SqliteConnection implements TransactionConnection {
  readonly path: string
  readonly #db: DatabaseSync
  readonly #prepared = new Map<string, Prepared>()
  readonly #file: FileIdentity
  #isReadOnly = false

  /** `path` is what sentences call the store, where it is made under another name first. */
  constructor(file: string, path = file) {
    this.path = path
    this.#db = withSqliteErrors(
      path,
      () => new DatabaseSync(file, { timeout: CONNECTION_BUSY_MS, enableForeignKeyConstraints: true }),
    )
    this.#file = new FileIdentity(file)
  }

  /** Sets what must hold and reads it back: a disk that cannot do WAL must not look as if it could. */
  configure(): void {
    this.#db.enableDefensive(true)
    for (const [name, wanted] of Object.entries(PRAGMAS)) {
      this.#db.exec(`pragma ${name} = ${wanted}`)
      const is = this.pragma(name)
      if (is !== wanted)
        refuse('unavailable', `the store at ${this.path} cannot have ${name} = ${wanted}; it has ${is}`)
    }
  }

  /** From now on a commit is in the log, but not yet on the disk: the caller syncs the log before it tells anybody. */
  disableCommitSync(): void {
    this.#db.exec('pragma synchronous = normal')
  }

  /** How many pages it may keep in memory: messages are filed all over the store, and with SQLite's own 2 MiB each is read again. */
  setCacheSize(kib: number): void {
    this.#db.exec(`pragma cache_size = -${kib}`)
  }

  /** From now on nothing can be written here. */
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

  /** A statement without parameters and without an answer. A commit to a file that is not the store any more fails. */
  exec(sql: string): void {
    this.#prepare(sql).statement.run()
    if (sql === 'commit' && !this.#isReadOnly) this.#file.requireUnchanged()
  }

  get pageBytes(): number {
    return Number(this.pragma('page_size'))
  }

  /** How many pages are in the log, and how many of them have been brought into the file. */
  get walPages(): { readonly pages: number; readonly checkpointed: number } {
    return this.#checkpoint('noop')
  }

  /**
   * Brings the log into the file. SQLite would do it by itself, and keep to itself that it failed. But where two connections
   * write, pages may have been brought over without a sync, for the next one to sync; when that fails, the disk has forgotten
   * them and they are not written again. So a failure is thrown, and must end the process: the next one that opens the store begins
   * with the whole log.
   */
  checkpointWal(): void {
    this.#checkpoint('passive')
  }

  /** While no other connection writes: the next commit is at the beginning of the log again, unless a reader still uses it. */
  restartWal(): void {
    this.#checkpoint('restart')
  }

  #checkpoint(how: 'noop' | 'passive' | 'restart'): { pages: number; checkpointed: number } {
    const row = this.#prepare(`pragma wal_checkpoint(${how})`).statement.get()
    return { pages: Number(row?.log), checkpointed: Number(row?.checkpointed) }
  }

  query(sql: string, parameters: readonly unknown[]): QueryResult {
    const { statement, reads, booleans } = this.#prepare(sql)
    const bound = parameters.map(bindable)
    if (!reads) {
      const { changes } = statement.run(...bound)
      return { rows: [], changes: Number(changes) }
    }
    // Numbers are not read as BigInt, so these are the types of a value.
    const rows = statement.all(...bound) as Record<string, Value>[]
    for (const name of booleans) for (const row of rows) if (row[name] !== null) row[name] = row[name] === 1
    return { rows, changes: rows.length }
  }

  runEach(sql: string, rows: readonly (readonly Value[])[]): readonly RunResult[] {
    const { statement } = this.#prepare(sql)
    const counted: RunResult[] = []
    for (const row of rows) {
      const { changes, lastInsertRowid } = statement.run(...row.map(bindable))
      counted.push({ changes: Number(changes), lastId: Number(lastInsertRowid) })
    }
    return counted
  }

  translateError(error: unknown): unknown {
    if (this.#isReadOnly && primaryCode(error) === READ_ONLY) return new Error('a read tried to write')
    return translateSqliteError(this.path, error)
  }

  close(): void {
    this.#prepared.clear()
    if (this.#db.isOpen) this.#db.close()
  }

  #prepare(sql: string): Prepared {
    const known = this.#prepared.get(sql)
    if (known) return known
    const text = replaceOutsideQuotes(sql, (part) => part.replace(/\$(\d+)/g, '?$1'))
    const statement = this.#db.prepare(text)
    // SQLite would run the first of several statements and say nothing of the others.
    if (/[^\s;]/.test(text.slice(statement.sourceSQL.length))) throw new Error(`more than one statement: ${sql}`)
    const columns = statement.columns()
    const prepared = {
      statement,
      reads: columns.length > 0,
      booleans: columns.filter((column) => column.type?.toLowerCase() === 'boolean').map((column) => column.name),
    }
    const [oldest] = this.#prepared.size >= STATEMENTS_KEPT ? this.#prepared.keys() : []
    if (oldest !== undefined) this.#prepared.delete(oldest)
    this.#prepared.set(sql, prepared)
    return prepared
  }
}

/** Stands still while another process has the file to itself, which is for moments and only while it is opened. */
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

function bindable(value: unknown): SQLInputValue {
  if (value === undefined || value === null) return null
  if (typeof value === 'boolean') return value ? 1 : 0
  if (typeof value === 'string') {
    // PostgreSQL cannot hold it, and what one engine refuses the other refuses too.
    if (value.includes('\u0000')) refuse('invalid', 'text must not hold a NUL character')
    return value
  }
  if (typeof value === 'number' || typeof value === 'bigint') return value
  if (value instanceof Uint8Array) return value
  throw new Error(`a ${typeof value} cannot be stored`)
}
