import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { tempDir } from '../../test/support/temp.ts'
import { until } from '../../test/support/until.ts'
import type { Tx } from './engine.ts'
import type { Tidied, Work } from './lane.ts'
import { RunningTx } from './running.ts'
import { Connection } from './sqlite/connection.ts'
import { sqliteDialect } from './sqlite/dialect.ts'
import { Tidying, writeBatch } from './tidying.ts'

function open(tidy: () => Promise<Tidied>) {
  const told: Tidied[] = []
  return { told, tidying: new Tidying(tidy, (tidied) => told.push(tidied)) }
}

test('it begins with what an earlier process left, and goes on as long as there is more', async () => {
  let left = 3
  const { told, tidying } = open(async () => ({ isMore: --left > 0 }))
  await until(() => told.length === 3)
  await pause(20)
  assert.equal(told.length, 3)
  await tidying.close()
})

test('one at a time, and what is noted while it runs is done after it', async () => {
  let [running, runs] = [0, 0]
  const release: (() => void)[] = []
  const { tidying } = open(async () => {
    assert.equal(++running, 1)
    runs++
    await new Promise<void>((resolve) => release.push(resolve))
    running--
    return { isMore: false }
  })
  await until(() => runs === 1)
  tidying.note(1)
  tidying.note(60_000)
  await pause(10)
  assert.equal(runs, 1)
  release.shift()?.()
  await until(() => runs === 2)
  release.shift()?.()
  await tidying.close()
})

test('under load it is put off only so far', async () => {
  let runs = 0
  const { tidying } = open(async () => {
    runs++
    return { isMore: false }
  })
  await until(() => runs === 1)
  // Never a moment in which nobody waits.
  for (let time = 0; time < 1000 && runs === 1; time++) tidying.note(100)
  assert.equal(runs, 2)
  await tidying.close()
})

test('a failure is not told, and is tried again', async () => {
  let runs = 0
  const { told, tidying } = open(async () => {
    if (runs++ === 0) throw new Error('busy')
    return { isMore: false }
  })
  await until(() => runs === 1)
  tidying.note(1)
  await until(() => told.length === 1)
  await tidying.close()
})

test('closing waits for what runs, and nothing begins after', async () => {
  const release = Promise.withResolvers<void>()
  let runs = 0
  const { tidying } = open(async () => {
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
  tidying.note(60_000)
  await pause(10)
  assert.equal(runs, 1)
})

test('many items wait for a longer pause, unless somebody waits for what comes of them', async () => {
  let runs = 0
  const { tidying } = open(async () => {
    runs++
    return { isMore: false }
  })
  await until(() => runs === 1)
  tidying.note(100)
  await pause(8)
  assert.equal(runs, 1)
  tidying.note(1, true)
  await until(() => runs === 2)
  await tidying.close()
})

test('a commit of which nobody knows whether it was one is told, and not tried again', async (t) => {
  const connection = new Connection(join(tempDir(t), 'a.db'))
  t.after(() => connection.close())
  const { tidying, told } = open(async () => ({ isMore: false }))
  await until(() => told.length === 1)
  let commits = 0
  const work = { ...noWork, run: async () => ['done'], isUrgent: () => true }
  const write = async <T>(run: (tx: Tx) => Promise<T>): Promise<T> => {
    await run(new RunningTx(connection))
    commits++
    throw new Error('the connection broke')
  }
  await assert.rejects(writeBatch(tidying, { work, items: ['one'], dialect: sqliteDialect, write }), /broke/)
  assert.equal(commits, 1)
  await tidying.close()
})

const noWork: Work<string, string> = {
  module: '',
  run: async () => [],
  tidy: async () => ({ isMore: false }),
  pack: () => ({ values: [], bytes: new Uint8Array() }),
  unpack: () => [],
  isUrgent: () => false,
  weigh: () => 0,
  source: () => '',
}
