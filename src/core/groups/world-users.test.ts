import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { findWorldOrdinal, worldUsers } from './world-users.ts'

onEveryEngine('numbers of worlds', (engine) => {
  test('are consecutive, unique and stable, also if many processes choose at once', async (t) => {
    const store = await freshStore(t, engine)
    const hosts = [(await testHost(t, engine, store)).host, (await testHost(t, engine, store)).host] as const
    const [host] = hosts
    assert.equal(await findWorldOrdinal(host.engine, 'main'), 0)
    const names = Array.from({ length: 20 }, (_, at) => `w${at % 10}`)
    const found = await Promise.all(
      names.map((world, at) => findWorldOrdinal(hosts[at % 2 === 0 ? 0 : 1].engine, world)),
    )
    assert.deepEqual(
      [...new Set(found)].sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )
    assert.deepEqual(found.slice(0, 10), found.slice(10))
    assert.equal(await findWorldOrdinal(host.engine, 'main'), 0)
    assert.equal((await host.engine.read((tx) => worldUsers.list(tx))).length, 11)
  })
})
