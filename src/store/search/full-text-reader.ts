// Searches the file of a full-text index. Statements are synchronous and cannot be interrupted, so it runs in a process of
// its own.
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { subtree, withinSubtrees } from '../sql-conditions.ts'
import { primarySqliteCode, SQLITE } from '../sqlite-codes.ts'
import { INDEX_BUSY_MS, isCorruption } from './full-text-file.ts'
import type { FullTextHit, FullTextQuery, FullTextReply } from './full-text-protocol.ts'
import { createSnippet } from './snippet.ts'
import { parsePhrases } from './text-query.ts'

/** The time that FTS5 takes for a document grows with its hits and with the square of the number of words. */
const QUERY_WORDS = 32

export class FullTextReader {
  readonly #path: string
  #db: DatabaseSync | undefined
  #inode: number | undefined

  constructor(path: string) {
    this.#path = path
  }

  find(query: FullTextQuery): FullTextReply {
    const invalid = checkQuery(query.query)
    if (invalid) return invalid
    try {
      return this.#searchSnapshot(this.#open(), query)
    } catch (error) {
      const code = primarySqliteCode(error)
      if (!isCorruption(error) && code !== SQLITE.ERROR && code !== SQLITE.CANNOT_OPEN) throw error
      const damagedInode = this.#inode
      this.close()
      return { damagedInode }
    }
  }

  close(): void {
    this.#db?.close()
    this.#db = undefined
    this.#inode = undefined
  }

  /** Opens the file again if it was replaced. */
  #open(): DatabaseSync {
    const inode = statSync(this.#path, { throwIfNoEntry: false })?.ino
    if (this.#db && inode === this.#inode) return this.#db
    this.close()
    this.#inode = inode
    this.#db = new DatabaseSync(this.#path, { readOnly: true, timeout: INDEX_BUSY_MS })
    this.#db.exec('pragma temp_store = memory; pragma trusted_schema = off')
    return this.#db
  }

  /** Other processes write the file too, so the mark and the rows are read from one snapshot. */
  #searchSnapshot(db: DatabaseSync, query: FullTextQuery): FullTextReply {
    db.exec('begin')
    try {
      const mark = String(db.prepare('select mark from progress where id = 1').get()?.mark)
      return mark === query.mark ? search(db, query) : { mark }
    } finally {
      if (db.isTransaction) db.exec('rollback')
    }
  }
}

/** Checks what FTS5 itself does not. */
function checkQuery(query: string): FullTextReply | undefined {
  // FTS5 would read a leading `*` as a special command.
  if (query.trimStart().startsWith('*')) return { syntaxError: 'fts5: syntax error near "*"' }
  const words = parsePhrases(query).reduce((sum, phrase) => sum + phrase.words.length, 0)
  return words > QUERY_WORDS ? { queryError: `query has more than ${QUERY_WORDS} words` } : undefined
}

function search(db: DatabaseSync, fullTextQuery: FullTextQuery): FullTextReply {
  const { query, limit, place, author, since, within, except } = fullTextQuery
  const values: (string | number)[] = [query]
  const conditions: string[] = []
  const add = (condition: string, ...more: string[]): void => {
    conditions.push(condition)
    values.push(...more)
  }
  if (place !== undefined) add(`d.place = $${values.length + 1}`, place)
  if (author !== undefined) add(`d.author = $${values.length + 1}`, author)
  if (since !== undefined) add(`d.at >= $${values.length + 1}`, since)
  for (const paths of within) add(withinSubtrees('d.path', paths.length, values.length), ...paths.flatMap(subtree))
  if (except.length > 0)
    add(
      `(d.path is null or d.path not in (select value from json_each($${values.length + 1})))`,
      JSON.stringify(except),
    )
  const only = conditions.map((condition) => ` and ${condition}`).join('')
  // With this join order, and ordered by rank alone, FTS5 sorts by itself and reads only the documents that are returned.
  const sql = `select d.key, d.name, d.place, d.path, d.author, d.at, words.rank as rank, words.content as content
    from words cross join documents d on d.key = -words.rowid where words match $1${only}
    order by rank limit $${values.length + 1}`
  try {
    const phrases = parsePhrases(query)
    const statement = db.prepare(sql.replace(/\$(\d+)/g, '?$1'))
    const hits: FullTextHit[] = []
    // The columns are those of `FullTextHit`.
    for (const { content, ...row } of statement.iterate(...values, limit))
      hits.push({ ...row, snippet: createSnippet(String(content), phrases) } as unknown as FullTextHit)
    return { hits }
  } catch (error) {
    if (primarySqliteCode(error) !== SQLITE.ERROR) throw error
    return { syntaxError: error instanceof Error ? error.message : String(error) }
  }
}
