// SQLite in this process: one writer with group commit, a few readers.
import { existsSync } from 'node:fs'
import { setImmediate as immediate } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../engine.ts'
import { type Lane, type LaneOptions, QueuedLane, type Work } from '../lane.ts'
import { Attendance, type Connected, mustBeOutside, RunningTx } from '../running.ts'
import { type Connection, openConnection } from './connection.ts'
import { sqliteDialect } from './dialect.ts'
import { fault } from './faults.ts'
import { copyStore, makeStore, mustBeStore } from './file.ts'
import { Thread } from './thread.ts'
import { Writer } from './writer.ts'

const READERS = 4
const TURN_MS = 10
const LOOK_MS = 100
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
}

export function openSqlite({ path, create = false, busyMs = 15_000, strict = false }: SqliteOptions): Engine {
  mustBeRecent(process.versions.sqlite ?? '')
  if (!existsSync(path)) {
    if (!create) refuse('not_found', `there is no store at ${path}`)
    makeStore(path)
  }
  mustBeStore(path)
  return new SqliteEngine(openConnection(path, busyMs), { busyMs, strict })
}

class SqliteEngine implements Engine {
  readonly dialect = sqliteDialect
  readonly #path: string
  readonly #busyMs: number
  readonly #connection: Connection
  readonly #writer: Writer
  readonly #attendance = new Attendance()
  readonly #idle: Connection[] = []
  readonly #listening = new Set<() => void>()
  readonly #waiting: PromiseWithResolvers<Connection>[] = []
  readonly #failure = Promise.withResolvers<unknown>()
  #readers = 0
  #hasFailed = false
  #lanes = 0

  constructor(connection: Connection, options: { busyMs: number; strict: boolean }) {
    this.#path = connection.path
    this.#busyMs = options.busyMs
    this.#connection = connection
    this.#writer = new Writer(connection, {
      ...options,
      onDiskError: (error) => this.#fail(error),
      // Where a lane writes, its thread alone does it: when that fails, nobody else must go on.
      shortens: () => this.#lanes === 0,
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
    mustBeOutside()
    return this.#attendance.during(async () => {
      const reader = await this.#takeReader()
      try {
        reader.exec('begin')
        return await new RunningTx(inTurns(reader)).enclose(work)
      } catch (error) {
        throw fault(this.#path, error)
      } finally {
        if (reader.isInTransaction) reader.exec('commit')
        this.#giveReader(reader)
      }
    })
  }

  async transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    mustBeOutside()
    return this.#attendance.during(() => this.#writer.run(work))
  }

  openLane<I, O>(work: Work<I, O>, options: LaneOptions = {}): Lane<I, O> {
    this.#lanes++
    const onFatal = (error: unknown): void => {
      this.#fail(error)
      options.onFatal?.(error)
    }
    return new QueuedLane(work, new Thread(this.#path, work, { ...options, onFatal }), options.limits)
  }

  /** Any other connection's commit changes the number, also of one in another process; asking is next to nothing. */
  listen(listener: (about: string) => void): () => void {
    const connection = openConnection(this.#path, this.#busyMs)
    connection.makeReadOnly()
    let version = connection.pragma('data_version')
    const timer = setInterval(() => {
      const now = versionOf(connection)
      if (now === version) return
      version = now
      listener('')
    }, LOOK_MS).unref()
    const stop = (): void => {
      clearInterval(timer)
      if (this.#listening.delete(stop)) connection.close()
    }
    this.#listening.add(stop)
    return stop
  }

  async copy(label: string): Promise<string> {
    return this.#attendance.during(async () => {
      // Not on a reader, which may not write, nor on the writer, which may be in a transaction.
      const connection = openConnection(this.#path, this.#busyMs)
      try {
        return copyStore(connection, `${this.#path}.${label}`)
      } finally {
        connection.close()
      }
    })
  }

  async close(): Promise<void> {
    await this.#attendance.end()
    for (const reader of this.#idle.splice(0)) reader.close()
    for (const stop of this.#listening) stop()
    // Whoever closes last brings the log into the file: after a failure that is for whoever opens the store next.
    if (!this.#hasFailed) this.#connection.close()
  }

  async #takeReader(): Promise<Connection> {
    const idle = this.#idle.pop()
    if (idle) return idle
    if (this.#readers < READERS) {
      const reader = openConnection(this.#path, this.#busyMs)
      reader.makeReadOnly()
      this.#readers++
      return reader
    }
    const turn = Promise.withResolvers<Connection>()
    this.#waiting.push(turn)
    return turn.promise
  }

  #giveReader(reader: Connection): void {
    const next = this.#waiting.shift()
    if (next) next.resolve(reader)
    else this.#idle.push(reader)
  }
}

/** A hint is no place to fail: whoever reads or writes is told what is wrong with the store. */
function versionOf(connection: Connection): unknown {
  try {
    return connection.pragma('data_version')
  } catch {
    return undefined
  }
}

/** A read that takes long lets the event loop turn between two of its statements. */
function inTurns(connection: Connection): Connected {
  let since = performance.now()
  return {
    query: (sql, parameters) => {
      if (performance.now() - since < TURN_MS) return connection.query(sql, parameters)
      return immediate().then(() => {
        since = performance.now()
        return connection.query(sql, parameters)
      })
    },
    explain: (error) => connection.explain(error),
    parts: (kysely) => connection.parts(kysely),
  }
}

export function mustBeRecent(version: string): void {
  const parts = version.split('.').map(Number)
  const different = OLDEST_SQLITE.findIndex((part, index) => part !== parts[index])
  if (different < 0 || (parts[different] ?? 0) > (OLDEST_SQLITE[different] ?? 0)) return
  refuse(
    'unavailable',
    `SQLite ${OLDEST_SQLITE.join('.')} or newer is needed; this Node brings ${version}`,
    'use a newer Node',
  )
}
