import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { addLink } from '../../../test/support/rows.ts'
import { addLinkStats, linkStats } from './link-stats.ts'
import { routeTokens } from './route-tokens.ts'

onEveryEngine('the statistics of links', (engine) => {
  test('sum up by reason and keep the latest use', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const token_hash = Buffer.from(await addLink(on, 'web:main'), 'latin1')
    const add = (last_used_at: string, accepted: number, refused: Record<string, number>) =>
      on.host.engine.transaction((tx) =>
        addLinkStats(tx, on.host.engine.dialect, [{ token_hash, last_used_at, accepted, refused }]),
      )
    await add('2026-01-02T00:00:00.000Z', 2, { rate_limited: 1 })
    await add('2026-01-01T00:00:00.000Z', 1, { rate_limited: 2, invalid: 1 })
    const stats = await on.host.engine.read((tx) => linkStats.find(tx, { token_hash }))
    assert.deepEqual(
      [stats?.last_used_at, stats?.accepted, stats?.refused],
      ['2026-01-02T00:00:00.000Z', 3, { rate_limited: 3, invalid: 1 }],
    )
  })

  test('are not recorded for a revoked link', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    const token_hash = Buffer.from(await addLink(on, 'web:main'), 'latin1')
    const counted = { token_hash, last_used_at: '2026-01-01T00:00:00.000Z', accepted: 1, refused: {} }
    await on.host.engine.transaction((tx) => addLinkStats(tx, on.host.engine.dialect, [counted]))
    await on.host.engine.transaction((tx) => routeTokens.remove(tx, { jid: 'web:main' }))
    await on.host.engine.transaction((tx) => addLinkStats(tx, on.host.engine.dialect, [counted]))
    assert.equal(await on.host.engine.read((tx) => linkStats.count(tx)), 0)
  })
})
