// SQLite in this process: one writer with group commit, a few readers.
import { existsSync } from 'node:fs'
import { setImmediate as immediate } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import type { Dialect, Engine, Tx } from '../engine.ts'
import { Attendance, type Connected, mustBeOutside, RunningTx } from '../running.ts'
import { Connection } from './connection.ts'
import { fault, isBusy } from './faults.ts'
import { copyStore, makeStore, mustBeStore } from './file.ts'
import { Writer } from './writer.ts'

const READERS = 4
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
}

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  adapt: (ddl) => ddl,
  counter: 'integer primary key autoincrement',
  hasTable: `select name from sqlite_schema where type = 'table' and name = $1`,
  freshText: 'hex(randomblob(16))',
  onWrite: (table, set) =>
    ['insert', 'update', 'delete'].map(
      (event) => `create trigger ${table}_${event}_noted after ${event} on ${table} begin ${set}; end`,
    ),
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
  readonly #waiting: PromiseWithResolvers<Connection>[] = []
  #readers = 0

  constructor(connection: Connection, options: { busyMs: number; strict: boolean }) {
    this.#path = connection.path
    this.#busyMs = options.busyMs
    this.#connection = connection
    this.#writer = new Writer(connection, options)
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
    this.#connection.close()
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

/** Stands still while another process has the file to itself, which is for moments and only while it is opened. */
function openConnection(path: string, busyMs: number): Connection {
  const connection = new Connection(path)
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
      throw fault(path, error)
    }
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
