// A SQLite store at one moment, read from a private copy of its file. A reader of the store itself would hold its snapshot for
// as long as the backup takes, and the write-ahead log could not be shortened meanwhile. So the file is copied first, without
// any lock, and compared with its copy under a snapshot: what changed meanwhile is copied again. That takes the time of reading
// the file from memory.
//
// Only for a process that has the store open nowhere else: closing a file gives up all locks that a process has on it.
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { copyFile, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errnoCode, refuseDisk } from '../../lib/files/atomic-file.ts'
import { refuse } from '../../lib/refusal.ts'
import type { AppliedStep, BackupRow, StoreSnapshot, TableShape } from '../backup-rows.ts'
import type { Value } from '../engine.ts'
import { openSqliteConnection } from './connection.ts'
import { translateSqliteError } from './errors.ts'
import { requireStore } from './store-file.ts'

const CHUNK_BYTES = 4 * 1024 * 1024
const WAL_HEAD_BYTES = 32
const BUSY_MS = 15_000
const ROWS = 500
/** A copy that has not been written to for so long was left by a process that was killed. */
const STALE_MS = 3_600_000

export async function openSqliteSnapshot(path: string, nowMs: number): Promise<StoreSnapshot> {
  if (!existsSync(path)) refuse('not_found', `there is no store at ${path}`)
  requireStore(path)
  const copy = `${path}.backup-${randomBytes(8).toString('hex')}`
  try {
    await removeStale(path, nowMs)
    await copyFile(path, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    settle(path, copy)
    return new SqliteSnapshot(path, opened(path, copy))
  } catch (error) {
    if (errnoCode(error)?.startsWith('E') && errnoCode(error) !== 'ERR_SQLITE_ERROR') refuseDisk(error, 'copy', path)
    throw translateSqliteError(path, error)
  } finally {
    // An open file needs no name, and one without a name is gone when the process is.
    for (const end of ['', '-wal', '-shm', '-journal']) rmSync(copy + end, { force: true })
  }
}

async function removeStale(path: string, nowMs: number): Promise<void> {
  const folder = dirname(path)
  const isCopy = (name: string): boolean =>
    name.startsWith(`${basename(path)}.backup-`) && /\.backup-[0-9a-f]{16}(-\w+)?$/.test(name)
  for (const name of (await readdir(folder)).filter(isCopy)) {
    const stats = await stat(join(folder, name)).catch(() => undefined)
    if (stats && nowMs - stats.mtimeMs > STALE_MS) await rm(join(folder, name), { force: true })
  }
}

/** Makes the copy equal to the store as it is at this moment. */
function settle(path: string, copy: string): void {
  // Opened before the connection and closed after it, because of the locks.
  const [source, target] = [openSync(path, 'r'), openSync(copy, 'r+')]
  try {
    const connection = openSqliteConnection(path, BUSY_MS)
    try {
      connection.makeReadOnly()
      connection.exec('begin')
      connection.query('select count(*) from sqlite_schema', [])
      copyUnderSnapshot(path, copy, { source, target })
      connection.exec('commit')
    } finally {
      connection.close()
    }
  } finally {
    closeSync(source)
    closeSync(target)
  }
}

/**
 * While a snapshot is held, no page of the file changes but to a state that stands in the log, and the log is only appended to.
 * The exception is a log of which everything was in the file before the snapshot began: it may be begun anew, which changes its
 * head. Then no page of the file changes at all, and the log belongs to later commits: the file alone is the store.
 */
function copyUnderSnapshot(path: string, copy: string, files: { source: number; target: number }): void {
  const head = logHead(path)
  copyDifference(files.source, files.target)
  if (!head) return
  copyLog(`${path}-wal`, `${copy}-wal`)
  if (!logHead(path)?.equals(head)) rmSync(`${copy}-wal`, { force: true })
}

function copyDifference(source: number, target: number): void {
  const { size } = fstatSync(source)
  const [now, before] = [Buffer.alloc(CHUNK_BYTES), Buffer.alloc(CHUNK_BYTES)]
  for (let at = 0; at < size; at += CHUNK_BYTES) {
    const wanted = Math.min(CHUNK_BYTES, size - at)
    const [length, known] = [readSync(source, now, 0, wanted, at), readSync(target, before, 0, wanted, at)]
    if (length !== known || now.compare(before, 0, known, 0, length) !== 0) writeSync(target, now, 0, length, at)
  }
  ftruncateSync(target, size)
}

function copyLog(path: string, copy: string): void {
  const [source, target] = [openSync(path, 'r'), openSync(copy, 'wx+', 0o600)]
  try {
    copyDifference(source, target)
  } finally {
    closeSync(source)
    closeSync(target)
  }
}

/** Its salts are new each time the log is begun anew. Undefined where there is no log, or an empty one. */
function logHead(path: string): Buffer | undefined {
  if (!existsSync(`${path}-wal`)) return undefined
  const file = openSync(`${path}-wal`, 'r')
  try {
    const head = Buffer.alloc(WAL_HEAD_BYTES)
    return readSync(file, head, 0, WAL_HEAD_BYTES, 0) === WAL_HEAD_BYTES ? head : undefined
  } finally {
    closeSync(file)
  }
}

/** With all of its log in the file. */
function opened(path: string, copy: string): DatabaseSync {
  const db = new DatabaseSync(copy)
  try {
    for (const pragma of ['wal_checkpoint(truncate)', 'journal_mode = delete', 'query_only = on'])
      db.prepare(`pragma ${pragma}`).get()
    const verdict = Object.values(db.prepare('pragma quick_check(1)').get() ?? {})[0]
    if (verdict !== 'ok')
      refuse('unavailable', `the store at ${path} is damaged: ${String(verdict)}`, 'restore it from an older backup')
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

class SqliteSnapshot implements StoreSnapshot {
  readonly engine = 'sqlite'
  readonly tables: readonly TableShape[]
  readonly steps: readonly AppliedStep[]
  readonly counters: Readonly<Record<string, number>>
  readonly #path: string
  readonly #db: DatabaseSync

  constructor(path: string, db: DatabaseSync) {
    this.#path = path
    this.#db = db
    this.tables = readSqliteTables((sql) => db.prepare(sql).all())
    this.steps = db
      .prepare('select name, step from migrations order by name, step')
      .all()
      .map(({ name, step }) => [String(name), Number(step)])
    this.counters = hasSequenceTable((sql) => db.prepare(sql).all())
      ? Object.fromEntries(
          db
            .prepare('select name, seq from sqlite_sequence')
            .all()
            .map(({ name, seq }) => [String(name), Number(seq)]),
        )
      : {}
  }

  async *rows({ name, columns }: TableShape): AsyncGenerator<readonly BackupRow[]> {
    const statement = this.#db.prepare(`select ${columns.join(', ')} from ${name}`)
    const isBoolean = statement.columns().map(({ type }) => type?.toLowerCase() === 'boolean')
    statement.setReturnArrays(true)
    let batch: BackupRow[] = []
    try {
      for (const values of statement.iterate()) {
        // Told to, node:sqlite gives a row as an array, which its types do not say.
        const row = values as unknown as Value[]
        batch.push(row.map((value, at) => (isBoolean[at] && value !== null ? value === 1 : value)))
        if (batch.length < ROWS) continue
        yield batch
        batch = []
      }
    } catch (error) {
      throw translateSqliteError(this.#path, error)
    }
    if (batch.length > 0) yield batch
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#db.close()
  }
}

/** SQLite makes the table of counters with the first table that has one. */
export function hasSequenceTable(all: (sql: string) => readonly unknown[]): boolean {
  return all(`select name from sqlite_schema where name = 'sqlite_sequence'`).length > 0
}

/** The tables of a store with their columns, in the order in which they were made. */
export function readSqliteTables(all: (sql: string) => readonly Record<string, unknown>[]): TableShape[] {
  return all(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by rowid`).map(
    ({ name }) => ({
      name: String(name),
      columns: all(`select name from pragma_table_info('${String(name)}') order by cid`).map((row) => String(row.name)),
    }),
  )
}
