// Creates, checks and copies the file of a store.
import { randomUUID } from 'node:crypto'
import { accessSync, closeSync, constants, existsSync, fsyncSync, linkSync, openSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { makeFileSync } from '../../lib/files/owner.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { primarySqliteCode, readPragma, SQLITE, SQLITE_SUFFIXES } from '../sqlite-codes.ts'
import { SqliteConnection } from './connection.ts'
import { createDiskFullError, createNotAStoreError, translateSqliteError } from './errors.ts'

/** "svc" and a format number, in the header of the file. */
const APPLICATION_ID = 0x73766301
const CHECK_MS = 5000
/** Suffixes of the files of loss-watch.ts. */
export const MARK_SUFFIXES = ['-mark', '-losses'] as const
/** A message changes little on many pages, and commits write whole pages: small ones write a third of the bytes. */
const PAGE_BYTES = 1024

/** Creates the store, unless another process is faster. */
export function createStore(path: string): void {
  createAside(path, (temporary) => {
    const connection = new SqliteConnection(temporary, path)
    try {
      connection.exec(`pragma page_size = ${PAGE_BYTES}`)
      connection.exec(`pragma application_id = ${APPLICATION_ID}`)
      connection.configure()
    } finally {
      connection.close()
    }
    // They belong to a store that had this path before.
    if (!existsSync(path)) for (const suffix of MARK_SUFFIXES) rmSync(path + suffix, { force: true })
    if (!tryLink(temporary, path) && !existsSync(path)) refuse('unavailable', `the store at ${path} cannot be created`)
  })
}

/** Copies the store to the first free name of `<path>`, `<path>-2` …, and returns it. */
export function copyStore(source: SqliteConnection, path: string): string {
  return createAside(path, (temporary) => {
    source.query('vacuum into $1', [temporary])
    for (let count = 1; ; count++) {
      const target = count === 1 ? path : `${path}-${count}`
      if (tryLink(temporary, target)) return target
    }
  })
}

/** `create` gets an empty private file and links it into place when it is complete, so that no process sees a partial one. */
function createAside<T>(path: string, create: (temporary: string) => T): T {
  const temporary = `${path}.new-${randomUUID()}`
  try {
    makeFileSync(temporary)
    try {
      return create(temporary)
    } finally {
      for (const suffix of SQLITE_SUFFIXES) rmSync(temporary + suffix, { force: true })
      syncDirectory(path)
    }
  } catch (error) {
    throw translateFileError(path, translateSqliteError(path, error))
  }
}

/** Returns false if the name is taken. */
function tryLink(temporary: string, path: string): boolean {
  try {
    linkSync(temporary, path)
    return true
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false
    throw error
  }
}

/** A file name survives a power cut only after its directory is synced. */
function syncDirectory(path: string): void {
  const directory = openSync(dirname(path), 'r')
  try {
    fsyncSync(directory)
  } catch (error) {
    // Some file systems neither support nor need it.
    if (errnoCode(error) !== 'EINVAL') throw error
  } finally {
    closeSync(directory)
  }
}

/** Refuses a file that is not a writable store, without changing it. */
export function requireStore(path: string): void {
  try {
    const file = statSync(path)
    if (!file.isFile()) refuse('unavailable', `the store at ${path} is not a file`)
    if (file.size === 0) refuse('unavailable', `${path} is empty, not a store of svc`)
    for (const part of [path, dirname(path)]) accessSync(part, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw translateFileError(path, error)
  }
  if (findDamage(path) === undefined) return
  // The file is shorter than in its header: truncated, or another process is checkpointing the log, which SQLite can tell.
  // Without a log, that process has just finished or there is none.
  const hasLog = existsSync(`${path}-wal`)
  if (hasLog && isSound(path)) return
  const damage = findDamage(path) ?? (hasLog ? 'its content is not valid' : undefined)
  if (damage !== undefined)
    refuse('unavailable', `the store at ${path} is damaged: ${damage}`, 'restore it from a backup')
}

/**
 * What is wrong with the file, as far as its header tells; undefined if nothing is. Reads the file as it is: "immutable" takes no lock and creates no other files. `openSync` cannot be used: closing the file
 * would drop the locks of other connections in this process.
 */
function findDamage(path: string): string | undefined {
  const url = pathToFileURL(path)
  url.search = '?immutable=1'
  const expectedBytes = inspect(path, url, (pragma) => {
    const pages = Number(pragma('page_count'))
    if (pages === 0) throw createNotAStoreError(path)
    requireApplicationId(path, pragma('application_id'))
    return pages * Number(pragma('page_size'))
  })
  // SQLite reports both alike.
  if (expectedBytes === undefined) return 'it is truncated, or its first pages were overwritten'
  return statSync(path).size < expectedBytes ? 'it is truncated' : undefined
}

function isSound(path: string): boolean {
  const verdict = inspect(path, path, (pragma) => {
    requireApplicationId(path, pragma('application_id'))
    return pragma('quick_check(1)')
  })
  return verdict === 'ok'
}

/** Returns undefined if the file is corrupt, for example too short. */
function inspect<T>(
  path: string,
  location: string | URL,
  read: (pragma: (name: string) => unknown) => T,
): T | undefined {
  try {
    using db = new DatabaseSync(location, { readOnly: true, timeout: CHECK_MS })
    return read((name) => readPragma(db, name))
  } catch (error) {
    if (primarySqliteCode(error) === SQLITE.CORRUPT) return undefined
    throw translateSqliteError(path, error)
  }
}

function requireApplicationId(path: string, id: unknown): void {
  if (id !== APPLICATION_ID) refuse('unavailable', `${path} is another program's database`)
}

/** Translates an error of the file system. */
function translateFileError(path: string, error: unknown): unknown {
  const code = errnoCode(error)
  if (error instanceof Refusal || code === undefined || !/^E[A-Z]+$/.test(code)) return error
  if (code === 'ENOSPC' || code === 'EDQUOT') return createDiskFullError(path)
  return new Refusal(
    'unavailable',
    `the store at ${path} cannot be opened (${code})`,
    `check the permissions of ${dirname(path)}`,
  )
}
