// Records the statements of an engine: each once, with the parameters of its first and last executions.
import type { Engine, Tx, Value } from '../../src/store/engine.ts'

export interface Statement {
  readonly sql: string
  readonly first: readonly unknown[]
  last: readonly unknown[]
}

const RECORDED = Symbol('recorded')

/** Starts recording, including lanes. */
export function recordStatements(engine: Engine): ReadonlyMap<string, Statement> {
  const statements = new Map<string, Statement>()
  const note = (sql: string, parameters: readonly unknown[]): void => {
    const known = statements.get(sql)
    if (known) known.last = parameters
    else statements.set(sql, { sql, first: parameters, last: parameters })
  }
  const { read, transaction } = engine
  const heard =
    <T>(work: (tx: Tx) => Promise<T>) =>
    (tx: Tx): Promise<T> => {
      if (!Object.hasOwn(tx, RECORDED)) record(tx, note)
      return work(tx)
    }
  const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => transaction.call(engine, heard(work)) as Promise<T>
  Object.assign(engine, {
    read: <T>(work: (tx: Tx) => Promise<T>) => read.call(engine, heard(work)) as Promise<T>,
    transaction: write,
  })
  return statements
}

/** The builder of a transaction asks by `executeQuery` as well. */
function record(tx: Tx, note: (sql: string, parameters: readonly unknown[]) => void): void {
  const { executeQuery, executeEach } = tx
  const recorded: Partial<Tx> = {
    executeQuery: (query) => {
      note(query.sql, query.parameters)
      return executeQuery.call(tx, query) as never
    },
  }
  if (executeEach)
    recorded.executeEach = (sql: string, rows: readonly (readonly Value[])[]) => {
      for (const row of rows) note(sql, row)
      return executeEach.call(tx, sql, rows)
    }
  Object.assign(tx, recorded, { [RECORDED]: true })
}
