// Translates errors of SQLite for operators.
import { dirname } from 'node:path'
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { DUPLICATE_KEY_MESSAGE, FOREIGN_KEY_MESSAGE } from '../running-transaction.ts'
import { StoreReplacedError } from './file-identity.ts'

const BUSY = 5
const LOCKED = 6
export const READ_ONLY = 8
export const CORRUPT = 11
/** Two processes created the write-ahead log at once; a retry succeeds. */
const PROTOCOL = 15
const NOT_A_DATABASE = 26
const IO_ERROR = 10
const FULL = 13
const CANNOT_OPEN = 14
const TOO_BIG = 18
const CONSTRAINT = 19

const NO_ROOM_FOR_SHARED_MEMORY = IO_ERROR | (19 << 8)
const FOREIGN_KEY = CONSTRAINT | (3 << 8)
const PRIMARY_KEY = CONSTRAINT | (6 << 8)
const UNIQUE = CONSTRAINT | (8 << 8)

export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === BUSY || code === LOCKED || code === PROTOCOL
}

/** Whether the state of the disk is unknown until the file is opened again. A full disk is not such an error. */
export function isDiskError(error: unknown): boolean {
  if (error instanceof StoreReplacedError) return true
  return primaryCode(error) === IO_ERROR && extendedCode(error) !== NO_ROOM_FOR_SHARED_MEMORY
}

export function withSqliteErrors<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw translateSqliteError(path, error)
  }
}

export function translateSqliteError(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  const unavailable = (message: string, hint?: string): Refusal => new Refusal('unavailable', message, hint)
  const full = extendedCode(error)
  switch (primaryCode(error)) {
    case BUSY:
    case LOCKED:
    case PROTOCOL:
      return new TransientRefusal('the store is busy: another process is writing to it', 'try again in a moment')
    case READ_ONLY:
      return unavailable(`the store at ${path} is read-only`, `check the permissions of ${dirname(path)}`)
    case IO_ERROR:
      if (full === NO_ROOM_FOR_SHARED_MEMORY) return createDiskFullError(path)
      return unavailable(`the disk under ${path} reported an error; nothing was changed`)
    case CORRUPT:
      return unavailable(`the store at ${path} is damaged`, 'restore it from a backup')
    case FULL:
      return createDiskFullError(path)
    case CANNOT_OPEN:
      return unavailable(`the store at ${path} cannot be opened`, `check the permissions of ${dirname(path)}`)
    case TOO_BIG:
      return new Refusal('too_large', 'a value is too large for the store')
    case CONSTRAINT:
      return translateConstraint(full, error)
    case NOT_A_DATABASE:
      return createNotAStoreError(path)
    default:
      return error
  }
}

/** The log could not be synced. It is unknown which commits since the last sync are on disk. */
export function createSyncError(path: string, cause: unknown): Refusal {
  const refusal = new Refusal('unavailable', `the disk under ${path} reported an error; the last changes may be lost`)
  refusal.cause = cause
  return refusal
}

export function createNotAStoreError(path: string): Refusal {
  return new Refusal('unavailable', `${path} is not a store of svc, or it is damaged`)
}

export function createDiskFullError(path: string): Refusal {
  return new TransientRefusal(`the disk under ${path} is full; nothing was changed`, 'free some space')
}

function translateConstraint(full: number | undefined, error: unknown): unknown {
  if (full === FOREIGN_KEY) return new Refusal('conflict', FOREIGN_KEY_MESSAGE)
  if (full === PRIMARY_KEY || full === UNIQUE) return new Refusal('conflict', DUPLICATE_KEY_MESSAGE)
  return error
}

function extendedCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined
  return error.errcode
}

export function primaryCode(error: unknown): number | undefined {
  const code = extendedCode(error)
  return code === undefined ? undefined : code & 0xff
}
