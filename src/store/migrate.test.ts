import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { emptyStore, onEveryEngineQuickly } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { tempDir } from '../../test/support/temp.ts'
import type { Engine } from './engine.ts'
import { openEngine, type StoreAddress } from './index.ts'
import { countPendingSteps, hasSteps, migrate, type StoredTable } from './migrate.ts'
import { countSteps, FIRST_RELEASE, SECOND_RELEASE } from './schema-releases.contract.ts'
import { refusedAs } from './things.contract.ts'

const ROWS = 400
const NOW = (): string => '2026-01-01T00:00:00.000Z'
const CHILD = join(import.meta.dirname, '../../test/store-migrate-child.ts')

async function open(t: TestContext, address: StoreAddress): Promise<Engine> {
  const engine = await openEngine(address)
  t.after(() => engine.close())
  return engine
}

async function withEngine<T>(address: StoreAddress, work: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await openEngine(address)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}

/** A store of the first release, with rows. */
async function createFirstRelease(address: StoreAddress): Promise<void> {
  await withEngine(address, async (engine) => {
    await migrate(engine, FIRST_RELEASE, NOW)
    await engine.transaction(async (tx) => {
      for (let index = 0; index < ROWS; index++)
        await run(tx, 'insert into things (id, size, body) values ($1, $2, $3)', [`${index}`, index, 'x'.repeat(500)])
    })
  })
}

const DESCRIPTIONS: Record<string, string> = {
  sqlite: `select type, name, sql from sqlite_schema where name not like 'sqlite_%' order by name`,
  postgres: `select table_name || '.' || column_name || ' ' || data_type as what from information_schema.columns
    where table_schema = current_schema()
    union all select indexdef from pg_indexes where schemaname = current_schema()
    union all select tgname from pg_trigger where not tgisinternal
    union all select proname from pg_proc where pronamespace = current_schema()::regnamespace order by 1`,
}

/** Describes everything that a step of these releases can change. */
async function describe(engine: Engine): Promise<string> {
  return engine.read(async (tx) => {
    const schema = await run(tx, DESCRIPTIONS[engine.dialect.name] ?? assert.fail())
    const has = async (table: string) => (await run(tx, engine.dialect.findTableSql, [table])).rows.length > 0
    const contents: unknown[] = []
    if (await has('migrations'))
      contents.push((await run(tx, 'select name, step from migrations order by name, step')).rows)
    if (await has('things')) contents.push((await run(tx, 'select count(*) as n, sum(size) as size from things')).rows)
    if (await has('parts')) contents.push((await run(tx, 'select count(*) as n from parts')).rows)
    return JSON.stringify([schema.rows, contents], undefined, 1)
  })
}

function listCopies(address: StoreAddress): string[] {
  if (!('path' in address)) return []
  const directory = dirname(address.path)
  return readdirSync(directory)
    .filter((name) => name.includes('.before-'))
    .map((name) => join(directory, name))
}

