// Home, Turns, Approvals and Costs read no growing table as a whole.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Caller } from '../src/core/access/caller.ts'
import { timestamp } from '../src/lib/clock.ts'
import { costLogResource } from '../src/resources/cost-log.ts'
import { folderTurnsResource } from '../src/resources/folder-turns.ts'
import { pendingActionsResource } from '../src/resources/pending-actions.ts'
import { turnsResource } from '../src/resources/turns.ts'
import { freshStore, onEveryEngine, testHost } from './support/host.ts'
import { fillOldStore, GROWING_TABLES } from './support/old-store.ts'
import { openReader } from './support/plans.ts'
import { recordStatements } from './support/statements.ts'

const DAY_MS = 24 * 3_600_000

onEveryEngine('with twenty thousand old turns in the store', (engine) => {
  test('the reports of an operator and of an administrator scan no growing table', async (t) => {
    const store = await freshStore(t, engine)
    const on = await testHost(t, engine, store)
    await on.groups('main', 'team')
    await on.operator('github:op')
    await on.grant('github:admin', 'admin', 'main')
    const at = timestamp(on.clock.now() - 2 * DAY_MS)
    await fillOldStore(on.host.engine, { turns: 20_000, folder: 'main', jids: ['web:main', 'telegram:group/1'], at })
    const statements = recordStatements(on.host.engine)
    for (const sub of ['github:op', 'github:admin']) {
      const person = on.as({ kind: 'person', sub, session: 'a-session' } satisfies Caller, 'dash')
      await person.call(folderTurnsResource.verbs.attention, {})
      await person.call(folderTurnsResource.verbs.day, {})
      await person.call(turnsResource.verbs.running, {})
      for (const filter of [
        {},
        { folder: 'main' },
        { outcome: 'failed' },
        { folder: 'main', outcome: 'failed' },
        { state: 'running' },
      ])
        await person.call(turnsResource.verbs.list, { ...filter, limit: 20 })
      await person.call(turnsResource.verbs.show, { id: '0-old-77' })
      await person.call(pendingActionsResource.verbs.list, {})
      await person.call(costLogResource.verbs.spend, { by: 'day', days: 1 })
      await person.call(costLogResource.verbs.near_cap, {})
    }
    await using reader = await openReader(store, new Set(GROWING_TABLES))
    const faults: string[] = []
    for (const statement of statements.values()) {
      const { sql, scans, visited, plan } = await reader.read(statement)
      if (visited > 5000) faults.push(`scans ${scans.join(', ')}, visits ${visited}: ${sql}\n${plan}`)
    }
    assert.ok(statements.size > 20, `${statements.size} statements were recorded`)
    assert.deepEqual(faults, [])
  })
})
