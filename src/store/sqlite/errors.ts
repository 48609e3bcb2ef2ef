// Translates errors of SQLite for operators.
import { dirname } from 'node:path'
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { DUPLICATE_KEY_MESSAGE, FOREIGN_KEY_MESSAGE } from '../running-transaction.ts'
import { extendedSqliteCode, primarySqliteCode, SQLITE } from '../sqlite-codes.ts'
import { StoreReplacedError } from './file-identity.ts'

/** PROTOCOL: two processes created the write-ahead log at once; a retry succeeds. */
const BUSY_CODES: readonly (number | undefined)[] = [SQLITE.BUSY, SQLITE.LOCKED, SQLITE.PROTOCOL]

export function isBusy(error: unknown): boolean {
  return BUSY_CODES.includes(primarySqliteCode(error))
}

/** Whether the state of the disk is unknown until the file is opened again. A full disk is not such an error. */
export function isDiskError(error: unknown): boolean {
  if (error instanceof StoreReplacedError) return true
  const extended = extendedSqliteCode(error)
  return primarySqliteCode(error) === SQLITE.IO_ERROR && extended !== SQLITE.IO_ERROR_SHARED_MEMORY
}

export function translateSqliteError(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  const unavailable = (message: string, hint?: string): Refusal => new Refusal('unavailable', message, hint)
  switch (primarySqliteCode(error)) {
    case SQLITE.BUSY:
    case SQLITE.LOCKED:
    case SQLITE.PROTOCOL:
      return new TransientRefusal('the store is busy: another process is writing to it', 'try again in a moment')
    case SQLITE.READ_ONLY:
      return unavailable(`the store at ${path} is read-only`, `check the permissions of ${dirname(path)}`)
    case SQLITE.IO_ERROR:
      if (!isDiskError(error)) return createDiskFullError(path)
      return unavailable(`the disk under ${path} reported an error; nothing was changed`)
    case SQLITE.CORRUPT:
      return unavailable(`the store at ${path} is damaged`, 'restore it from a backup')
    case SQLITE.FULL:
      return createDiskFullError(path)
    case SQLITE.CANNOT_OPEN:
      return unavailable(`the store at ${path} cannot be opened`, `check the permissions of ${dirname(path)}`)
    case SQLITE.TOO_BIG:
      return new Refusal('too_large', 'a value is too large for the store')
    case SQLITE.CONSTRAINT:
      return translateConstraintError(error)
    case SQLITE.NOT_A_DATABASE:
      return createNotAStoreError(path)
    default:
      return error
  }
}

/** The log could not be synced. It is unknown which commits since the last sync are on disk. */
export function createSyncError(path: string, cause: unknown): Refusal {
  const message = `the disk under ${path} reported an error; the last changes may be lost`
  return Object.assign(new Refusal('unavailable', message), { cause })
}

export function createNotAStoreError(path: string): Refusal {
  return new Refusal('unavailable', `${path} is not a store of svc, or it is damaged`)
}

export function createDiskFullError(path: string): Refusal {
  return new TransientRefusal(`the disk under ${path} is full; nothing was changed`, 'free some space')
}

function translateConstraintError(error: unknown): unknown {
  switch (extendedSqliteCode(error)) {
    case SQLITE.CONSTRAINT_FOREIGN_KEY:
      return new Refusal('conflict', FOREIGN_KEY_MESSAGE)
    case SQLITE.CONSTRAINT_PRIMARY_KEY:
    case SQLITE.CONSTRAINT_UNIQUE:
      return new Refusal('conflict', DUPLICATE_KEY_MESSAGE)
    default:
      return error
  }
}
