import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { run } from '../../../test/support/sql.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { prepare, refusedAs, thing, things } from '../things.contract.ts'
import { openSqlite } from './engine.ts'
import { WalSync } from './wal-sync.ts'

/** Syncs that the test ends. */
function openManualSync(t: TestContext) {
  const store = join(tempDir(t), 'svc.db')
  writeFileSync(`${store}-wal`, '')
  const syncs: PromiseWithResolvers<void>[] = []
  const sync = new WalSync(store, () => {
    const running = Promise.withResolvers<void>()
    syncs.push(running)
    return running.promise
  })
  t.after(() => sync.close())
  return { sync, syncs }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('shares the next sync between commits made during a sync', async (t) => {
  const { sync, syncs } = openManualSync(t)
  const done: string[] = []
  void sync.afterCommit().then(() => done.push('first'))
  void sync.afterCommit().then(() => done.push('second'))
  void sync.afterCommit().then(() => done.push('third'))
  assert.equal(syncs.length, 1)
  syncs[0]?.resolve()
  await until(() => syncs.length === 2)
  assert.deepEqual(done, ['first'])
  syncs[1]?.resolve()
  await until(() => done.length === 3)
  assert.equal(syncs.length, 2)
})

test('is pending until all commits are on disk', async (t) => {
  const { sync, syncs } = openManualSync(t)
  const pending = (): Promise<void> | undefined => sync.pending
  assert.equal(pending(), undefined)
  void sync.afterCommit()
  void sync.afterCommit()
  let isOver = false
  void pending()?.then(() => {
    isOver = true
  })
  syncs[0]?.resolve()
  await until(() => syncs.length === 2)
  await turn()
  assert.ok(!isOver)
  syncs[1]?.resolve()
  await until(() => isOver)
  assert.equal(pending(), undefined)
})

test('fails all commits after a failed sync', async (t) => {
  const { sync, syncs } = openManualSync(t)
  const first = sync.afterCommit()
  const second = sync.afterCommit()
  syncs[0]?.reject(new Error('EIO'))
  await assert.rejects(first, /EIO/)
  await assert.rejects(second, /EIO/)
  await assert.rejects(sync.afterCommit(), /EIO/)
  assert.equal(syncs.length, 1)
})

test('answers a transaction and a read that saw it after the sync, without delaying the next batch', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const syncs: PromiseWithResolvers<void>[] = []
  let isManual = false
  const engine = await prepare(
    t,
    openSqlite({
      path,
      create: true,
      sync: () => {
        const running = Promise.withResolvers<void>()
        if (isManual) syncs.push(running)
        else running.resolve()
        return running.promise
      },
    }),
  )
  isManual = true
  const done: string[] = []
  const first = engine.transaction((tx) => {
    tx.onCommit(() => done.push('committed'))
    return things.insert(tx, thing('a'))
  })
  void first.then(() => done.push('a'))
  await until(() => syncs.length === 1)
  void engine.transaction((tx) => things.insert(tx, thing('b'))).then(() => done.push('b'))
  const seen = engine.read(async (tx) => (await run(tx, 'select id from things')).rows.length)
  void seen.then(() => done.push('read'))
  for (let turns = 0; turns < 20; turns++) await turn()
  assert.deepEqual(done, ['committed'])
  isManual = false
  syncs[0]?.resolve()
  await until(() => done.length === 4)
  assert.deepEqual(done.slice(1, 2), ['a'])
  assert.ok((await seen) >= 1)
})

test('refuses transactions whose sync fails, and reports a failed store', async (t) => {
  let isBroken = false
  const engine = await prepare(
    t,
    openSqlite({
      path: join(tempDir(t), 'svc.db'),
      create: true,
      sync: async () => {
        if (isBroken) throw Object.assign(new Error('EIO: i/o error'), { code: 'EIO' })
      },
    }),
  )
  await engine.transaction((tx) => things.insert(tx, thing('a')))
  isBroken = true
  const insert = engine.transaction((tx) => things.insert(tx, thing('b')))
  await assert.rejects(insert, refusedAs('unavailable', 'the last changes may be lost'))
  assert.ok(refusedAs('unavailable', 'reported an error')(await engine.failed))
})
