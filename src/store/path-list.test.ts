import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import { listPaths } from './path-list.ts'

onEveryEngine('paths of a column', (engine) => {
  test('are those of the roots and below them, unless they are too many', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'a', 'a/b', 'a/b/c', 'a-b', 'a0', 'b')
    const list = (roots: readonly string[], max = 10) =>
      on.host.engine.read((tx) => listPaths(tx, { table: 'groups', column: 'folder', roots, max }))
    assert.deepEqual(await list(['a']), ['a', 'a/b', 'a/b/c'])
    assert.deepEqual(await list(['a'], 3), ['a', 'a/b', 'a/b/c'])
    assert.equal(await list(['a'], 2), undefined)
    assert.deepEqual(await list(['a/b', 'b', 'a']), ['a/b', 'a/b/c', 'b', 'a'])
    assert.deepEqual(await list(['a', 'none'], 3), ['a', 'a/b', 'a/b/c'])
    assert.deepEqual([await list([]), await list(['none'])], [[], []])
  })
})
