// SQLite in this process: one writer with group commit, a few readers.
import { chmodSync, closeSync, existsSync, linkSync, openSync, readSync, rmSync, statSync } from 'node:fs'
import { setImmediate as immediate, setTimeout as pause } from 'node:timers/promises'
import { refuse } from '../../lib/refusal.ts'
import { type Dialect, type Engine, enter, mustBeOutside, type Tx } from '../engine.ts'
import { Connection } from './connection.ts'
import { answered, fault, isBusy, mustBeOurs } from './faults.ts'

/** "svc" and a format number, in the file's header: tells our store from another program's. */
export const APPLICATION_ID = 0x73766301
const READERS = 4
/** A batch ends here, so that other processes get their turn. */
const BATCH_JOBS = 256
const BATCH_MS = 20

export interface SqliteOptions {
  path: string
  /** Make the file when there is none. */
  create?: boolean
  /** How long a write waits for other processes' writes. */
  busyMs?: number
  /** Tests: awaiting anything but the store inside a transaction is an error. */
  strict?: boolean
}

interface Job {
  work(tx: Tx): Promise<unknown>
  resolve(value: unknown): void
  reject(error: unknown): void
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

export function openSqlite(options: SqliteOptions): Engine {
  return new SqliteEngine(options)
}

class SqliteEngine implements Engine {
  readonly dialect = sqliteDialect
  readonly #path: string
  readonly #busyMs: number
  readonly #strict: boolean
  readonly #writer: Connection
  readonly #idle: Connection[] = []
  readonly #waiting: ((connection: Connection) => void)[] = []
  readonly #queue: Job[] = []
  #readers = 0
  #pumping: Promise<void> | undefined
  #closed = false

  constructor({ path, create = false, busyMs = 15_000, strict = false }: SqliteOptions) {
    this.#path = path
    this.#busyMs = busyMs
    this.#strict = strict
    if (!existsSync(path)) {
      if (!create) refuse('not_found', `there is no store at ${path}`)
      bear(path)
    }
    inspectHead(path)
    this.#writer = new Connection(path)
    try {
      waitBlocking(path, busyMs, () => this.#writer.configure(path))
    } catch (error) {
      this.#writer.close()
      throw error
    }
  }

  async read<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    mustBeOutside()
    const reader = await this.#takeReader()
    try {
      reader.db.exec('begin')
      return await enter('read', () => work(reader.tx))
    } catch (error) {
      throw fault(this.#path, error)
    } finally {
      if (reader.db.isTransaction) reader.db.exec('commit')
      this.#giveReader(reader)
    }
  }

  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T> {
    mustBeOutside()
    if (this.#closed) return Promise.reject(new Error('the store is closed'))
    return new Promise<T>((resolve, reject) => {
      // The queue holds jobs of all types; each one's value goes back to its own promise.
      this.#queue.push({ work, resolve: resolve as (value: unknown) => void, reject })
      this.#pumping ??= this.#pump().finally(() => {
        this.#pumping = undefined
      })
    })
  }

