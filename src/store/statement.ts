// SQL that is written once and run often, without the builder. Parameters are $1, $2 …
import type { QueryResult } from 'kysely'
import type { Tx, Value } from './engine.ts'

type Row = Record<string, Value>

export function run(tx: Tx, sql: string, parameters: readonly Value[] = []): Promise<QueryResult<Row>> {
  return tx.executeQuery<Row>({ sql, parameters })
}

/** `sql` with `change` made outside its quoted texts. */
export function outsideQuotes(sql: string, change: (part: string) => string): string {
  return sql
    .split(/('(?:[^']|'')*')/)
    .map((part, index) => (index % 2 === 0 ? change(part) : part))
    .join('')
}
