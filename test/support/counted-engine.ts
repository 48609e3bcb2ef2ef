// An engine that counts statements and write transactions. A lock that a transaction has already is no statement: the engine does
// not send it again.
import type { Engine, Tx } from '../../src/store/engine.ts'

export interface EngineCounts {
  statements: number
  transactions: number
}

export function countedEngine(engine: Engine, counts: EngineCounts): Engine {
  const counted = (tx: Tx, locks = new Set<string>()): Tx => ({
    executeQuery: (query) => {
      if (!locks.has(query.sql)) counts.statements++
      if (query.sql.startsWith('lock table ')) locks.add(query.sql)
      return tx.executeQuery(query)
    },
    ...(tx.executeEach
      ? {
          executeEach: (sql, rows) => {
            counts.statements += rows.length
            return tx.executeEach?.(sql, rows) ?? []
          },
        }
      : {}),
    onCommit: (then) => tx.onCommit(then),
  })
  return {
    dialect: engine.dialect,
    read: (work) => engine.read((tx) => work(counted(tx))),
    transaction: (work) => {
      counts.transactions++
      return engine.transaction((tx) => work(counted(tx)))
    },
    listen: (listener) => engine.listen(listener),
    failed: engine.failed,
    close: () => engine.close(),
  }
}
