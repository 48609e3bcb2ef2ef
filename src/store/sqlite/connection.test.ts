import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { run } from '../../../test/support/sql.ts'
import { tempDir } from '../../../test/support/temp.ts'
import type { Tx } from '../engine.ts'
import { prepare, refusedAs, thing, things } from '../things.contract.ts'
import { SqliteConnection } from './connection.ts'
import { openSqlite, requireSqliteVersion } from './engine.ts'

const HELD = { journal_mode: 'wal', synchronous: 2, foreign_keys: 1, busy_timeout: 5, trusted_schema: 0 }

async function pragmas(tx: Tx): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(HELD)) {
    const { rows } = await run(tx, `pragma ${name}`)
    found[name] = Object.values(rows[0] ?? {})[0]
  }
  return found
}

test('what durability rests on holds on every connection', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  // The writer's commits are synced by LogSync before anybody is told of them.
  assert.deepEqual(await engine.transaction(pragmas), { ...HELD, synchronous: 1 })
  // As many at once as there are readers: each must be another one.
  const all = Promise.withResolvers<void>()
  let here = 0
  const reads = Array.from({ length: 4 }, () =>
    engine.read(async (tx) => {
      if (++here === 4) all.resolve()
      await all.promise
      return pragmas(tx)
    }),
  )
  for (const found of await Promise.all(reads)) assert.deepEqual(found, HELD)
})

test('a connection that cannot have them is refused', (t) => {
  const memory = new SqliteConnection(':memory:')
  t.after(() => memory.close())
  assert.throws(() => memory.configure(), refusedAs('unavailable', 'cannot have journal_mode = wal; it has memory'))
})

test('a transaction has the write lock from its start, before it writes', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  const other = new DatabaseSync(path)
  t.after(() => other.close())
  await engine.transaction(async () => {
    assert.throws(() => other.exec('begin immediate'), /locked/)
  })
  other.exec('begin immediate; rollback')
})

test('a write waits for another program, and when that takes too long it says so', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true, busyMs: 200 }))
  const other = new DatabaseSync(path)
  t.after(() => other.close())
  other.exec('begin immediate')
  await assert.rejects(
    engine.transaction((tx) => things.insert(tx, thing('a'))),
    (error) =>
      refusedAs('unavailable', 'busy')(error) &&
      error instanceof Error &&
      'hint' in error &&
      error.hint === 'try again in a moment',
  )
  assert.equal(await engine.read((tx) => things.count(tx)), 0)
  const patient = await prepare(t, openSqlite({ path }))
  const waiting = patient.transaction((tx) => things.insert(tx, thing('b')))
  setTimeout(() => other.exec('commit'), 50)
  await waiting
})

test('a long read lets others have their turn', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  let turns = 0
  const count = (): void => {
    turns++
    turn = setImmediate(count)
  }
  let turn = setImmediate(count)
  const started = performance.now()
  await engine.read(async (tx) => {
    while (turns < 4 && performance.now() - started < 10_000) await things.count(tx)
  })
  clearImmediate(turn)
  assert.equal(turns, 4)
})

test('statements are kept only so many', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  await engine.transaction(async (tx) => {
    for (let index = 0; index < 1200; index++) {
      const { rows } = await run(tx, `select ${index} as n, open from things`)
      assert.equal(rows.length, 0)
    }
  })
})

test('only the owner can read the store and what lies beside it', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  const copy = await engine.copy?.('copy')
  for (const file of [path, `${path}-wal`, `${path}-shm`, copy ?? assert.fail()])
    assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('a SQLite that can damage a file which two processes write is refused', () => {
  for (const version of ['3.51.3', '3.51.10', '3.52.0', '4.0.0']) requireSqliteVersion(version)
  for (const version of ['3.51.2', '3.50.9', '2.99.99', '3.9.3', '', '3.51'])
    assert.throws(() => requireSqliteVersion(version), refusedAs('unavailable', 'SQLite 3.51.3 or newer is needed'))
})
