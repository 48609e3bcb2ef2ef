// The file of a full text: one FTS5 table for the words, one plain table for all that a question can be narrowed by. Only
// the content is a column of the former, so no query can reach anything else. Statements are synchronous: for a thread.
// `full-text-reader.ts` searches it.
import { closeSync, existsSync, mkdirSync, openSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { IndexedDocument, IndexUpdate } from './full-text.ts'

/** "svcs" in the file's header, and the form of its tables. */
const APPLICATION_ID = 0x73766373
const FORM = 2
/** The first bytes of a text are indexed. The time of a search grows with the hits of each text that it ranks. */
export const INDEXED_BYTES = 65_536
export const INDEX_BUSY_MS = 4000
export const NO_SUCH_TABLE = 1
const DAMAGES: readonly number[] = [11, 26]
/** Of the file itself, and of the memory that the processes of a write-ahead log share. */
const DISK_FULL: readonly number[] = [13, 10 | (19 << 8)]

const TABLES = `
  create table progress (id integer primary key, mark text not null);
  insert into progress values (1, '');
  create table documents (
    key integer primary key, name text not null, place text not null, path text, author text not null, at text not null);
  create virtual table words using fts5 (content, tokenize = "unicode61 remove_diacritics 2");
  pragma user_version = ${FORM};
  pragma application_id = ${APPLICATION_ID};`

export class FullTextFile {
  readonly #path: string
  #db: DatabaseSync
  #inode: number

  constructor(path: string) {
    this.#path = path
    this.#db = openFile(path)
    this.#inode = statSync(path).ino
  }

  mark(): string {
    return this.#whole(() => this.#mark())
  }

  /** Empty, as if it had just been made. */
  reset(): string {
    return this.#whole(() =>
      this.#together(() => {
        this.#db.exec(`delete from documents; delete from words; update progress set mark = '' where id = 1`)
        return ''
      }),
    )
  }

  fill(filling: IndexUpdate): string {
    return this.#whole(() => this.#together(() => this.#write(filling)))
  }

  /** Makes it anew where a reader has found the file with this inode number damaged, or found none. */
  renew(damaged: number | undefined): string {
    const there = statSync(this.#path, { throwIfNoEntry: false })?.ino
    if (there !== this.#inode || damaged === this.#inode) this.#begin()
    return this.mark()
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close()
  }

  #mark(): string {
    return String(this.#db.prepare('select mark from progress where id = 1').get()?.mark)
  }

  #write({ from, to, fresh, changed, moved, removed }: IndexUpdate): string {
    const mark = this.#mark()
    if (mark !== from) return mark
    const words = this.#db.prepare('insert into words (rowid, content) values (?, ?)')
    const documents = this.#db.prepare('insert into documents values (?, ?, ?, ?, ?, ?)')
    const add = ({ key, content, name, place, path, author, at }: IndexedDocument): void => {
      documents.run(key, name, place, path, author, at)
      // The newest have the lowest number: of two that fit as well FTS5 gives that one first.
      words.run(-key, beginningOf(content))
    }
    for (const document of fresh) add(document)
    for (const key of [...removed, ...changed.map((document) => document.key)]) {
      this.#db.prepare('delete from documents where key = ?').run(key)
      this.#db.prepare('delete from words where rowid = ?').run(-key)
    }
    for (const document of changed) add(document)
    const move = this.#db.prepare('update documents set path = ? where key = ?')
    for (const { key, path } of moved) move.run(path, key)
    this.#db.prepare('update progress set mark = ? where id = 1').run(to)
    return to
  }

  #together<T>(work: () => T): T {
    this.#db.exec('begin immediate')
    try {
      const value = work()
      this.#db.exec('commit')
      return value
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('rollback')
      throw error
    }
  }

  /** Where the file turns out to be damaged it is made anew, empty, and asked once more. */
  #whole<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!isCorruption(error)) throw error
      this.#begin()
      return work()
    }
  }

  #begin(): void {
    this.close()
    this.#db = openFile(this.#path, this.#inode)
    this.#inode = statSync(this.#path).ino
  }
}

const TEXT = new TextDecoder('utf-8', { ignoreBOM: true })

/** Cut between two characters. */
function beginningOf(content: Uint8Array): string {
  let end = Math.min(content.length, INDEXED_BYTES)
  if (end < content.length) while (end > 0 && ((content[end] ?? 0) & 0xc0) === 0x80) end--
  return TEXT.decode(content.subarray(0, end))
}

/** `damaged`: the file of this number opens well, but was found damaged; another one in its place is as good as any. */
function openFile(path: string, damaged?: number): DatabaseSync {
  mkdirSync(dirname(path), { recursive: true })
  // Two processes that both find it damaged make it one after the other.
  const lock = new DatabaseSync(`${path}.lock`, { timeout: INDEX_BUSY_MS })
  try {
    lock.exec('begin exclusive')
    return usable(path, damaged) ?? madeAnew(path)
  } finally {
    lock.close()
  }
}

function usable(path: string, damaged: number | undefined): DatabaseSync | undefined {
  if (!existsSync(path)) return undefined
  let db: DatabaseSync | undefined
  try {
    db = configured(path)
    if (isOurs(db) && statSync(path).ino !== damaged) return db
  } catch (error) {
    if (!isCorruption(error) && sqliteErrorCode(error) !== NO_SUCH_TABLE) throw error
  }
  if (db?.isOpen) db.close()
  return undefined
}

function madeAnew(path: string): DatabaseSync {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(path + end, { force: true })
  // What was said is for nobody else on this machine.
  closeSync(openSync(path, 'wx', 0o600))
  const db = configured(path)
  db.exec(`begin immediate; ${TABLES} commit`)
  return db
}

/**
 * What it holds can be had again: a commit need not wait for the disk. The cache has its usual size: a common word looks at more
 * pages than any cache holds, and a large one that is read through makes that a third slower than the system's own.
 */
function configured(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: INDEX_BUSY_MS })
  db.enableDefensive(true)
  db.exec(`pragma journal_mode = wal; pragma synchronous = normal; pragma temp_store = memory;
    pragma trusted_schema = off; pragma journal_size_limit = 67108864`)
  return db
}

function isOurs(db: DatabaseSync): boolean {
  if (pragma(db, 'application_id') !== APPLICATION_ID || pragma(db, 'user_version') !== FORM) return false
  return db.prepare('select mark from progress where id = 1').get() !== undefined
}

export function isCorruption(error: unknown): boolean {
  return DAMAGES.includes(sqliteErrorCode(error) ?? 0)
}

export function isDiskFull(error: unknown): boolean {
  const [sqlite, system] = [extendedCodeOf(error), error instanceof Error && 'code' in error ? error.code : undefined]
  return DISK_FULL.includes(sqlite ?? 0) || system === 'ENOSPC' || system === 'EDQUOT'
}

function pragma(db: DatabaseSync, name: string): unknown {
  return Object.values(db.prepare(`pragma ${name}`).get() ?? {})[0]
}

export function sqliteErrorCode(error: unknown): number | undefined {
  const code = extendedCodeOf(error)
  return code === undefined ? undefined : code & 0xff
}

function extendedCodeOf(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' ? code : undefined
}
