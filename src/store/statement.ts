// SQL that is written once and run often, without the builder. Parameters are $1, $2 … in order, each used once.
import type { CompiledQuery, QueryResult } from 'kysely'
import type { Tx, Value } from './engine.ts'

type Record_ = Record<string, Value>

export function statement(sql: string, parameters: readonly Value[] = []): CompiledQuery<Record_> {
  // Engines read `sql` and `parameters` alone; the node is what Kysely's types ask for.
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] } as const
  return { query, sql, parameters, queryId: { queryId: sql } }
}

export function run(tx: Tx, sql: string, parameters: readonly Value[] = []): Promise<QueryResult<Record_>> {
  return tx.executeQuery(statement(sql, parameters))
}
