import assert from 'node:assert/strict'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { engineContract } from '../engine.contract.ts'
import { noteHandler } from '../lanes/notes.contract.ts'
import { openLane } from '../lanes/transaction-lane.ts'
import { listenContract } from '../listen.contract.ts'
import { entries, prepare } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

engineContract('SQLite', (t) => prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true })))

suite('a full lane on SQLite', () => {
  test('lets other transactions run after at most one batch', async (t) => {
    const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
    let batches = 0
    const counted: typeof noteHandler = {
      ...noteHandler,
      run: (tx, dialect, items) => {
        batches++
        return noteHandler.run(tx, dialect, items)
      },
    }
    const lane = openLane(engine, counted, { limits: { batchItems: 8, queueItems: 64, waitMs: 300_000 } })
    let isOver = false
    const flood = Array.from({ length: 64 }, async (_, at) => {
      while (!isOver) await lane.push({ source: `${at % 3}`, text: `${at}`, bytes: 10 })
    })
    await until(() => batches > 10)
    const waited: number[] = []
    for (let turn = 0; turn < 100; turn++) {
      // Vary the moment: just after a commit the queue is empty.
      for (let step = 0; step < turn % 7; step++) await new Promise(setImmediate)
      const before = batches
      await engine.transaction(async (tx) => {
        waited.push(batches - before)
        await entries.insertReturning(tx, { name: `turn ${turn}` })
      })
    }
    isOver = true
    await Promise.all(flood)
    await lane.close()
    assert.ok(Math.max(...waited) <= 1, waited.join())
    // The lane was not starved meanwhile.
    assert.ok(batches > 50, `${batches}`)
  })
})

suite('listening on SQLite', () => {
  listenContract(async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const one = await prepare(t, openSqlite({ path, create: true }))
    return [one, await prepare(t, openSqlite({ path }))]
  })
})
