import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import type { Caller } from '../core/access/caller.ts'
import { costLog } from '../core/turns/costs.ts'
import { dailySpend, sumSpend } from '../core/turns/spend.ts'
import { costLogResource } from './cost-log.ts'
import { groupsResource } from './groups.ts'
import { usersResource } from './users.ts'

const { spend, near_cap, own } = costLogResource.verbs
const withSession = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })

onEveryEngine('costs', (engine) => {
  test('are summed by day, folder, model and person, each person seeing their own', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    await on.grant('github:admin', 'admin', 'team')
    const rows = [
      ['main', 'a', 'big', 'github:1', 5, '2026-01-01'],
      ['team', 'b', 'big', undefined, 7, '2026-01-01'],
      ['team', 'c', 'small', 'github:1', 1, '2025-12-31'],
      ['main', 'd', 'small', 'github:admin', 2, '2025-12-31'],
      ['main', 'e', 'small', undefined, 100, '2025-11-01'],
    ] as const
    const insert = () =>
      on.host.engine.transaction(async (tx) => {
        for (const [folder, turn_id, model, user_sub, cost_cents, day] of rows)
          await costLog.insert(tx, {
            ...{ folder, turn_id, model, user_sub, cost_cents, input_tokens: 10, output_tokens: 1 },
            recorded_at: `${day}T00:00:00.000Z`,
          })
      })
    await insert()
    const sums = async (by: string, caller = on.cli, more: object = {}) =>
      (await caller.call(spend, { by, ...more })).spend.map(({ name, cents }) => [name, cents])
    assert.deepEqual(await sums('day'), [
      ['2025-12-31', 3],
      ['2026-01-01', 12],
    ])
    assert.deepEqual(await sums('folder'), [
      ['team', 8],
      ['main', 7],
    ])
    assert.deepEqual(await sums('folder', on.cli, { limit: 1 }), [['team', 8]])
    assert.deepEqual(await sums('model', on.cli, { days: 1 }), [['big', 12]])
    assert.deepEqual(await sums('user_sub'), [
      ['', 7],
      ['github:1', 6],
      ['github:admin', 2],
    ])
    assert.deepEqual(await sums('folder', on.cli, { folder: 'main', days: 366 }), [['main', 107]])
    const admin = on.as(withSession('github:admin'), 'dash')
    assert.deepEqual(await sums('folder', admin), [
      ['team', 8],
      ['main', 2],
    ])
    await assert.rejects(sums('day', admin, { folder: 'main' }), isRefusal('forbidden'))
    assert.deepEqual(await sums('folder', on.as(withSession('github:1'), 'dash')), [
      ['main', 5],
      ['team', 1],
    ])
    assert.deepEqual(await sums('day', on.as(withSession('github:x'), 'dash')), [])
    const ofNoFolder = { by: 'day', since: '2025-01-01', limit: 10, folders: [] } as const
    assert.deepEqual(await on.host.engine.read((tx) => sumSpend(tx, ofNoFolder)), [])
    const ownDays = async (sub: string) => (await on.as(withSession(sub), 'dash').call(own, { days: 30 })).days
    assert.deepEqual(await ownDays('github:1'), [
      { day: '2025-12-31', cents: 1 },
      { day: '2026-01-01', cents: 5 },
    ])
    assert.deepEqual(await ownDays('github:x'), [])
    const stored = await on.host.engine.read((tx) => dailySpend.list(tx))
    await on.host.engine.transaction(async (tx) => {
      await run(tx, 'delete from daily_spend')
      await run(tx, String(dailySpend.storage[1]))
      assert.deepEqual(await dailySpend.list(tx), stored)
      await run(tx, 'delete from cost_log')
      assert.ok((await dailySpend.list(tx)).every(({ cents, turns }) => cents === 0 && turns === 0))
    })
  })

  test('that are near a cap are listed, the largest share first', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team', 'other')
    await on.grant('github:1', 'admin', 'team')
    await on.host.engine.transaction(async (tx) => {
      for (const folder of ['main', 'team', 'other'])
        await costLog.insert(tx, {
          ...{ folder, turn_id: folder, model: 'm', user_sub: 'github:1', input_tokens: 0, output_tokens: 0 },
          ...{ cost_cents: 80, recorded_at: '2026-01-01T00:00:00.000Z' },
        })
    })
    for (const [folder, daily] of Object.entries({ main: 100, team: 79, other: 101 }))
      await on.cli.call(groupsResource.verbs.set_budget, { folder, daily })
    await on.cli.call(usersResource.verbs.set_budget, { sub: 'github:1', daily: 250 })
    const near = async (caller = on.cli) =>
      (await caller.call(near_cap, {})).budgets.map(({ by, name, status }) => `${by} ${name} ${status}`)
    assert.deepEqual(await near(), ['folder team EXHAUSTED', 'person github:1 WARN', 'folder main WARN'])
    const admin = on.as(withSession('github:1'), 'dash')
    assert.deepEqual(await near(admin), ['folder team EXHAUSTED', 'person github:1 WARN'])
    assert.deepEqual(await near(on.as(withSession('github:x'), 'dash')), [])
  })
})
