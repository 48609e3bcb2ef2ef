// SQLite in this process: one writer with group commit, a few readers.
import { existsSync } from 'node:fs'
import { setImmediate as immediate } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../engine.ts'
import {
  InFlightOperations,
  RunningTx,
  refuseNestedTransaction,
  type TransactionConnection,
} from '../running-transaction.ts'
import { openSqliteConnection, type SqliteConnection } from './connection.ts'
import { DataVersionWatcher } from './data-version-watcher.ts'
import { sqliteDialect } from './dialect.ts'
import { translateSqliteError } from './errors.ts'
import { copyStore, createStore, requireStore } from './store-file.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'
import { WalSync } from './wal-sync.ts'
import { Writer } from './writer.ts'

const READERS = 4
const CACHE_KIB = 32_768
const TURN_MS = 10
/** Older ones may damage a file that two processes write (the race of a log that is begun anew). */
const OLDEST_SQLITE = [3, 51, 3]

export interface SqliteOptions {
  path: string
  /** Make the file when there is none. */
  create?: boolean
  /** How long a write waits for other processes' writes. */
  busyMs?: number
  /** Tests: awaiting anything but the store inside a transaction is an error. */
  strict?: boolean
  /** Tests: what syncs the log instead of the system. */
  sync?: ((file: number) => Promise<void>) | undefined
}

export function openSqlite({ path, create = false, busyMs = 15_000, strict = false, sync }: SqliteOptions): Engine {
  requireSqliteVersion(process.versions.sqlite ?? '')
  if (!existsSync(path)) {
    if (!create) refuse('not_found', `there is no store at ${path}`)
    createStore(path)
  }
  requireStore(path)
  return new SqliteEngine(openSqliteConnection(path, busyMs), { busyMs, strict, sync })
}

class SqliteEngine implements Engine {
  readonly dialect = sqliteDialect
  readonly #path: string
  readonly #busyMs: number
  readonly #connection: SqliteConnection
  readonly #writer: Writer
  readonly #log: WalCheckpointer
  readonly #sync: WalSync
  readonly #attendance = new InFlightOperations()
  readonly #idle: SqliteConnection[] = []
  readonly #waiting: PromiseWithResolvers<SqliteConnection>[] = []
  readonly #failure = Promise.withResolvers<unknown>()
  #version: DataVersionWatcher | undefined
  #readers = 0
  #hasFailed = false

  constructor(
    connection: SqliteConnection,
    options: Required<Pick<SqliteOptions, 'busyMs' | 'strict'>> & Pick<SqliteOptions, 'sync'>,
  ) {
    this.#path = connection.path
    this.#busyMs = options.busyMs
    this.#connection = connection
    this.#sync = new WalSync(connection.path, options.sync)
    this.#log = new WalCheckpointer(connection, (error) => this.#fail(error))
    connection.disableCommitSync()
    connection.setCacheSize(CACHE_KIB)
    this.#writer = new Writer(connection, {
      ...options,
      afterCommit: () => this.#sync.afterCommit(),
      onDiskError: (error) => this.#fail(error),
      checkpoint: () => this.#log.afterCommit(),
    })
  }

  get failed(): Promise<unknown> {
    return this.#failure.promise
  }

  #fail(error: unknown): void {
    this.#hasFailed = true
    this.#failure.resolve(error)
  }

  async read<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    refuseNestedTransaction()
    return this.#attendance.track(async () => {
      const value = await this.#readNow(work)
      // It may have seen a commit that is not on the disk yet: the caller must not see a row that a power cut could take back.
      await this.#sync.pending
      return value
    })
  }

  async #readNow<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const reader = await this.#takeReader()
    try {
      reader.exec('begin')
      return await new RunningTx(inTurns(reader)).runWork(work)
    } catch (error) {
      throw translateSqliteError(this.#path, error)
    } finally {
      if (reader.isInTransaction) reader.exec('commit')
      this.#giveReader(reader)
    }
  }

  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    refuseNestedTransaction()
    return this.#attendance.track(() => this.#writer.run(work))
  }

  /** One connection looks for all listeners. */
  listen(listener: (about: string) => void): () => void {
    this.#version ??= new DataVersionWatcher(openSqliteConnection(this.#path, this.#busyMs))
    return this.#version.listen(listener)
  }

  async copy(label: string): Promise<string> {
    return this.#attendance.track(async () => {
      // Not on a reader, which may not write, nor on the writer, which may be in a transaction.
      const connection = openSqliteConnection(this.#path, this.#busyMs)
      try {
        return copyStore(connection, `${this.#path}.${label}`)
      } finally {
        connection.close()
      }
    })
  }

  async close(): Promise<void> {
    await this.#attendance.drain()
    for (const reader of this.#idle.splice(0)) reader.close()
    this.#version?.close()
    await Promise.all([this.#sync.close(), this.#log.close()])
    // Whoever closes last brings the log into the file: after a failure that is for whoever opens the store next.
    if (!this.#hasFailed) this.#connection.close()
  }

  async #takeReader(): Promise<SqliteConnection> {
    const idle = this.#idle.pop()
    if (idle) return idle
    if (this.#readers < READERS) {
      const reader = openSqliteConnection(this.#path, this.#busyMs)
      reader.makeReadOnly()
      this.#readers++
      return reader
    }
    const turn = Promise.withResolvers<SqliteConnection>()
    this.#waiting.push(turn)
    return turn.promise
  }

  #giveReader(reader: SqliteConnection): void {
    const next = this.#waiting.shift()
    if (next) next.resolve(reader)
    else this.#idle.push(reader)
  }
}

/** A read that takes long lets the event loop turn between two of its statements. */
function inTurns(connection: SqliteConnection): TransactionConnection {
  let since = performance.now()
  return {
    query: (sql, parameters) => {
      if (performance.now() - since < TURN_MS) return connection.query(sql, parameters)
      return immediate().then(() => {
        since = performance.now()
        return connection.query(sql, parameters)
      })
    },
    translateError: (error) => connection.translateError(error),
  }
}

export function requireSqliteVersion(version: string): void {
  const parts = version.split('.').map(Number)
  const different = OLDEST_SQLITE.findIndex((part, index) => part !== parts[index])
  if (different < 0 || (parts[different] ?? 0) > (OLDEST_SQLITE[different] ?? 0)) return
  refuse(
    'unavailable',
    `SQLite ${OLDEST_SQLITE.join('.')} or newer is needed; this Node brings ${version}`,
    'use a newer Node',
  )
}
