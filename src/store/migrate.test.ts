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
import { FIRST, SECOND_RELEASE, stepCount } from './schema-releases.contract.ts'
import { refusedAs } from './things.contract.ts'

const ROWS = 400
const NOW = (): string => '2026-01-01T00:00:00.000Z'
const CHILD = join(import.meta.dirname, '../../test/store-migrate-child.ts')

async function open(t: TestContext, address: StoreAddress): Promise<Engine> {
  const engine = await openEngine(address)
  t.after(() => engine.close())
  return engine
}

async function using<T>(address: StoreAddress, work: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await openEngine(address)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}

/** A store of the first release, with rows. */
async function makeFirst(address: StoreAddress): Promise<void> {
  await using(address, async (engine) => {
    await migrate(engine, FIRST, NOW)
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

/** Everything that a step of these releases can change. */
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

function copiesOf(address: StoreAddress): string[] {
  if (!('path' in address)) return []
  const folder = dirname(address.path)
  return readdirSync(folder)
    .filter((name) => name.includes('.before-'))
    .map((name) => join(folder, name))
}

onEveryEngineQuickly('migrations', (name) => {
  test('every step is applied once, and nothing is done when nothing is left to do', async (t) => {
    const address = await emptyStore(t, name)
    const engine = await open(t, address)
    assert.equal(await countPendingSteps(engine, FIRST), stepCount(FIRST))
    assert.equal(await migrate(engine, FIRST, NOW), stepCount(FIRST))
    const after = await describe(engine)
    assert.equal(await countPendingSteps(engine, FIRST), 0)
    assert.equal(await migrate(engine, FIRST, NOW), 0)
    assert.equal(await describe(engine), after)
    const { rows } = await engine.read((tx) => run(tx, 'select applied_at from migrations'))
    assert.deepEqual(new Set(rows.map(({ applied_at }) => applied_at)), new Set([NOW()]))
    assert.deepEqual(copiesOf(address), [])
  })

  test('an old store grows, its rows with it, after a copy was made of it', async (t) => {
    const address = await emptyStore(t, name)
    await makeFirst(address)
    const before = await using(address, describe)
    const engine = await open(t, address)
    assert.equal(await countPendingSteps(engine, SECOND_RELEASE), stepCount(SECOND_RELEASE) - stepCount(FIRST))
    assert.equal(await migrate(engine, SECOND_RELEASE, NOW), stepCount(SECOND_RELEASE) - stepCount(FIRST))
    const { rows } = await engine.read((tx) => run(tx, 'select count(*) as n from parts'))
    assert.equal(rows[0]?.n, ROWS)
    const copies = copiesOf(address)
    assert.equal(copies.length, 'path' in address ? 1 : 0)
    for (const path of copies) {
      assert.equal(await using({ path }, describe), before)
      const check = await using({ path }, (copy) => copy.read((tx) => run(tx, 'pragma integrity_check')))
      assert.deepEqual(Object.values(check.rows[0] ?? {}), ['ok'])
      assert.equal(
        await using({ path }, (copy) => migrate(copy, SECOND_RELEASE, NOW)),
        stepCount(SECOND_RELEASE) - stepCount(FIRST),
      )
    }
  })

  test('an old store that has grown is like a new one', async (t) => {
    const [old, fresh] = [await emptyStore(t, name), await emptyStore(t, name)]
    await using(old, (engine) => migrate(engine, FIRST, NOW))
    for (const address of [old, fresh]) await using(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
    const [one, two] = [await using(old, describe), await using(fresh, describe)]
    // SQLite keeps the words in which a table was made; the columns are what counts.
    const plain = (text: string): string => text.replace(/\\n\s*/g, ' ')
    assert.equal(plain(one), plain(two))
  })

  test('starters that meet do each step once between them, on a new store and on an old one', async (t) => {
    const address = await emptyStore(t, name)
    const together = async (tables: readonly StoredTable[]): Promise<number> => {
      const engines = await Promise.all(Array.from({ length: 6 }, () => open(t, address)))
      const counts = await Promise.all(engines.map((engine) => migrate(engine, tables, NOW)))
      for (const engine of engines) assert.equal(await countPendingSteps(engine, tables), 0)
      return counts.reduce((sum, count) => sum + count, 0)
    }
    assert.equal(await together(FIRST), stepCount(FIRST))
    const before = await using(address, describe)
    assert.equal(await together(SECOND_RELEASE), stepCount(SECOND_RELEASE) - stepCount(FIRST))
    // Only whoever did it keeps a copy; the others' could be copies of what came after.
    const copies = copiesOf(address)
    assert.equal(copies.length, 'path' in address ? 1 : 0)
    for (const path of copies) assert.equal(await using({ path }, describe), before)
  })

  test('an old starter and a new one that meet both come to a clean end', async (t) => {
    for (let time = 0; time < 5; time++) {
      const address = await emptyStore(t, name)
      const [old, young] = await Promise.all([open(t, address), open(t, address)])
      const [first, grown] = await Promise.allSettled([migrate(old, FIRST, NOW), migrate(young, SECOND_RELEASE, NOW)])
      assert.equal(grown.status, 'fulfilled')
      if (first.status === 'rejected') assert.ok(refusedAs('unavailable', 'newer')(first.reason))
      assert.equal(await countPendingSteps(young, SECOND_RELEASE), 0)
    }
  })

  test('a store of a newer version is refused in one sentence and left as it is', async (t) => {
    const address = await emptyStore(t, name)
    await using(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
    const look = async () => ('path' in address ? readFileSync(address.path) : await using(address, describe))
    const before = await look()
    for (const older of [FIRST, SECOND_RELEASE.slice(0, 2), []]) {
      await using(address, async (engine) => {
        await assert.rejects(migrate(engine, older, NOW), refusedAs('unavailable', 'newer svc'))
        await assert.rejects(countPendingSteps(engine, older), refusedAs('unavailable', 'newer svc'))
      })
    }
    assert.deepEqual(await look(), before)
    assert.deepEqual(copiesOf(address), [])
  })

  test('a step that fails leaves the old schema entirely, and no copy for every attempt', async (t) => {
    const address = await emptyStore(t, name)
    await makeFirst(address)
    const before = await using(address, describe)
    const wrong: StoredTable = {
      name: 'wrong',
      storage: ['create table fine (id text)', 'insert into nowhere (id) values (1)'],
    }
    for (let time = 0; time < 3; time++) {
      await using(address, async (engine) => {
        await assert.rejects(migrate(engine, [...SECOND_RELEASE, wrong], NOW), /nowhere/)
        assert.equal(await describe(engine), before)
      })
    }
    assert.deepEqual(copiesOf(address), [])
    await using(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
  })

  test('a step is one statement, or it is refused', async (t) => {
    const engine = await open(t, await emptyStore(t, name))
    const double: StoredTable = { name: 'double', storage: ['create table a (id text); create table b (id text)'] }
    await assert.rejects(migrate(engine, [double], NOW), Error)
    const { rows } = await engine.read((tx) => run(tx, engine.dialect.findTableSql, ['a']))
    assert.deepEqual(rows, [])
  })

  for (const start of ['new', 'old'] as const) {
    test(`a start that is killed at any statement leaves the ${start} store or the grown one`, async (t) => {
      const make = await maker(t, name, start)
      const total = Number(await die(await make()))
      assert.ok(total > 10)
      const done = await make()
      await die(done)
      const outcomes = { before: await using(await make(), describe), after: await using(done, describe) }
      const points = Array.from({ length: total }, (_, index) => index + 1)
      const attempt = async (): Promise<void> => {
        for (let at = points.shift(); at !== undefined; at = points.shift()) {
          const address = await make()
          assert.equal(await die(address, at), 'SIGKILL')
          const left = await using(address, describe)
          assert.equal(left, outcomes.before, `killed at ${at}`)
          await using(address, (engine) => migrate(engine, SECOND_RELEASE, NOW))
          assert.equal(await using(address, describe), outcomes.after, `started again after ${at}`)
        }
      }
      await Promise.all([attempt(), attempt()])
    })
  }
})

/** Makes stores of one kind, as many as wanted. */
async function maker(
  t: TestContext,
  name: 'sqlite' | 'postgres',
  start: 'new' | 'old',
): Promise<() => Promise<StoreAddress>> {
  const fixture = await emptyStore(t, 'sqlite')
  if (name === 'sqlite' && start === 'old') await makeFirst(fixture)
  return async () => {
    if (name === 'postgres') {
      const address = await emptyStore(t, name)
      if (start === 'old') await makeFirst(address)
      return address
    }
    const address = { path: join(tempDir(t), 'svc.db'), create: true }
    if ('path' in fixture && existsSync(fixture.path)) copyFileSync(fixture.path, address.path)
    return address
  }
}

/** What the process said before it ended, or the signal that ended it. */
async function die(address: StoreAddress, at?: number): Promise<string> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(address), ...(at ? [String(at)] : [])], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.on('data', (chunk) => {
    said += String(chunk)
  })
  const [, signal] = await once(child, 'close')
  return signal ?? said
}

onEveryEngineQuickly('a store is current with just the counted steps', (engine) => {
  test('no step less, no step more, and no other table', async (t) => {
    const store = await open(t, await emptyStore(t, engine))
    assert.equal(await hasSteps(store, {}), false)
    await migrate(store, FIRST, NOW)
    const counts = Object.fromEntries(FIRST.map(({ name, storage }) => [name, storage.length]))
    assert.equal(await hasSteps(store, counts), true)
    const [name = '', count = 0] = Object.entries(counts)[0] ?? []
    assert.equal(await hasSteps(store, { ...counts, [name]: count + 1 }), false)
    assert.equal(await hasSteps(store, { ...counts, [name]: count - 1 }), false)
    assert.equal(await hasSteps(store, { ...counts, other: 1 }), false)
  })
})
