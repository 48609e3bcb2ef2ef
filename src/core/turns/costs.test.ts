import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { costLog, dailyCosts, sumSpentToday } from './costs.ts'

onEveryEngine('the daily costs', (engine) => {
  test('are summed per folder and per person, and reduced when rows are removed', async (t) => {
    const { host } = await testHost(t, engine)
    const spend = (turn_id: string, cost_cents: number, day: string, user_sub?: string) =>
      host.engine.transaction((tx) =>
        costLog.insertIfMissing(tx, {
          ...{ folder: 'main', turn_id, model: 'm', user_sub, input_tokens: 0, output_tokens: 0, cost_cents },
          recorded_at: `${day}T23:59:59.999Z`,
        }),
      )
    const spent = (by: 'folder' | 'user_sub', who: string, day: string) =>
      host.engine.read((tx) => sumSpentToday(tx, by, who, `${day}T12:00:00.000Z`))
    assert.equal(await spent('folder', 'main', '2026-01-01'), 0)
    await spend('a', 3, '2026-01-01')
    await spend('b', 4, '2026-01-01', 'github:7')
    // Only the first record of a turn and model counts.
    await spend('b', 9, '2026-01-01', 'github:7')
    await spend('c', 5, '2026-01-02', 'github:7')
    // Costs recorded before the clock was set back still count.
    assert.deepEqual(
      [await spent('folder', 'main', '2026-01-01'), await spent('folder', 'main', '2026-01-02')],
      [12, 5],
    )
    assert.deepEqual(
      [await spent('user_sub', 'github:7', '2026-01-01'), await spent('user_sub', 'github:7', '2026-01-02')],
      [9, 5],
    )
    await host.engine.transaction((tx) => run(tx, `delete from cost_log where turn_id = 'b'`))
    assert.deepEqual(
      [await spent('folder', 'main', '2026-01-01'), await spent('user_sub', 'github:7', '2026-01-01')],
      [8, 5],
    )
  })

  test('include costs recorded by an earlier version', async (t) => {
    const { host } = await testHost(t, engine)
    await host.engine.transaction(async (tx) => {
      const cost = { folder: 'main', model: 'm', user_sub: 'github:7', input_tokens: 0, output_tokens: 0 }
      for (const [turn_id, cost_cents] of Object.entries({ a: 3, b: 4 }))
        await costLog.insert(tx, { ...cost, turn_id, cost_cents, recorded_at: '2026-01-01T00:00:00.000Z' })
      const before = await dailyCosts.list(tx)
      await run(tx, 'delete from daily_costs')
      await run(tx, String(dailyCosts.storage[1]))
      assert.deepEqual(await dailyCosts.list(tx), before)
      assert.equal(before.length, 2)
    })
  })
})
