// Searches the file of a full text. Statements are synchronous and cannot be interrupted: for a process of its own.
import { statSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { subtree, withinSubtrees } from '../sql-conditions.ts'
import type { FullTextHit, FullTextQuery, FullTextReply } from './full-text.ts'
import { INDEX_BUSY_MS, isCorruption, NO_SUCH_TABLE, sqliteErrorCode } from './full-text-file.ts'
import { snippetOf } from './snippet.ts'
import { phrasesOf } from './text-query.ts'

/** For each text FTS5 takes a time that grows with its hits and with the square of the number of words. */
export const QUERY_WORDS = 32
const CANNOT_OPEN = 14

export class FullTextReader {
  readonly #path: string
  #db: DatabaseSync | undefined
  #inode: number | undefined

  constructor(path: string) {
    this.#path = path
  }

  find(question: FullTextQuery): FullTextReply {
    const fault = faultOf(question.query)
    if (fault) return { fault }
    try {
      return this.#together(this.#opened(), question)
    } catch (error) {
      if (!isCorruption(error) && sqliteErrorCode(error) !== NO_SUCH_TABLE && sqliteErrorCode(error) !== CANNOT_OPEN)
        throw error
      const damaged = this.#inode
      this.close()
      return { damaged }
    }
  }

  close(): void {
    this.#db?.close()
    this.#db = undefined
    this.#inode = undefined
  }

  /** The file may have been made anew since. */
  #opened(): DatabaseSync {
    const inode = statSync(this.#path, { throwIfNoEntry: false })?.ino
    if (this.#db && inode === this.#inode) return this.#db
    this.close()
    this.#inode = inode
    this.#db = new DatabaseSync(this.#path, { readOnly: true, timeout: INDEX_BUSY_MS })
    this.#db.exec('pragma temp_store = memory; pragma trusted_schema = off')
    return this.#db
  }

  /** The mark and the rows are of one snapshot: other processes fill the file, too. */
  #together(db: DatabaseSync, question: FullTextQuery): FullTextReply {
    db.exec('begin')
    try {
      const mark = String(db.prepare('select mark from progress where id = 1').get()?.mark)
      return mark === question.mark ? search(db, question) : { mark }
    } finally {
      if (db.isTransaction) db.exec('rollback')
    }
  }
}

/** What FTS5 does not say of a query. */
function faultOf(query: string): string | undefined {
  // FTS5 would take it for a word to itself, not for a query.
  if (query.trimStart().startsWith('*')) return 'fts5: syntax error near "*"'
  const words = phrasesOf(query).reduce((sum, phrase) => sum + phrase.words.length, 0)
  return words > QUERY_WORDS ? `query has more than ${QUERY_WORDS} words` : undefined
}

function search(db: DatabaseSync, question: FullTextQuery): FullTextReply {
  const { query, limit, place, author, since, within: lists, except } = question
  const values: (string | number)[] = [query]
  const conditions: string[] = []
  const add = (condition: string, ...more: string[]): void => {
    conditions.push(condition)
    values.push(...more)
  }
  if (place !== undefined) add(`d.place = $${values.length + 1}`, place)
  if (author !== undefined) add(`d.author = $${values.length + 1}`, author)
  if (since !== undefined) add(`d.at >= $${values.length + 1}`, since)
  for (const paths of lists) add(withinSubtrees('d.path', paths.length, values.length), ...paths.flatMap(subtree))
  if (except.length > 0)
    add(
      `(d.path is null or d.path not in (select value from json_each($${values.length + 1})))`,
      JSON.stringify(except),
    )
  const only = conditions.map((condition) => ` and ${condition}`).join('')
  // In this order, and by the rank alone: FTS5 then sorts by itself, and reads only the texts that are shown.
  const sql = `select d.key, d.name, d.place, d.path, d.author, d.at, words.rank as rank, words.content as content
    from words cross join documents d on d.key = -words.rowid where words match $1${only}
    order by rank limit $${values.length + 1}`
  try {
    const phrases = phrasesOf(query)
    const statement = db.prepare(sql.replace(/\$(\d+)/g, '?$1'))
    const found: FullTextHit[] = []
    // The columns are those of `Found`.
    for (const { content, ...row } of statement.iterate(...values, limit))
      found.push({ ...row, snippet: snippetOf(String(content), phrases) } as unknown as FullTextHit)
    return { found }
  } catch (error) {
    if (sqliteErrorCode(error) !== 1) throw error
    return { fault: error instanceof Error ? error.message : String(error) }
  }
}
