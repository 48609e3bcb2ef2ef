// Migrates a store and dies in the middle: `node store-migrate-child.ts <address as JSON> <k>` kills itself at the k-th
// statement of the transaction; without k it says how many there are.

import type { Tx } from '../src/store/engine.ts'
import { openEngine } from '../src/store/index.ts'
import { migrate } from '../src/store/migrate.ts'
import { SECOND_RELEASE } from '../src/store/schema-releases.contract.ts'
import { overrideEngine } from './support/engine-override.ts'
import { run } from './support/sql.ts'

const [address = '', at] = process.argv.slice(2)
const engine = await openEngine(JSON.parse(address))
let statements = 0

function watched(tx: Tx): Tx {
  return {
    executeQuery: (query) => {
      if (++statements === Number(at)) process.kill(process.pid, 'SIGKILL')
      return tx.executeQuery(query)
    },
    onCommit: (then) => tx.onCommit(then),
  }
}

const dying = overrideEngine(engine, {
  transaction: (work) =>
    engine.transaction(async (tx) => {
      // Pages go to the log long before the commit when there is no room for them in memory.
      if (engine.copy) await run(tx, 'pragma cache_size = 5')
      return work(watched(tx))
    }),
})

await migrate(dying, SECOND_RELEASE, () => '2026-02-02T00:00:00.000Z')
await engine.close()
process.stdout.write(String(statements))
