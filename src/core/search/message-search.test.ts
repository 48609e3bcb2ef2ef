import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { isRefusal, testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { openSearchHost } from '../../../test/support/search-host.ts'
import { fillUp, onSmallDisk } from '../../../test/support/small-disk.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { Refusal } from '../../lib/refusal.ts'
import { openSearchIndex } from './message-search.ts'

const CHILD = join(import.meta.dirname, '../../../test/support/search-child.ts')

test('a process that ends during an update closes the index and exits normally', async (t) => {
  const folder = tempDir(t)
  const path = join(folder, 'svc.db')
  const on = await testHost(t, 'sqlite', { path, create: true })
  await on.groups('main', 'team')
  await (await openSearchHost(t, 'sqlite', { on })).receive('something to find', { folder: 'team' })
  const { stdout } = await promisify(execFile)(process.execPath, [CHILD, path, folder])
  assert.equal(stdout, 'closed\n')
})

test('reports a full disk once and resumes when there is space', needs('root'), async (t) => {
  const on = await testHost(t)
  await on.groups('main', 'team')
  const { receiveAll } = await openSearchHost(t, 'sqlite', { on })
  await onSmallDisk(tempDir(t), 'tmpfs', async (root) => {
    const path = join(root, 'search.db')
    const errors: unknown[] = []
    const options = { retryMs: 20, onBackgroundError: (error: unknown) => errors.push(error) }
    const search = openSearchIndex(on.host.engine, path, options)
    try {
      assert.deepEqual(await search.search({ query: 'nothing', limit: 1 }), [])
      const ballast = fillUp(root, 32 * 1024)
      await receiveAll(Array.from({ length: 400 }, (_, at) => `word${at} ${'filler '.repeat(200)}`))
      let reads = 0
      const read = on.host.engine.read.bind(on.host.engine)
      t.mock.method(on.host.engine, 'read', (work: Parameters<typeof read>[0]) => {
        reads++
        return read(work)
      })
      search.follow(on.host.signals)
      await until(() => errors.length > 0 && reads > 10)
      assert.deepEqual(errors.map(String), [
        `Refusal: the search index at ${path} cannot be used: the disk is full; the index is updated again when there is space`,
      ])
      await assert.rejects(search.search({ query: 'word1', limit: 1 }), isRefusal('unavailable', 'cannot be used'))
      rmSync(ballast)
      await until(() => countDocuments(path) === 400)
      assert.equal((await search.search({ query: 'word399', limit: 9 })).length, 1)
      // A second full disk is reported again.
      fillUp(root, 32 * 1024)
      await receiveAll(Array.from({ length: 400 }, (_, at) => `more${at} ${'filler '.repeat(200)}`))
      on.host.signals.emit(['x'])
      await until(() => errors.length > 1)
    } finally {
      await search.close()
    }
    assert.ok(errors.every((error) => error instanceof Refusal))
  })
})

/** Counts the documents of the index without updating it. */
function countDocuments(path: string): unknown {
  using db = new DatabaseSync(path, { readOnly: true, timeout: 60_000 })
  return db.prepare('select count(*) as n from documents').get()?.n
}
