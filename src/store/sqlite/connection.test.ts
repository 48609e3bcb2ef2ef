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

const REQUIRED = { journal_mode: 'wal', synchronous: 2, foreign_keys: 1, busy_timeout: 5, trusted_schema: 0 }

async function readPragmas(tx: Tx): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const name of Object.keys(REQUIRED)) {
    const { rows } = await run(tx, `pragma ${name}`)
    found[name] = Object.values(rows[0] ?? {})[0]
  }
  return found
}

test('sets the required pragmas on every connection', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  // WalSync syncs the commits of the writer.
  assert.deepEqual(await engine.transaction(readPragmas), { ...REQUIRED, synchronous: 1 })
  // Four reads at once use all four readers.
  const all = Promise.withResolvers<void>()
  let started = 0
  const reads = Array.from({ length: 4 }, () =>
    engine.read(async (tx) => {
      if (++started === 4) all.resolve()
      await all.promise
      return readPragmas(tx)
    }),
  )
  for (const found of await Promise.all(reads)) assert.deepEqual(found, REQUIRED)
})

test('refuses a connection that does not support them', (t) => {
  const memory = new SqliteConnection(':memory:')
  t.after(() => memory.close())
  assert.throws(
    () => memory.configure(),
    refusedAs('unavailable', 'does not support journal_mode = wal; it has memory'),
  )
})

test('takes the write lock at the start of a transaction', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  const other = new DatabaseSync(path)
  t.after(() => other.close())
  await engine.transaction(async () => {
    assert.throws(() => other.exec('begin immediate'), /locked/)
  })
  other.exec('begin immediate; rollback')
})

test('waits for the lock of another program until the timeout', async (t) => {
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

test('lets the event loop run during a long read', async (t) => {
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

test('stays usable with more statements than the cache keeps', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  await engine.transaction(async (tx) => {
    for (let index = 0; index < 1200; index++) {
      const { rows } = await run(tx, `select ${index} as n, open from things`)
      assert.equal(rows.length, 0)
    }
  })
})

test('creates files that only the owner can read', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const engine = await prepare(t, openSqlite({ path, create: true }))
  const copy = await engine.copy?.('copy')
  for (const file of [path, `${path}-wal`, `${path}-shm`, copy ?? assert.fail()])
    assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('refuses SQLite versions that can corrupt a file with two writers', () => {
  for (const version of ['3.51.3', '3.51.10', '3.52.0', '4.0.0']) requireSqliteVersion(version)
  for (const version of ['3.51.2', '3.50.9', '2.99.99', '3.9.3', '', '3.51'])
    assert.throws(() => requireSqliteVersion(version), refusedAs('unavailable', 'SQLite 3.51.3 or newer is needed'))
})
