// The file itself: made whole or not at all, known as ours before anything is written to it, copied.
import { randomUUID } from 'node:crypto'
import { accessSync, closeSync, constants, existsSync, fsyncSync, linkSync, openSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { SqliteConnection } from './connection.ts'
import { CORRUPT, createDiskFullError, createNotAStoreError, primaryCode, translateSqliteError } from './errors.ts'

/** "svc" and a format number, in the file's header: tells our store from another program's. */
export const APPLICATION_ID = 0x73766301
const CHECK_MS = 5000
/** A commit writes whole pages, of which a message touches many with little on each: small ones write a third of the bytes. */
const PAGE_BYTES = 1024

/** Makes the store, unless another process is quicker. */
export function createStore(path: string): void {
  madeAside(path, (newborn) => {
    const connection = new SqliteConnection(newborn, path)
    try {
      connection.exec(`pragma page_size = ${PAGE_BYTES}`)
      connection.exec(`pragma application_id = ${APPLICATION_ID}`)
      connection.configure()
    } finally {
      connection.close()
    }
    if (!linked(newborn, path) && !existsSync(path)) refuse('unavailable', `the store at ${path} cannot be made`)
  })
}

/** Copies what `source` holds to the first free name of `<path>`, `<path>-2` …, and answers it. */
export function copyStore(source: SqliteConnection, path: string): string {
  return madeAside(path, (newborn) => {
    source.query('vacuum into $1', [newborn])
    for (let count = 1; ; count++) {
      const target = count === 1 ? path : `${path}-${count}`
      if (linked(newborn, target)) return target
    }
  })
}

/**
 * `make` gets an empty file that only we can read, and links it into place when it is whole, so that nobody ever meets
 * a half-made one.
 */
function madeAside<T>(path: string, make: (newborn: string) => T): T {
  const newborn = `${path}.new-${randomUUID()}`
  try {
    closeSync(openSync(newborn, 'wx', 0o600))
    try {
      return make(newborn)
    } finally {
      for (const end of ['', '-wal', '-shm', '-journal']) rmSync(newborn + end, { force: true })
      syncFolder(path)
    }
  } catch (error) {
    throw diskFault(path, translateSqliteError(path, error))
  }
}

/** Whether it took the name; false when the name is taken. */
function linked(newborn: string, path: string): boolean {
  try {
    linkSync(newborn, path)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw error
  }
}

/** A name outlives a power cut only when its folder is on disk too. */
function syncFolder(path: string): void {
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } catch (error) {
    // Some file systems cannot sync a folder, and need not.
    if (codeOf(error) !== 'EINVAL') throw error
  } finally {
    closeSync(folder)
  }
}

/** Refuses, without touching it, what is not a store of ours that can be written. */
export function requireStore(path: string): void {
  try {
    const file = statSync(path)
    if (!file.isFile()) refuse('unavailable', `the store at ${path} is not a file`)
    if (file.size === 0) refuse('unavailable', `${path} is empty, not a store of svc`)
    for (const part of [path, dirname(path)]) accessSync(part, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw diskFault(path, error)
  }
  if (isWhole(path)) return
  // Shorter than its header says: cut off, or just being written from the log by another process, which SQLite can tell.
  // Without a log that other process has just finished, or never was.
  if (existsSync(`${path}-wal`) ? isSound(path) : isWhole(path)) return
  refuse('unavailable', `the store at ${path} is damaged: it is cut short`, 'restore it from a backup')
}

/**
 * Looks at the file as it lies there: "immutable" takes no lock and leaves nothing beside it. Not by `openSync`: closing
 * that would drop the locks of whoever else in this process has the store open.
 */
function isWhole(path: string): boolean {
  const url = pathToFileURL(path)
  url.search = '?immutable=1'
  const wanted = looked(path, url, (pragma) => {
    const pages = Number(pragma('page_count'))
    if (pages === 0) throw createNotAStoreError(path)
    mustBeOurs(path, pragma('application_id'))
    return pages * Number(pragma('page_size'))
  })
  return wanted !== undefined && statSync(path).size >= wanted
}

function isSound(path: string): boolean {
  const verdict = looked(path, path, (pragma) => {
    mustBeOurs(path, pragma('application_id'))
    return pragma('quick_check(1)')
  })
  return verdict === 'ok'
}

/** What `look` sees; nothing when the file is too short for it. */
function looked<T>(path: string, at: string | URL, look: (pragma: (name: string) => unknown) => T): T | undefined {
  let db: DatabaseSync | undefined
  try {
    const open = new DatabaseSync(at, { readOnly: true, timeout: CHECK_MS })
    db = open
    return look((name) => Object.values(open.prepare(`pragma ${name}`).get() ?? {})[0])
  } catch (error) {
    if (primaryCode(error) === CORRUPT) return undefined
    throw translateSqliteError(path, error)
  } finally {
    db?.close()
  }
}

function mustBeOurs(path: string, id: unknown): void {
  if (id !== APPLICATION_ID) refuse('unavailable', `${path} is another program's database`)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** An error of the file system as a sentence. */
function diskFault(path: string, error: unknown): unknown {
  const code = codeOf(error)
  if (error instanceof Refusal || code === undefined || !/^E[A-Z]+$/.test(code)) return error
  if (code === 'ENOSPC' || code === 'EDQUOT') return createDiskFullError(path)
  return new Refusal(
    'unavailable',
    `the store at ${path} cannot be opened (${code})`,
    `check the rights of ${dirname(path)}`,
  )
}