  async copy(label: string): Promise<string> {
    const target = `${this.#path}.${label}`
    const reader = await this.#takeReader()
    try {
      answered(this.#path, () => reader.db.prepare('vacuum into ?').run(target))
      return target
    } finally {
      this.#giveReader(reader)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#pumping
    for (const reader of this.#idle) reader.close()
    this.#writer.close()
  }

  /** Calls of one turn of the event loop share one commit; each is a savepoint, so that one's failure is its own. */
  async #pump(): Promise<void> {
    await immediate()
    while (this.#queue.length > 0) {
      try {
        await this.#begin()
      } catch (error) {
        for (const job of this.#queue.splice(0)) job.reject(error)
        return
      }
      await this.#batch()
      await immediate()
    }
  }

  async #batch(): Promise<void> {
    const done: (() => void)[] = []
    const lost: ((error: unknown) => void)[] = []
    const started = performance.now()
    for (let job = this.#queue.shift(); job; job = this.#queue.shift()) {
      const { resolve, reject } = job
      try {
        const value = await this.#savepoint(job.work)
        done.push(() => resolve(value))
        lost.push(reject)
      } catch (error) {
        reject(fault(this.#path, error))
        // A full disk or a failing one ends the whole transaction, not only this savepoint.
        if (!this.#writer.db.isTransaction) return this.#lose(lost, error)
      }
      if (done.length >= BATCH_JOBS || performance.now() - started > BATCH_MS) break
    }
    try {
      this.#writer.db.exec('commit')
    } catch (error) {
      return this.#lose(lost, error)
    }
    for (const resolve of done) resolve()
  }

  #lose(lost: readonly ((error: unknown) => void)[], error: unknown): void {
    if (this.#writer.db.isTransaction) this.#writer.db.exec('rollback')
    for (const reject of lost) reject(fault(this.#path, error))
  }

  async #savepoint(work: Job['work']): Promise<unknown> {
    const { db, tx } = this.#writer
    db.exec('savepoint job')
    let strayed = false
    const stray = this.#strict ? setImmediate(() => (strayed = true)) : undefined
    try {
      const value = await enter('write', () => work(tx))
      if (strayed) throw new Error('a transaction waited for something outside the store')
      db.exec('release job')
      return value
    } catch (error) {
      if (db.isTransaction) db.exec('rollback to job; release job')
      throw error
    } finally {
      clearImmediate(stray)
    }
  }

  async #begin(): Promise<void> {
    const deadline = performance.now() + this.#busyMs
    for (;;) {
      try {
        this.#writer.db.exec('begin immediate')
        return
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw fault(this.#path, error)
        await pause(1 + Math.random() * 9)
      }
    }
  }

  #takeReader(): Promise<Connection> {
    const idle = this.#idle.pop()
    if (idle) return Promise.resolve(idle)
    if (this.#readers >= READERS) return new Promise((resolve) => this.#waiting.push(resolve))
    this.#readers++
    const reader = new Connection(this.#path)
    waitBlocking(this.#path, this.#busyMs, () => reader.configure(this.#path))
    return Promise.resolve(reader)
  }

  #giveReader(reader: Connection): void {
    const next = this.#waiting.shift()
    if (next) next(reader)
    else if (this.#closed) reader.close()
    else this.#idle.push(reader)
  }
}

/** A store is made under another name and linked into place, so that nobody ever meets a half-made one. */
function bear(path: string): void {
  const newborn = `${path}.new-${process.pid}-${Date.now()}`
  answered(path, () => {
    const connection = new Connection(newborn)
    try {
      connection.db.exec(`pragma application_id = ${APPLICATION_ID}`)
      connection.configure(newborn)
    } finally {
      connection.close()
    }
  })
  try {
    chmodSync(newborn, 0o600)
    linkSync(newborn, path)
  } catch (error) {
    if (!existsSync(path)) throw error
  } finally {
    rmSync(newborn, { force: true })
  }
}

function inspectHead(path: string): void {
  const head = new Uint8Array(100)
  let read = 0
  try {
    const file = openSync(path, 'r')
    try {
      read = readSync(file, head)
    } finally {
      closeSync(file)
    }
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    refuse('unavailable', `the store at ${path} cannot be read (${why})`)
  }
  if (read < head.length) refuse('unavailable', `the store at ${path} is damaged: it is too short`)
  mustBeOurs(path, head, APPLICATION_ID)
  const view = Buffer.from(head)
  const pageSize = view.readUInt16BE(16) === 1 ? 65_536 : view.readUInt16BE(16)
  if (statSync(path).size >= pageSize * view.readUInt32BE(28)) return
  mustBeSound(path)
}

/** A file shorter than its header says is either cut off or being checkpointed by somebody: SQLite can tell. */
function mustBeSound(path: string): void {
  const connection = new Connection(path)
  try {
    const verdict = answered(path, () => connection.pragma('quick_check(1)'))
    if (verdict !== 'ok') refuse('unavailable', `the store at ${path} is damaged`, 'restore it from a backup')
  } finally {
    connection.close()
  }
}

/** Only while opening: nothing else runs yet, so standing still is fine. */
function waitBlocking(path: string, busyMs: number, work: () => void): void {
  const deadline = performance.now() + busyMs
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (;;) {
    try {
      work()
      return
    } catch (error) {
      const busy = isBusy(error) || (error instanceof Error && /is busy/.test(error.message))
      if (!busy || performance.now() > deadline) throw fault(path, error)
      Atomics.wait(cell, 0, 0, 5)
    }
  }
}
