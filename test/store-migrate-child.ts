// Migrates a store: `node store-migrate-child.ts <address as JSON> <k>` kills itself at the k-th statement of the transaction;
// without k it prints the number of statements.
import type { Tx } from '../src/store/engine.ts'
import { openEngine } from '../src/store/index.ts'
import { migrate } from '../src/store/migrate.ts'
import { SECOND_RELEASE } from '../src/store/schema-releases.contract.ts'
import { overrideEngine } from './support/engine-override.ts'
import { run } from './support/sql.ts'

const [address = '', at] = process.argv.slice(2)
const engine = await openEngine(JSON.parse(address))
let statements = 0

function countStatements(tx: Tx): Tx {
  return {
    executeQuery: (query) => {
      if (++statements === Number(at)) process.kill(process.pid, 'SIGKILL')
      return tx.executeQuery(query)
    },
    onCommit: (then) => tx.onCommit(then),
  }
}

const killingEngine = overrideEngine(engine, {
  transaction: (work) =>
    engine.transaction(async (tx) => {
      // With a small cache, SQLite writes pages to the log long before the commit.
      if (engine.copy) await run(tx, 'pragma cache_size = 5')
      return work(countStatements(tx))
    }),
})

await migrate(killingEngine, SECOND_RELEASE, () => '2026-02-02T00:00:00.000Z')
await engine.close()
process.stdout.write(String(statements))
