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

/** Syncs that end when they are told to. */
function rig(t: TestContext) {
  const store = join(tempDir(t), 'svc.db')
  writeFileSync(`${store}-wal`, '')
  const syncs: PromiseWithResolvers<void>[] = []
  const sync = new WalSync(store, () => {
    const asked = Promise.withResolvers<void>()
    syncs.push(asked)
    return asked.promise
  })
  t.after(() => sync.close())
  return { sync, syncs }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a commit that is made while a sync runs waits for the next one, which it shares', async (t) => {
  const { sync, syncs } = rig(t)
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

test('what is pending covers every commit so far, and nothing is pending when all is on the disk', async (t) => {
  const { sync, syncs } = rig(t)
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

test('after a sync that failed no commit is ever called durable again', async (t) => {
  const { sync, syncs } = rig(t)
  const first = sync.afterCommit()
  const second = sync.afterCommit()
  syncs[0]?.reject(new Error('EIO'))
  await assert.rejects(first, /EIO/)
  await assert.rejects(second, /EIO/)
  await assert.rejects(sync.afterCommit(), /EIO/)
  assert.equal(syncs.length, 1)
})

test('a transaction and a read that saw it are answered after the sync, which the next batch does not wait for', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const syncs: PromiseWithResolvers<void>[] = []
  let isHeld = false
  const engine = await prepare(
    t,
    openSqlite({
      path,
      create: true,
      sync: () => {
        const asked = Promise.withResolvers<void>()
        if (isHeld) syncs.push(asked)
        else asked.resolve()
        return asked.promise
      },
    }),
  )
  isHeld = true
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
  isHeld = false
  syncs[0]?.resolve()
  await until(() => done.length === 4)
  assert.deepEqual(done.slice(1, 2), ['a'])
  assert.ok((await seen) >= 1)
})

test('a sync that fails refuses what was committed, and the store is failed', async (t) => {
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
  assert.ok(refusedAs('unavailable', 'answered with an error')(await engine.failed))
})
