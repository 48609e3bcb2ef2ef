// Result codes, pragmas and file names of SQLite, shared by the store and the search index.
import type { DatabaseSync } from 'node:sqlite'

/** Primary result codes; those with a shifted part are extended ones. */
export const SQLITE = {
  ERROR: 1,
  BUSY: 5,
  LOCKED: 6,
  READ_ONLY: 8,
  IO_ERROR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANNOT_OPEN: 14,
  PROTOCOL: 15,
  TOO_BIG: 18,
  CONSTRAINT: 19,
  NOT_A_DATABASE: 26,
  IO_ERROR_SHARED_MEMORY: 10 | (19 << 8),
  CONSTRAINT_FOREIGN_KEY: 19 | (3 << 8),
  CONSTRAINT_PRIMARY_KEY: 19 | (6 << 8),
  CONSTRAINT_UNIQUE: 19 | (8 << 8),
} as const

/** Suffixes of the files of a database. */
export const SQLITE_SUFFIXES = ['', '-wal', '-shm', '-journal']

export function extendedSqliteCode(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' ? code : undefined
}

export function primarySqliteCode(error: unknown): number | undefined {
  const code = extendedSqliteCode(error)
  return code === undefined ? undefined : code & 0xff
}

export function readPragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`pragma ${name}`).get() ?? {})[0]
}
