// The SQLite engine: one writer with group commit, and a few readers.
import { existsSync } from 'node:fs'
import { setImmediate as immediate } from 'node:timers/promises'
import { type FaultHandler, guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Engine, Tx, WriteLock } from '../engine.ts'
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
import { SqliteLossWatch } from './loss-watch.ts'
import { copyStore, createStore, requireStore } from './store-file.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'
import { WalSync } from './wal-sync.ts'
import { Writer } from './writer.ts'

const READERS = 4
const CACHE_KIB = 32_768
/** A read blocks the event loop at most for about this long. */
const READ_SLICE_MS = 10
/** Older versions can corrupt a file that two processes write, by a race in the restart of the write-ahead log. */
const OLDEST_SQLITE = [3, 51, 3]

export interface SqliteOptions {
  path: string
  /** Create the file if it does not exist. */
  create?: boolean
  /** How long a write waits for the writes of other processes. */
  busyMs?: number
  /** For tests: a transaction that awaits anything but the store fails. */
  strict?: boolean
  /** For tests: replaces the sync of the write-ahead log. */
  sync?: ((file: number) => Promise<void>) | undefined
}

export function openSqlite(
  { path, create = false, busyMs = 15_000, strict = false, sync }: SqliteOptions,
  onFault: FaultHandler = throwUncaught,
): Engine {
  requireSqliteVersion(process.versions.sqlite ?? '')
  if (!existsSync(path)) {
    if (!create) refuse('not_found', `there is no store at ${path}`)
    createStore(path)
  }
  requireStore(path)
  return new SqliteEngine(openSqliteConnection(path, busyMs), { busyMs, strict, sync, onFault })
}

class SqliteEngine implements Engine {
  readonly dialect = sqliteDialect
  readonly writeLock: WriteLock = {
    onBusy: (listener) => void this.#busyListeners.push(guard(this.#onFault, listener)),
    onWait: (listener) => void this.#waitListeners.push(guard(this.#onFault, listener)),
    giveWay: () => this.#writer.giveWay(),
  }
  readonly lossWatch: SqliteLossWatch
  readonly #busyListeners: (() => void)[] = []
  readonly #waitListeners: ((seconds: number) => void)[] = []
  readonly #path: string
  readonly #busyMs: number
  readonly #connection: SqliteConnection
  readonly #onFault: FaultHandler
  readonly #writer: Writer
  readonly #checkpointer: WalCheckpointer
  readonly #sync: WalSync
  /** Never in a transaction, so that its data version is always the current one. */
  readonly #probe: SqliteConnection
  readonly #operations = new InFlightOperations()
  readonly #idleReaders: SqliteConnection[] = []
  readonly #readerWaiters: PromiseWithResolvers<SqliteConnection>[] = []
  readonly #failure = Promise.withResolvers<unknown>()
  #watcher: DataVersionWatcher | undefined
  #readerCount = 0
  #hasFailed = false

  constructor(
    connection: SqliteConnection,
    options: Required<Pick<SqliteOptions, 'busyMs' | 'strict'>> &
      Pick<SqliteOptions, 'sync'> & { readonly onFault: FaultHandler },
  ) {
    this.#path = connection.path
    this.#busyMs = options.busyMs
    this.#connection = connection
    this.#onFault = options.onFault
    this.#probe = openSqliteConnection(connection.path, options.busyMs)
    this.#probe.makeReadOnly()
    this.#sync = new WalSync(connection.path, { position: () => this.#dataVersion(), sync: options.sync })
    this.#checkpointer = new WalCheckpointer(connection, (error) => this.#fail(error))
    this.lossWatch = new SqliteLossWatch({ path: connection.path, engine: this, onFault: options.onFault })
    connection.disableCommitSync()
    connection.setCacheSize(CACHE_KIB)
    this.#writer = new Writer(connection, {
      ...options,
      afterCommit: () => this.#sync.afterCommit(),
      onDiskError: (error) => this.#fail(error),
      checkpoint: () => this.#checkpointer.afterCommit(),
      onBusy: () => {
        for (const listener of this.#busyListeners) listener()
      },
      onWait: (seconds) => {
        for (const listener of this.#waitListeners) listener(seconds)
      },
    })
  }

  get failed(): Promise<unknown> {
    return this.#failure.promise
  }

  /** Changes with each commit; undefined if it cannot be read, which reads and writes report. */
  #dataVersion(): unknown {
    try {
      return this.#probe.pragma('data_version')
    } catch {
      return undefined
    }
  }

  #fail(error: unknown): void {
    this.#hasFailed = true
    this.#failure.resolve(error)
  }

  async read<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    refuseNestedTransaction()
    return this.#operations.track(async () => {
      const value = await this.#readOnce(work)
      // The read may have seen a commit that is not on disk yet. A row that the caller sees must survive a power cut.
      await this.#sync.beforeResult()
      return value
    })
  }

  async #readOnce<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    const reader = await this.#takeReader()
    try {
      reader.exec('begin')
      return await new RunningTx(createYieldingConnection(reader)).runWork(work)
    } catch (error) {
      throw translateSqliteError(this.#path, error)
    } finally {
      if (reader.isInTransaction) reader.exec('commit')
      this.#releaseReader(reader)
    }
  }

  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    refuseNestedTransaction()
    return this.#operations.track(() => this.#writer.run(work))
  }

  listen(listener: (payload: string) => void): () => void {
    this.#watcher ??= new DataVersionWatcher(() => this.#dataVersion(), this.#onFault)
    return this.#watcher.listen(listener)
  }

  async copy(label: string): Promise<string> {
    return this.#operations.track(async () => {
      // Readers cannot write, and the writer may be in a transaction.
      const connection = openSqliteConnection(this.#path, this.#busyMs)
      try {
        return copyStore(connection, `${this.#path}.${label}`)
      } finally {
        connection.close()
      }
    })
  }

  async close(): Promise<void> {
    await this.#operations.drain()
    for (const reader of this.#idleReaders.splice(0)) reader.close()
    this.#watcher?.close()
    await Promise.all([this.#sync.close(), this.#checkpointer.close()])
    this.#probe.close()
    // Closing the last connection checkpoints the log. After a disk failure that must be left to the next process.
    if (!this.#hasFailed) this.#connection.close()
  }

  async #takeReader(): Promise<SqliteConnection> {
    const idle = this.#idleReaders.pop()
    if (idle) return idle
    if (this.#readerCount < READERS) {
      const reader = openSqliteConnection(this.#path, this.#busyMs)
      reader.makeReadOnly()
      this.#readerCount++
      return reader
    }
    const waiter = Promise.withResolvers<SqliteConnection>()
    this.#readerWaiters.push(waiter)
    return waiter.promise
  }

  #releaseReader(reader: SqliteConnection): void {
    const next = this.#readerWaiters.shift()
    if (next) next.resolve(reader)
    else this.#idleReaders.push(reader)
  }
}

/** Lets the event loop run between the statements of a long read. */
function createYieldingConnection(connection: SqliteConnection): TransactionConnection {
  let since = performance.now()
  return {
    query: (sql, parameters) => {
      if (performance.now() - since < READ_SLICE_MS) return connection.query(sql, parameters)
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
    `SQLite ${OLDEST_SQLITE.join('.')} or newer is needed; this version of Node has ${version}`,
    'use a newer Node',
  )
}
