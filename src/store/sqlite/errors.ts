// What SQLite's own errors mean to whoever runs the program.
import { dirname } from 'node:path'
import { Refusal, TransientRefusal } from '../../lib/refusal.ts'
import { DUPLICATE_KEY_MESSAGE, FOREIGN_KEY_MESSAGE } from '../running-transaction.ts'
import { StoreReplacedError } from './file-identity.ts'

const BUSY = 5
const LOCKED = 6
export const READ_ONLY = 8
export const CORRUPT = 11
/** Two starters that meet in the first moment of a write-ahead log; it passes like a lock. */
const PROTOCOL = 15
const NOT_A_DATABASE = 26

const IO_ERROR = 10
const NO_ROOM_FOR_SHARED_MEMORY = IO_ERROR | (19 << 8)
const FOREIGN_KEY = 19 | (3 << 8)
const PRIMARY_KEY = 19 | (6 << 8)
const UNIQUE = 19 | (8 << 8)

export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === BUSY || code === LOCKED || code === PROTOCOL
}

/** After which nobody knows what is on the disk, until the file is opened anew. A full disk is not one of them. */
export function isDiskError(error: unknown): boolean {
  if (error instanceof StoreReplacedError) return true
  return primaryCode(error) === IO_ERROR && extendedCode(error) !== NO_ROOM_FOR_SHARED_MEMORY
}

/** Runs `work`; SQLite's errors come out as refusals, everything else as it is. */
export function withSqliteErrors<T>(path: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw translateSqliteError(path, error)
  }
}

export function translateSqliteError(path: string, error: unknown): unknown {
  if (error instanceof Refusal) return error
  const no = (sentence: string, hint?: string): Refusal => new Refusal('unavailable', sentence, hint)
  const full = extendedCode(error)
  switch (primaryCode(error)) {
    case BUSY:
    case LOCKED:
    case PROTOCOL:
      return new TransientRefusal('the store is busy: another process is writing to it', 'try again in a moment')
    case READ_ONLY:
      return no(`the store at ${path} is read-only`, `check the rights of ${dirname(path)}`)
    case IO_ERROR:
      if (full === NO_ROOM_FOR_SHARED_MEMORY) return createDiskFullError(path)
      return no(`the disk under ${path} answered with an error; nothing was changed`)
    case CORRUPT:
      return no(`the store at ${path} is damaged`, 'restore it from a backup')
    case 13:
      return createDiskFullError(path)
    case 14:
      return no(`the store at ${path} cannot be opened`, `check the rights of ${dirname(path)}`)
    case 18:
      return new Refusal('too_large', 'a value is larger than the store can hold')
    case 19:
      return constraintFault(full, error)
    case NOT_A_DATABASE:
      return createNotAStoreError(path)
    default:
      return error
  }
}

/** The log could not be synced: what was written since the last sync may be on the disk or not. */
export function createSyncError(path: string, cause: unknown): Refusal {
  const refusal = new Refusal(
    'unavailable',
    `the disk under ${path} answered with an error; the last changes may be lost`,
  )
  refusal.cause = cause
  return refusal
}

export function createNotAStoreError(path: string): Refusal {
  return new Refusal('unavailable', `${path} is not a store of svc, or it is damaged`)
}

export function createDiskFullError(path: string): Refusal {
  return new TransientRefusal(`the disk under ${path} is full; nothing was changed`, 'free some space')
}

function constraintFault(full: number | undefined, error: unknown): unknown {
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
