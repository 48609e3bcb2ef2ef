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
  let position = 0
  const sync = new WalSync(store, {
    position: () => position,
    sync: () => {
      const running = Promise.withResolvers<void>()
      syncs.push(running)
      return running.promise
    },
  })
  t.after(() => sync.close())
  /** Of this process. */
  const commit = (): Promise<void> => {
    position++
    return sync.afterCommit()
  }
  /** Of another process. */
  const commitElsewhere = (): void => void position++
  return { sync, syncs, commit, commitElsewhere }
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

/** Whether the wait for the disk is over; undefined without one. */
function watch(waiting: Promise<void> | undefined): (() => boolean) | undefined {
  if (!waiting) return undefined
  let isOver = false
  void waiting.then(() => {
    isOver = true
  })
  return () => isOver
}

test('a read waits until all commits before it are on disk', async (t) => {
  const { sync, syncs, commit } = openManualSync(t)
  void commit()
  const first = watch(sync.beforeResult())
  void commit()
  const both = watch(sync.beforeResult())
  syncs[0]?.resolve()
  await until(() => syncs.length === 2)
  await turn()
  assert.deepEqual([first?.(), both?.()], [true, false])
  syncs[1]?.resolve()
  await until(() => both?.() === true)
  assert.equal(sync.beforeResult(), undefined)
  assert.equal(syncs.length, 2)
})

test('a read syncs a commit of another process that it may have seen, once', async (t) => {
  const { sync, syncs, commitElsewhere } = openManualSync(t)
  const before = watch(sync.beforeResult())
  assert.equal(syncs.length, 1, 'commits from before the start may not be on disk either')
  commitElsewhere()
  const after = watch(sync.beforeResult())
  syncs[0]?.resolve()
  await until(() => syncs.length === 2)
  assert.deepEqual([before?.(), after?.()], [true, false])
  syncs[1]?.resolve()
  await until(() => after?.() === true)
  assert.equal(sync.beforeResult(), undefined)
  commitElsewhere()
  assert.notEqual(sync.beforeResult(), undefined)
  syncs[2]?.resolve()
})

test('a read waits for a sync if the position of the log is unknown', async (t) => {
  const store = join(tempDir(t), 'svc.db')
  writeFileSync(`${store}-wal`, '')
  const sync = new WalSync(store, { position: () => undefined })
  t.after(() => sync.close())
  await sync.beforeResult()
  assert.notEqual(sync.beforeResult(), undefined)
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
