// Runs SQL in tests and returns raw rows.
import type { QueryResult, Tx, Value } from '../../src/store/engine.ts'

export function run(tx: Tx, sql: string, parameters: readonly Value[] = []): Promise<QueryResult> {
  return tx.executeQuery({ sql, parameters })
}
