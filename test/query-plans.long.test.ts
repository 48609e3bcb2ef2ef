// What one message costs must not grow with what was said before: every statement that a busy instance runs is held against a
// store with a hundred thousand turns. The statements are recorded while an instance runs, so a new one is checked as well.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { runBusyInstance } from './support/busy-instance.ts'
import { type EngineName, onEveryEngine } from './support/host.ts'
import { GROWING_TABLES } from './support/old-store.ts'
import { openReader } from './support/plans.ts'

const TURNS = 100_000
/** Steps of SQLite's machine, of which a row takes several; and rows of PostgreSQL. */
const VISITED_MAX: Readonly<Record<EngineName, number>> = { sqlite: 20_000, postgres: 1500 }

onEveryEngine('with a hundred thousand turns in the store', (engine) => {
  test('no statement of a busy instance reads through what has grown', async (t) => {
    const { store, statements } = await runBusyInstance(t, engine, TURNS)
    await using reader = await openReader(store, new Set(GROWING_TABLES))
    const faults: string[] = []
    for (const statement of statements.values()) {
      const { sql, scans, visited, plan } = await reader.read(statement)
      if (scans.length > 0 || visited > VISITED_MAX[engine])
        faults.push(`scans ${scans.join(', ') || 'nothing'}, visits ${visited}: ${sql}\n${plan}`)
    }
    assert.ok(statements.size > 100, `${statements.size} statements were heard`)
    assert.deepEqual(faults, [])
  })
})