onEveryEngineQuickly('migrations', (name) => {
  test('applies each step once', async (t) => {
    const address = await emptyStore(t, name)
    const engine = await open(t, address)
    assert.equal(await countPendingSteps(engine, FIRST_RELEASE), countSteps(FIRST_RELEASE))
    assert.equal(await migrate(engine, FIRST_RELEASE, NOW), countSteps(FIRST_RELEASE))
    const after = await describe(engine)
    assert.equal(await countPendingSteps(engine, FIRST_RELEASE), 0)
    assert.equal(await migrate(engine, FIRST_RELEASE, NOW), 0)
    assert.equal(await describe(engine), after)
    const { rows } = await engine.read((tx) => run(tx, 'select applied_at from migrations'))
    assert.deepEqual(new Set(rows.map(({ applied_at }) => applied_at)), new Set([NOW()]))
    assert.deepEqual(listCopies(address), [])
  })

  test('migrates an old store with its rows, after copying it', async (t) => {
    const address = await emptyStore(t, name)
    await createFirstRelease(address)
    const before = await withEngine(address, describe)
    const engine = await open(t, address)
    assert.equal(
      await countPendingSteps(engine, SECOND_RELEASE),
      countSteps(SECOND_RELEASE) - countSteps(FIRST_RELEASE),
    )
    assert.equal(await migrate(engine, SECOND_RELEASE, NOW), countSteps(SECOND_RELEASE) - countSteps(FIRST_RELEASE))
    const { rows } = await engine.read((tx) => run(tx, 'select count(*) as n from parts'))
    assert.equal(rows[0]?.n, ROWS)
    const copies = listCopies(address)
    assert.equal(copies.length, 'path' in address ? 1 : 0)
    for (const path of copies) {
      assert.equal(await withEngine({ path }, describe), before)
      const check = await withEngine({ path }, (copy) => copy.read((tx) => run(tx, 'pragma integrity_check')))
      assert.deepEqual(Object.values(check.rows[0] ?? {}), ['ok'])
      assert.equal(
        await withEngine({ path }, (copy) => migrate(copy, SECOND_RELEASE, NOW)),
        countSteps(SECOND_RELEASE) - countSteps(FIRST_RELEASE),
      )
    }
  })

  test('makes a migrated store equal to a new one', async (t) => {
    const [old, created] = [await emptyStore(t, name), await emptyStore(t, name)]
    await withEngine(old, (engine) => migrate(engine, FIRST_RELEASE, NOW))
    for (const address of [old, created]) await withEngine(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
    const [one, two] = [await withEngine(old, describe), await withEngine(created, describe)]
    // SQLite keeps the text of `create table`, so white space may differ.
    const plain = (text: string): string => text.replace(/\\n\s*/g, ' ')
    assert.equal(plain(one), plain(two))
  })

  test('applies each step once if several processes migrate at the same time', async (t) => {
    const address = await emptyStore(t, name)
    const together = async (tables: readonly StoredTable[]): Promise<number> => {
      const engines = await Promise.all(Array.from({ length: 6 }, () => open(t, address)))
      const counts = await Promise.all(engines.map((engine) => migrate(engine, tables, NOW)))
      for (const engine of engines) assert.equal(await countPendingSteps(engine, tables), 0)
      return counts.reduce((sum, count) => sum + count, 0)
    }
    assert.equal(await together(FIRST_RELEASE), countSteps(FIRST_RELEASE))
    const before = await withEngine(address, describe)
    assert.equal(await together(SECOND_RELEASE), countSteps(SECOND_RELEASE) - countSteps(FIRST_RELEASE))
    // Only the process that migrated keeps its copy; the others may have copied the migrated store.
    const copies = listCopies(address)
    assert.equal(copies.length, 'path' in address ? 1 : 0)
    for (const path of copies) assert.equal(await withEngine({ path }, describe), before)
  })

  test('handles an old and a new version that migrate at the same time', async (t) => {
    for (let time = 0; time < 5; time++) {
      const address = await emptyStore(t, name)
      const [oldEngine, newEngine] = await Promise.all([open(t, address), open(t, address)])
      const [first, second] = await Promise.allSettled([
        migrate(oldEngine, FIRST_RELEASE, NOW),
        migrate(newEngine, SECOND_RELEASE, NOW),
      ])
      assert.equal(second.status, 'fulfilled')
      if (first.status === 'rejected') assert.ok(refusedAs('unavailable', 'newer')(first.reason))
      assert.equal(await countPendingSteps(newEngine, SECOND_RELEASE), 0)
    }
  })

  test('refuses a store of a newer version without changing it', async (t) => {
    const address = await emptyStore(t, name)
    await withEngine(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
    const readState = async () => ('path' in address ? readFileSync(address.path) : await withEngine(address, describe))
    const before = await readState()
    for (const older of [FIRST_RELEASE, SECOND_RELEASE.slice(0, 2), []]) {
      await withEngine(address, async (engine) => {
        await assert.rejects(migrate(engine, older, NOW), refusedAs('unavailable', 'newer svc'))
        await assert.rejects(countPendingSteps(engine, older), refusedAs('unavailable', 'newer svc'))
      })
    }
    assert.deepEqual(await readState(), before)
    assert.deepEqual(listCopies(address), [])
  })

  test('rolls back all steps if one fails, and keeps no copy', async (t) => {
    const address = await emptyStore(t, name)
    await createFirstRelease(address)
    const before = await withEngine(address, describe)
    const wrong: StoredTable = {
      name: 'wrong',
      storage: ['create table fine (id text)', 'insert into nowhere (id) values (1)'],
    }
    for (let time = 0; time < 3; time++) {
      await withEngine(address, async (engine) => {
        await assert.rejects(migrate(engine, [...SECOND_RELEASE, wrong], NOW), /nowhere/)
        assert.equal(await describe(engine), before)
      })
    }
    assert.deepEqual(listCopies(address), [])
    await withEngine(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
  })

  test('refuses a step of more than one statement', async (t) => {
    const engine = await open(t, await emptyStore(t, name))
    const double: StoredTable = { name: 'double', storage: ['create table a (id text); create table b (id text)'] }
    await assert.rejects(migrate(engine, [double], NOW), Error)
    const { rows } = await engine.read((tx) => run(tx, engine.dialect.findTableSql, ['a']))
    assert.deepEqual(rows, [])
  })

  for (const start of ['new', 'old'] as const) {
    test(`leaves the ${start} store unchanged when killed at any statement, and migrates it at the next start`, async (t) => {
      const createStore = await storeFactory(t, name, start)
      const total = Number(await runChild(await createStore()))
      assert.ok(total > 10)
      const done = await createStore()
      await runChild(done)
      const outcomes = {
        before: await withEngine(await createStore(), describe),
        after: await withEngine(done, describe),
      }
      const points = Array.from({ length: total }, (_, index) => index + 1)
      const attempt = async (): Promise<void> => {
        for (let at = points.shift(); at !== undefined; at = points.shift()) {
          const address = await createStore()
          assert.equal(await runChild(address, at), 'SIGKILL')
          const left = await withEngine(address, describe)
          assert.equal(left, outcomes.before, `killed at ${at}`)
          await withEngine(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
          assert.equal(await withEngine(address, describe), outcomes.after, `started again after ${at}`)
        }
      }
      await Promise.all([attempt(), attempt()])
    })
  }
})

/** Returns a function that creates stores. */
async function storeFactory(
  t: TestContext,
  name: 'sqlite' | 'postgres',
  start: 'new' | 'old',
): Promise<() => Promise<StoreAddress>> {
  const fixture = await emptyStore(t, 'sqlite')
  if (name === 'sqlite' && start === 'old') await createFirstRelease(fixture)
  return async () => {
    if (name === 'postgres') {
      const address = await emptyStore(t, name)
      if (start === 'old') await createFirstRelease(address)
      return address
    }
    const address = { path: join(tempDir(t), 'svc.db'), create: true }
    if ('path' in fixture && existsSync(fixture.path)) copyFileSync(fixture.path, address.path)
    return address
  }
}

/** Returns the output of the process, or the signal that ended it. */
async function runChild(address: StoreAddress, at?: number): Promise<string> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(address), ...(at ? [String(at)] : [])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += String(chunk)
  })
  const [, signal] = await once(child, 'close')
  return signal ?? output
}

onEveryEngineQuickly('hasSteps', (engine) => {
  test('requires exactly these steps and no other table', async (t) => {
    const store = await open(t, await emptyStore(t, engine))
    assert.equal(await hasSteps(store, {}), false)
    await migrate(store, FIRST_RELEASE, NOW)
    const counts = Object.fromEntries(FIRST_RELEASE.map(({ name, storage }) => [name, storage.length]))
    assert.equal(await hasSteps(store, counts), true)
    const [name = '', count = 0] = Object.entries(counts)[0] ?? []
    assert.equal(await hasSteps(store, { ...counts, [name]: count + 1 }), false)
    assert.equal(await hasSteps(store, { ...counts, [name]: count - 1 }), false)
    assert.equal(await hasSteps(store, { ...counts, other: 1 }), false)
  })
})
