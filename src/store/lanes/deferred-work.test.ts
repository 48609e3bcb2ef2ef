import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Tx } from '../engine.ts'
import { RunningTx } from '../running-transaction.ts'
import { SqliteConnection } from '../sqlite/connection.ts'
import { sqliteDialect } from '../sqlite/dialect.ts'
import { DeferredWork } from './deferred-work.ts'
import type { DeferredResult, LaneHandler } from './lane.ts'
import { TransactionWriteQueue } from './transaction-lane.ts'

/** Counts its runs. The first run, which looks for work of an earlier process, has started. */
async function openCounted() {
  const counts = { runs: 0 }
  const deferred = new DeferredWork(async () => {
    counts.runs++
    return { isMore: false }
  })
  await until(() => counts.runs === 1)
  return { counts, deferred }
}

test('starts with the work of an earlier process and continues while more is left', async () => {
  let left = 3
  const deferred = new DeferredWork(async () => ({ isMore: --left > 0 }))
  await until(() => left === 0)
  await pause(20)
  assert.equal(left, 0)
  await deferred.close()
})

test('runs one piece at a time, and work scheduled meanwhile afterwards', async () => {
  let [running, runs] = [0, 0]
  const release: (() => void)[] = []
  const deferred = new DeferredWork(async () => {
    assert.equal(++running, 1)
    runs++
    await new Promise<void>((resolve) => release.push(resolve))
    running--
    return { isMore: false }
  })
  await until(() => runs === 1)
  deferred.schedule(1)
  deferred.schedule(60_000)
  await pause(10)
  assert.equal(runs, 1)
  release.shift()?.()
  await until(() => runs === 2)
  release.shift()?.()
  await deferred.close()
})

test('runs at the latest after 50,000 items', async () => {
  const { counts, deferred } = await openCounted()
  // Without a pause between the calls.
  for (let time = 0; time < 1000 && counts.runs === 1; time++) deferred.schedule(100)
  assert.equal(counts.runs, 2)
  await deferred.close()
})

test('retries after an error, and reports it unless it is a refusal', async () => {
  const errors = [new Refusal('unavailable', 'busy'), new Error('odd row')]
  const reported: unknown[] = []
  let runs = 0
  const runPiece = async (): Promise<DeferredResult> => {
    const error = errors[runs++]
    if (error) throw error
    return { isMore: false }
  }
  const deferred = new DeferredWork(runPiece, (error) => reported.push(error))
  for (const count of [1, 2, 3]) {
    await until(() => runs === count)
    deferred.schedule(1)
  }
  assert.deepEqual(reported, [errors[1]])
  await deferred.close()
})

test('waits for the running piece on close and starts no other', async () => {
  const release = Promise.withResolvers<void>()
  let runs = 0
  const deferred = new DeferredWork(async () => {
    runs++
    await release.promise
    return { isMore: true }
  })
  await until(() => runs === 1)
  let isClosed = false
  const closing = deferred.close().then(() => {
    isClosed = true
  })
  await pause(5)
  assert.ok(!isClosed)
  release.resolve()
  await closing
  deferred.schedule(60_000)
  await pause(10)
  assert.equal(runs, 1)
})

test('waits longer with many items, unless one is urgent', async () => {
  const { counts, deferred } = await openCounted()
  deferred.schedule(100)
  await pause(8)
  assert.equal(counts.runs, 1)
  deferred.schedule(1, true)
  await until(() => counts.runs === 2)
  await deferred.close()
})

test('waits while a batch is being written, unless an item is urgent', async () => {
  const { counts, deferred } = await openCounted()
  const written = Promise.withResolvers<void>()
  const writing = deferred.pauseDuring(() => written.promise)
  deferred.schedule(1)
  await pause(10)
  assert.equal(counts.runs, 1)
  deferred.schedule(1, true)
  await until(() => counts.runs === 2)
  deferred.schedule(1)
  await pause(10)
  assert.equal(counts.runs, 2)
  written.reject(new Error('broken'))
  await assert.rejects(writing, /broken/)
  await until(() => counts.runs === 3)
  await deferred.close()
})

test('runs at the latest after 2 s, even during a long write', async () => {
  const { counts, deferred } = await openCounted()
  const written = Promise.withResolvers<void>()
  const writing = deferred.pauseDuring(() => written.promise)
  deferred.schedule(1)
  const started = performance.now()
  while (counts.runs === 1 && performance.now() - started < 10_000) {
    await pause(50)
    deferred.schedule(1)
  }
  assert.equal(counts.runs, 2)
  assert.ok(performance.now() - started > 1500)
  written.resolve()
  await writing
  await deferred.close()
})

test('reports a commit with an unknown outcome and does not retry it', async (t) => {
  const connection = new SqliteConnection(join(tempDir(t), 'a.db'))
  t.after(() => connection.close())
  let commits = 0
  const handler = { ...idleHandler, run: async () => ['done'], isUrgent: () => true }
  const engine = {
    dialect: sqliteDialect,
    transaction: async <T>(run: (tx: Tx) => Promise<T>): Promise<T> => {
      const tx = new RunningTx(connection)
      const value = await run(tx)
      if (!isBroken) {
        tx.notifyCommitted()
        return value
      }
      commits++
      throw new Error('the connection broke')
    },
  }
  let isBroken = false
  const results: DeferredResult[] = []
  const queue = new TransactionWriteQueue(handler, engine, { onDeferredCommit: (result) => results.push(result) })
  await until(() => results.length === 1)
  isBroken = true
  await assert.rejects(queue.write(['one']), /broke/)
  assert.equal(commits, 1)
  await queue.close()
})

const idleHandler: LaneHandler<string, string> = {
  run: async () => [],
  runDeferred: async () => ({ isMore: false }),
  isUrgent: () => false,
  byteSize: () => 0,
  source: () => '',
}
