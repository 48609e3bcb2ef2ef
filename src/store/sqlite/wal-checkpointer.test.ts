import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { Engine } from '../engine.ts'
import { prepare, refusedAs, thing, things } from '../things.contract.ts'
import { openSqlite } from './engine.ts'
import { WalCheckpointer } from './wal-checkpointer.ts'

const MIB = 1024 * 1024

async function writeMiB(engine: Engine, name: string, count: number): Promise<void> {
  for (let at = 0; at < count; at++)
    await engine.transaction((tx) => things.insert(tx, thing(`${name}${at}`, { body: new Uint8Array(MIB) })))
}

test('keeps the log below 32 MiB under continuous writes', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  await Promise.all(['a', 'b', 'c'].map((name) => writeMiB(engine, name, 30)))
  assert.ok(statSync(`${path}-wal`).size < 32 * MIB, `${statSync(`${path}-wal`).size}`)
  assert.equal(await engine.read((tx) => things.count(tx)), 90)
  // The engine can be closed twice.
  await Promise.all([engine.close(), engine.close()])
  await engine.close()
})

test('lets the log grow while a reader uses it, and restarts it afterwards', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  const reader = new DatabaseSync(path)
  t.after(() => reader.close())
  await writeMiB(engine, 'before', 1)
  reader.exec('begin; select count(*) from things')
  await writeMiB(engine, 'a', 24)
  assert.ok(statSync(`${path}-wal`).size > 24 * MIB)
  reader.exec('commit')
  await writeMiB(engine, 'b', 10)
  const before = statSync(`${path}-wal`).size
  await writeMiB(engine, 'c', 14)
  assert.ok(statSync(`${path}-wal`).size <= before, 'the log was not restarted')
})

test('reports a failure if the thread cannot open the store, and does not block commits', async (t) => {
  const failures: unknown[] = []
  const checkpointer = new WalCheckpointer(
    { path: join(tempDir(t), 'missing', 'svc.db'), pageBytes: 4096, walPages: { pages: 5000, checkpointed: 0 } },
    (error) => failures.push(error),
  )
  await checkpointer.afterCommit()
  await until(() => failures.length === 1)
  assert.ok(refusedAs('unavailable', '')(failures[0]))
  assert.equal(checkpointer.afterCommit(), undefined)
  await checkpointer.close()
})
