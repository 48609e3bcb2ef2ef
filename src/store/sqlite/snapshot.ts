// A snapshot of an SQLite store, read from a private copy of its file. A read transaction for the whole backup would prevent
// checkpoints meanwhile. So the file is first copied without a lock, then compared with the copy in a short read transaction,
// and changed parts are copied again. That takes as long as reading the file from memory.
//
// Only for a process that has not opened the store otherwise: closing a file drops all locks of the process on it.
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
import { readPragma, SQLITE_SUFFIXES } from '../sqlite-codes.ts'
import { openSqliteConnection } from './connection.ts'
import { translateSqliteError } from './errors.ts'
import { requireStore } from './store-file.ts'

const CHUNK_BYTES = 4 * 1024 * 1024
const WAL_HEADER_BYTES = 32
const BUSY_MS = 15_000
const BATCH_ROWS = 500
/** An older copy was left by a killed process. */
const STALE_MS = 3_600_000

export async function openSqliteSnapshot(path: string, nowMs: number): Promise<StoreSnapshot> {
  if (!existsSync(path)) refuse('not_found', `there is no store at ${path}`)
  requireStore(path)
  const copy = `${path}.backup-${randomBytes(8).toString('hex')}`
  try {
    await removeStaleCopies(path, nowMs)
    await copyFile(path, copy, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    updateCopy(path, copy)
    return createSnapshot(path, openCopy(path, copy))
  } catch (error) {
    if (errnoCode(error)?.startsWith('E') && errnoCode(error) !== 'ERR_SQLITE_ERROR') refuseDisk(error, 'copy', path)
    throw translateSqliteError(path, error)
  } finally {
    // The copy stays open without a name, so it is gone when the process ends.
    for (const suffix of SQLITE_SUFFIXES) rmSync(copy + suffix, { force: true })
  }
}

async function removeStaleCopies(path: string, nowMs: number): Promise<void> {
  const directory = dirname(path)
  const isCopy = (name: string): boolean =>
    name.startsWith(`${basename(path)}.backup-`) && /\.backup-[0-9a-f]{16}(-\w+)?$/.test(name)
  for (const name of (await readdir(directory)).filter(isCopy)) {
    const stats = await stat(join(directory, name)).catch(() => undefined)
    if (stats && nowMs - stats.mtimeMs > STALE_MS) await rm(join(directory, name), { force: true })
  }
}

/** Makes the copy equal to the current state of the store. */
function updateCopy(path: string, copy: string): void {
  // Opened before the connection and closed after it, because closing a file drops the locks.
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
 * During a read transaction, checkpoints write only pages that are also in the log, and the log is only appended to. The
 * exception is a log that was fully checkpointed before: it may be restarted, which changes its header. Then the file does
 * not change, the log contains only later commits, and the file alone is the snapshot.
 */
function copyUnderSnapshot(path: string, copy: string, files: { source: number; target: number }): void {
  const header = readLogHeader(path)
  copyChanges(files.source, files.target)
  if (!header) return
  copyLog(`${path}-wal`, `${copy}-wal`)
  if (!readLogHeader(path)?.equals(header)) rmSync(`${copy}-wal`, { force: true })
}

function copyChanges(source: number, target: number): void {
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
    copyChanges(source, target)
  } finally {
    closeSync(source)
    closeSync(target)
  }
}

/** The header contains salts that change with each restart of the log. Undefined if there is no log or it is empty. */
function readLogHeader(path: string): Buffer | undefined {
  if (!existsSync(`${path}-wal`)) return undefined
  const file = openSync(`${path}-wal`, 'r')
  try {
    const header = Buffer.alloc(WAL_HEADER_BYTES)
    return readSync(file, header, 0, WAL_HEADER_BYTES, 0) === WAL_HEADER_BYTES ? header : undefined
  } finally {
    closeSync(file)
  }
}

/** Opens the copy and checkpoints its log. */
function openCopy(path: string, copy: string): DatabaseSync {
  const db = new DatabaseSync(copy)
  try {
    for (const pragma of ['wal_checkpoint(truncate)', 'journal_mode = delete', 'query_only = on'])
      readPragma(db, pragma)
    const verdict = readPragma(db, 'quick_check(1)')
    if (verdict !== 'ok')
      refuse('unavailable', `the store at ${path} is damaged: ${String(verdict)}`, 'restore it from an older backup')
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

function createSnapshot(path: string, db: DatabaseSync): StoreSnapshot {
  const all = (sql: string): Record<string, unknown>[] => db.prepare(sql).all()
  const sequences = hasSequenceTable(all) ? all('select name, seq from sqlite_sequence') : []
  const steps = all('select name, step from migrations order by name, step')
  return {
    engine: 'sqlite',
    tables: readSqliteTables(all),
    steps: steps.map(({ name, step }): AppliedStep => [String(name), Number(step)]),
    counters: Object.fromEntries(sequences.map(({ name, seq }) => [String(name), Number(seq)])),
    rows: (table) => readRows(path, db, table),
    [Symbol.asyncDispose]: async () => db.close(),
  }
}

async function* readRows(
  path: string,
  db: DatabaseSync,
  { name, columns }: TableShape,
): AsyncGenerator<readonly BackupRow[]> {
  const statement = db.prepare(`select ${columns.join(', ')} from ${name}`)
  const isBoolean = statement.columns().map(({ type }) => type?.toLowerCase() === 'boolean')
  statement.setReturnArrays(true)
  let batch: BackupRow[] = []
  try {
    for (const values of statement.iterate()) {
      // setReturnArrays makes rows arrays, which the types do not declare.
      const row = values as unknown as Value[]
      batch.push(row.map((value, at) => (isBoolean[at] && value !== null ? value === 1 : value)))
      if (batch.length < BATCH_ROWS) continue
      yield batch
      batch = []
    }
  } catch (error) {
    throw translateSqliteError(path, error)
  }
  if (batch.length > 0) yield batch
}

/** SQLite creates `sqlite_sequence` with the first auto-increment table. */
export function hasSequenceTable(all: (sql: string) => readonly unknown[]): boolean {
  return all(`select name from sqlite_schema where name = 'sqlite_sequence'`).length > 0
}

/** Lists the tables in the order of their creation. */
export function readSqliteTables(all: (sql: string) => readonly Record<string, unknown>[]): TableShape[] {
  return all(`select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by rowid`).map(
    ({ name }) => ({
      name: String(name),
      columns: all(`select name from pragma_table_info('${String(name)}') order by cid`).map((row) => String(row.name)),
    }),
  )
}
