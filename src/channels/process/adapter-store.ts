// What an adapter must not forget: cursors of the platform, keys of messages that it sent, and the parts of long ones. A SQLite
// file of the adapter alone; every write is synced before it returns.
import { join } from 'node:path'
import { DatabaseSync, type StatementSync } from 'node:sqlite'

/** svc retries a message for a day. */
const KEEP_SENDS_MS = 7 * 24 * 3_600_000
/** Later edits and deletions reach only the first part. */
const KEEP_PARTS_MS = 365 * 24 * 3_600_000
/** Values that are cached for the platform, such as names. */
const CACHE_MAX = 10_000
const PRUNE_EVERY_MS = 3_600_000

export interface SendAttempt {
  /** The platform's id; undefined if the attempt has not ended, or its end is not known. */
  readonly id: string | undefined
  readonly isSent: boolean
  /** When the first attempt began, in milliseconds. */
  readonly beganAt: number
}

export class AdapterStore {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  readonly #now: () => number
  readonly #cacheMax: number
  #prunedAt: number
  #cachedSinceEviction = 0

  constructor(directory: string, now: () => number, cacheMax = CACHE_MAX) {
    this.#now = now
    this.#cacheMax = cacheMax
    this.#db = new DatabaseSync(join(directory, 'state.db'))
    this.#db.exec(`pragma journal_mode = wal; pragma synchronous = full; pragma busy_timeout = 5000;
      create table if not exists cursors (name text primary key, value text not null) without rowid;
      create table if not exists sends (
        key text not null, part integer not null, id text, is_sent integer not null, at integer not null,
        primary key (key, part)) without rowid;
      create index if not exists sends_at on sends (at);
      create table if not exists parts (
        chat text not null, first text not null, part integer not null, id text not null, at integer not null,
        primary key (chat, first, part)) without rowid;
      create index if not exists parts_at on parts (at);
      create table if not exists cache (name text primary key, value text not null, at integer not null) without rowid;
      create index if not exists cache_at on cache (at);`)
    this.#prunedAt = now()
    this.#prune()
  }

  /** A position in the platform's events. */
  cursor(name: string): string | undefined {
    const row = this.#run('select value from cursors where name = ?').get(name)
    return row === undefined ? undefined : String(row.value)
  }

  setCursor(name: string, value: string | undefined): void {
    if (value === undefined) this.#run('delete from cursors where name = ?').run(name)
    else this.#run('insert or replace into cursors (name, value) values (?, ?)').run(name, value)
  }

  /** Cursors whose names start with the text. */
  cursors(prefix: string): readonly { readonly name: string; readonly value: string }[] {
    const rows = this.#run('select name, value from cursors where name >= ? and name < ? order by name').all(
      prefix,
      `${prefix}\u{10ffff}`,
    )
    return rows.map((row) => ({ name: String(row.name), value: String(row.value) }))
  }

  /** A value that can be asked for again; the oldest give way. */
  cached(name: string): string | undefined {
    const row = this.#run('select value from cache where name = ?').get(name)
    return row === undefined ? undefined : String(row.value)
  }

  setCached(name: string, value: string): void {
    this.#run('insert or replace into cache (name, value, at) values (?, ?, ?)').run(name, value, this.#now())
    // Eviction reads the whole cache, so it follows many writes.
    if (++this.#cachedSinceEviction > this.#cacheMax / 10) this.#evict()
  }

  sendAttempt(key: string, part: number): SendAttempt | undefined {
    const row = this.#run('select id, is_sent, at from sends where key = ? and part = ?').get(key, part)
    if (row === undefined) return undefined
    return { id: row.id === null ? undefined : String(row.id), isSent: row.is_sent === 1, beganAt: Number(row.at) }
  }

  /** Call before the platform is asked. Another attempt keeps the time of the first. */
  beginSend(key: string, part: number): void {
    if (Math.abs(this.#now() - this.#prunedAt) > PRUNE_EVERY_MS) this.#prune()
    this.#run('insert or ignore into sends (key, part, id, is_sent, at) values (?, ?, null, 0, ?)').run(
      key,
      part,
      this.#now(),
    )
  }

  endSend(key: string, part: number, id: string | undefined): void {
    this.#run('update sends set id = ?, is_sent = 1 where key = ? and part = ?').run(id ?? null, key, part)
  }

  /** The platform has certainly not sent it. */
  undoSend(key: string, part: number): void {
    this.#run('delete from sends where key = ? and part = ?').run(key, part)
  }

  /** The message that a draft has become is the first part of the message with this key, and no draft any more. */
  endDraft(draft: string, key: string, id: string): void {
    this.#inTransaction(() => {
      this.#run('insert or replace into sends (key, part, id, is_sent, at) values (?, 0, ?, 1, ?)').run(
        key,
        id,
        this.#now(),
      )
      this.endSend(draft, 0, undefined)
    })
  }

  /** All parts of a message by the id of its first; only that one if it was sent in one. */
  partsOf(chat: string, first: string): readonly string[] {
    const rows = this.#run('select id from parts where chat = ? and first = ? order by part').all(chat, first)
    return rows.length === 0 ? [first] : rows.map((row) => String(row.id))
  }

  /** `doneKey`: a key that is not asked for again. */
  setParts(chat: string, first: string, ids: readonly string[], doneKey?: string): void {
    this.#inTransaction(() => {
      this.#run('delete from parts where chat = ? and first = ?').run(chat, first)
      const insert = this.#run('insert into parts (chat, first, part, id, at) values (?, ?, ?, ?, ?)')
      if (ids.length > 1) for (const [part, id] of ids.entries()) insert.run(chat, first, part, id, this.#now())
      if (doneKey !== undefined) this.#run('delete from sends where key = ?').run(doneKey)
    })
  }

  close(): void {
    this.#statements.clear()
    this.#db.close()
  }

  #inTransaction(work: () => void): void {
    this.#db.exec('begin')
    try {
      work()
      this.#db.exec('commit')
    } catch (error) {
      this.#db.exec('rollback')
      throw error
    }
  }

  /** Removes what is too old to be asked for. */
  #prune(): void {
    this.#prunedAt = this.#now()
    this.#run('delete from sends where at < ?').run(this.#prunedAt - KEEP_SENDS_MS)
    this.#run('delete from parts where at < ?').run(this.#prunedAt - KEEP_PARTS_MS)
    this.#evict()
  }

  #evict(): void {
    this.#cachedSinceEviction = 0
    this.#run('delete from cache where name in (select name from cache order by at desc limit -1 offset ?)').run(
      this.#cacheMax,
    )
  }

  #run(sql: string): StatementSync {
    const known = this.#statements.get(sql) ?? this.#db.prepare(sql)
    this.#statements.set(sql, known)
    return known
  }
}
