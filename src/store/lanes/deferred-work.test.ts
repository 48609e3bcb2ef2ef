import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { Tx } from '../engine.ts'
import { RunningTx } from '../running-transaction.ts'
import { SqliteConnection } from '../sqlite/connection.ts'
import { sqliteDialect } from '../sqlite/dialect.ts'
import { DeferredWork, TransactionWriteQueue } from './deferred-work.ts'
import type { DeferredResult, LaneHandler } from './lane.ts'

/** One that only counts its runs. The run that every one begins with has started. */
async function openCounted() {
  const counts = { runs: 0 }
  const tidying = new DeferredWork(async () => {
    counts.runs++
    return { isMore: false }
  })
  await until(() => counts.runs === 1)
  return { counts, tidying }
}

test('it begins with what an earlier process left, and goes on as long as there is more', async () => {
  let left = 3
  const tidying = new DeferredWork(async () => ({ isMore: --left > 0 }))
  await until(() => left === 0)
  await pause(20)
  assert.equal(left, 0)
  await tidying.close()
})

test('one at a time, and what is noted while it runs is done after it', async () => {
  let [running, runs] = [0, 0]
  const release: (() => void)[] = []
  const tidying = new DeferredWork(async () => {
    assert.equal(++running, 1)
    runs++
    await new Promise<void>((resolve) => release.push(resolve))
    running--
    return { isMore: false }
  })
  await until(() => runs === 1)
  tidying.schedule(1)
  tidying.schedule(60_000)
  await pause(10)
  assert.equal(runs, 1)
  release.shift()?.()
  await until(() => runs === 2)
  release.shift()?.()
  await tidying.close()
})

test('under load it is put off only so far', async () => {
  const { counts, tidying } = await openCounted()
  // Never a moment in which nobody waits.
  for (let time = 0; time < 1000 && counts.runs === 1; time++) tidying.schedule(100)
  assert.equal(counts.runs, 2)
  await tidying.close()
})

test('what failed is tried again', async () => {
  let runs = 0
  const tidying = new DeferredWork(async () => {
    if (runs++ === 0) throw new Error('busy')
    return { isMore: false }
  })
  await until(() => runs === 1)
  tidying.schedule(1)
  await until(() => runs === 2)
  await tidying.close()
})

test('closing waits for what runs, and nothing begins after', async () => {
  const release = Promise.withResolvers<void>()
  let runs = 0
  const tidying = new DeferredWork(async () => {
    runs++
    await release.promise
    return { isMore: true }
  })
  await until(() => runs === 1)
  let isClosed = false
  const closing = tidying.close().then(() => {
    isClosed = true
  })
  await pause(5)
  assert.ok(!isClosed)
  release.resolve()
  await closing
  tidying.schedule(60_000)
  await pause(10)
  assert.equal(runs, 1)
})

test('many items wait for a longer pause, unless somebody waits for what comes of them', async () => {
  const { counts, tidying } = await openCounted()
  tidying.schedule(100)
  await pause(8)
  assert.equal(counts.runs, 1)
  tidying.schedule(1, true)
  await until(() => counts.runs === 2)
  await tidying.close()
})

test('it waits while a batch is written, unless a sender waits for its result', async () => {
  const { counts, tidying } = await openCounted()
  const written = Promise.withResolvers<void>()
  const writing = tidying.pauseDuring(() => written.promise)
  tidying.schedule(1)
  await pause(10)
  assert.equal(counts.runs, 1)
  tidying.schedule(1, true)
  await until(() => counts.runs === 2)
  tidying.schedule(1)
  await pause(10)
  assert.equal(counts.runs, 2)
  written.reject(new Error('broken'))
  await assert.rejects(writing, /broken/)
  await until(() => counts.runs === 3)
  await tidying.close()
})

test('a batch that is written for long does not keep it waiting for ever', async () => {
  const { counts, tidying } = await openCounted()
  const written = Promise.withResolvers<void>()
  const writing = tidying.pauseDuring(() => written.promise)
  tidying.schedule(1)
  const started = performance.now()
  while (counts.runs === 1 && performance.now() - started < 10_000) {
    await pause(50)
    tidying.schedule(1)
  }
  assert.equal(counts.runs, 2)
  assert.ok(performance.now() - started > 1500)
  written.resolve()
  await writing
  await tidying.close()
})

test('a commit of which nobody knows whether it was one is told, and not tried again', async (t) => {
  const connection = new SqliteConnection(join(tempDir(t), 'a.db'))
  t.after(() => connection.close())
  let commits = 0
  const work = { ...noWork, run: async () => ['done'], isUrgent: () => true }
  const engine = {
    dialect: sqliteDialect,
    transaction: async <T>(run: (tx: Tx) => Promise<T>): Promise<T> => {
      const tx = new RunningTx(connection)
      const value = await run(tx)
      if (!isBroken) {
        tx.committed()
        return value
      }
      commits++
      throw new Error('the connection broke')
    },
  }
  let isBroken = false
  const tidied: DeferredResult[] = []
  const desk = new TransactionWriteQueue(work, engine, { onTidied: (what) => tidied.push(what) })
  await until(() => tidied.length === 1)
  isBroken = true
  await assert.rejects(desk.write(['one']), /broke/)
  assert.equal(commits, 1)
  await desk.close()
})

const noWork: LaneHandler<string, string> = {
  run: async () => [],
  runDeferred: async () => ({ isMore: false }),
  isUrgent: () => false,
  byteSize: () => 0,
  source: () => '',
}
