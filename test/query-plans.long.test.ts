// The cost of a message must not grow with the history: checks the plan of every statement of a busy instance on a store
// with a hundred thousand turns. The statements are recorded while the instance runs, so new ones are checked too.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runBusyInstance } from './support/busy-instance.ts'
import { type EngineName, onEveryEngine } from './support/host.ts'
import { GROWING_TABLES } from './support/old-store.ts'
import { openReader } from './support/plans.ts'

const TURNS = 100_000
/** SQLite: steps of its virtual machine, several per row. PostgreSQL: rows. */
const VISITED_MAX: Readonly<Record<EngineName, number>> = { sqlite: 20_000, postgres: 1500 }

onEveryEngine('with a hundred thousand turns in the store', (engine) => {
  test('no statement of a busy instance scans a growing table', async (t) => {
    const { store, statements } = await runBusyInstance(t, engine, TURNS)
    await using reader = await openReader(store, new Set(GROWING_TABLES))
    const faults: string[] = []
    for (const statement of statements.values()) {
      const { sql, scans, visited, plan } = await reader.read(statement)
      if (scans.length > 0 || visited > VISITED_MAX[engine])
        faults.push(`scans ${scans.join(', ') || 'nothing'}, visits ${visited}: ${sql}\n${plan}`)
    }
    assert.ok(statements.size > 100, `${statements.size} statements were recorded`)
    assert.deepEqual(faults, [])
  })
})
