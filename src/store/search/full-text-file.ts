// The file of a full-text index: an FTS5 table for the words, and a plain table for the fields that a search can filter by.
// The FTS5 table contains only the content, so queries cannot reach other fields. Statements are synchronous, so it is
// written by a thread; `full-text-reader.ts` searches it.
import { existsSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { inheritOwner, makeDirectorySync, makeFileSync } from '../../lib/files/owner.ts'
import { extendedSqliteCode, primarySqliteCode, readPragma, SQLITE, SQLITE_SUFFIXES } from '../sqlite-codes.ts'
import type { IndexedDocument, IndexUpdate } from './full-text-protocol.ts'

/** "svcs", in the header of the file. */
const APPLICATION_ID = 0x73766373
const SCHEMA_VERSION = 2
/** Indexed bytes of each document. Limited, because the time of a search grows with the hits of each document that it ranks. */
export const INDEXED_BYTES = 65_536
export const INDEX_BUSY_MS = 4000

const TABLES = `
  create table progress (id integer primary key, mark text not null);
  insert into progress values (1, '');
  create table documents (
    key integer primary key, name text not null, place text not null, path text, author text not null, at text not null);
  create virtual table words using fts5 (content, tokenize = "unicode61 remove_diacritics 2");
  pragma user_version = ${SCHEMA_VERSION};
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
    return this.#retryIfCorrupt(() => this.#mark())
  }

  /** Empties the index. */
  reset(): string {
    return this.#retryIfCorrupt(() =>
      this.#transaction(() => {
        this.#db.exec(`delete from documents; delete from words; update progress set mark = '' where id = 1`)
        return ''
      }),
    )
  }

  update(update: IndexUpdate): string {
    return this.#retryIfCorrupt(() => this.#transaction(() => this.#write(update)))
  }

  /** Replaces the file if a reader found it damaged or missing, unless that was done already. */
  replaceDamaged(damagedInode: number | undefined): string {
    const inode = statSync(this.#path, { throwIfNoEntry: false })?.ino
    if (inode !== this.#inode || damagedInode === this.#inode) this.#reopen()
    return this.mark()
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close()
  }

  #mark(): string {
    return String(this.#db.prepare('select mark from progress where id = 1').get()?.mark)
  }

  #write({ from, to, added, changed, moved, removed }: IndexUpdate): string {
    const mark = this.#mark()
    if (mark !== from) return mark
    const words = this.#db.prepare('insert into words (rowid, content) values (?, ?)')
    const documents = this.#db.prepare('insert into documents values (?, ?, ?, ?, ?, ?)')
    const add = ({ key, content, name, place, path, author, at }: IndexedDocument): void => {
      documents.run(key, name, place, path, author, at)
      // FTS5 returns hits of the same rank in the order of rowids, so negated keys put the newest first.
      words.run(-key, decodeStart(content))
    }
    for (const document of added) add(document)
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

  #transaction<T>(work: () => T): T {
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

  /** Runs `work`; if the file is corrupt, replaces it by an empty one and runs `work` again. */
  #retryIfCorrupt<T>(work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (!isCorruption(error)) throw error
      this.#reopen()
      return work()
    }
  }

  #reopen(): void {
    this.close()
    this.#db = openFile(this.#path, this.#inode)
    this.#inode = statSync(this.#path).ino
  }
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** The indexed part of a document, cut between two characters. */
function decodeStart(content: Uint8Array): string {
  let end = Math.min(content.length, INDEXED_BYTES)
  if (end < content.length) while (end > 0 && ((content[end] ?? 0) & 0xc0) === 0x80) end--
  return decoder.decode(content.subarray(0, end))
}

/** Opens or creates the file. The file with the inode `damagedInode` is replaced even if it can be opened. */
function openFile(path: string, damagedInode?: number): DatabaseSync {
  makeDirectorySync(dirname(path))
  // Two processes that both find the file damaged replace it one after the other.
  const lock = new DatabaseSync(`${path}.lock`, { timeout: INDEX_BUSY_MS })
  inheritOwner(`${path}.lock`)
  try {
    lock.exec('begin exclusive')
    return openUsable(path, damagedInode) ?? createFile(path)
  } finally {
    lock.close()
  }
}

function openUsable(path: string, damagedInode: number | undefined): DatabaseSync | undefined {
  if (!existsSync(path)) return undefined
  let db: DatabaseSync | undefined
  try {
    db = openConfigured(path)
    if (isSearchIndex(db) && statSync(path).ino !== damagedInode) return db
  } catch (error) {
    if (!isCorruption(error) && primarySqliteCode(error) !== SQLITE.ERROR) throw error
  }
  if (db?.isOpen) db.close()
  return undefined
}

function createFile(path: string): DatabaseSync {
  for (const suffix of SQLITE_SUFFIXES) rmSync(path + suffix, { force: true })
  // Messages are private, so other users of the machine cannot read the file.
  makeFileSync(path)
  const db = openConfigured(path)
  db.exec(`begin immediate; ${TABLES} commit`)
  return db
}

/**
 * The index can be rebuilt, so commits need not wait for the disk. The cache keeps its default size: a search for a common
 * word reads more pages than any cache has, and a large cache makes that a third slower than the page cache of the system.
 */
function openConfigured(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { timeout: INDEX_BUSY_MS })
  db.enableDefensive(true)
  db.exec(`pragma journal_mode = wal; pragma synchronous = normal; pragma temp_store = memory;
    pragma trusted_schema = off; pragma journal_size_limit = 67108864`)
  return db
}

function isSearchIndex(db: DatabaseSync): boolean {
  if (readPragma(db, 'application_id') !== APPLICATION_ID || readPragma(db, 'user_version') !== SCHEMA_VERSION)
    return false
  return db.prepare('select mark from progress where id = 1').get() !== undefined
}

export function isCorruption(error: unknown): boolean {
  const code = primarySqliteCode(error)
  return code === SQLITE.CORRUPT || code === SQLITE.NOT_A_DATABASE
}

export function isDiskFull(error: unknown): boolean {
  const code = extendedSqliteCode(error)
  if (code === SQLITE.FULL || code === SQLITE.IO_ERROR_SHARED_MEMORY) return true
  return ['ENOSPC', 'EDQUOT'].includes(errnoCode(error) ?? '')
}
