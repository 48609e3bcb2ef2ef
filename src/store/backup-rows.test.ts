import assert from 'node:assert/strict'
import { readdirSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { ENGINES, type EngineName, emptyStore, onEveryEngine } from '../../test/support/host.ts'
import { needs } from '../../test/support/needs.ts'
import { run } from '../../test/support/sql.ts'
import { readRow, type StoreSnapshot, tablesAtSteps, writeRow } from './backup-rows.ts'
import type { Engine, Value } from './engine.ts'
import { openEngine, openLoad, openSnapshot, type StoreAddress } from './index.ts'
import { migrate, type StoredTable } from './migrate.ts'
import { FIRST_RELEASE, SECOND_RELEASE } from './schema-releases.contract.ts'
import { entries, parts, refusedAs, THING_TABLES, thing, things } from './things.contract.ts'

const NOW = (): string => '2026-01-01T00:00:00.000Z'

async function withEngine<T>(address: StoreAddress, work: (engine: Engine) => Promise<T>): Promise<T> {
  const engine = await openEngine(address)
  try {
    return await work(engine)
  } finally {
    await engine.close()
  }
}

async function loadStore(from: StoreSnapshot, to: StoreAddress, tables: readonly StoredTable[]): Promise<void> {
  await using load = await openLoad(to, tablesAtSteps(from.steps, tables))
  assert.deepEqual(names(load.tables), names(from.tables))
  for (const shape of load.tables) {
    const source = from.tables.find(({ name }) => name === shape.name) ?? assert.fail()
    for await (const rows of from.rows(source)) {
      await load.insert(
        source,
        rows.map((row) => readRow(writeRow(row), source)),
      )
    }
  }
  await load.finish(from.counters)
}

function names(tables: readonly { name: string }[]): string[] {
  return tables.map(({ name }) => name).sort()
}

/** Inserts every type of value, a foreign key, and a counter whose last row is deleted. */
async function fill(engine: Engine): Promise<void> {
  await migrate(engine, THING_TABLES, NOW)
  await engine.transaction(async (tx) => {
    await things.insert(tx, thing('plain', { body: Buffer.from('grüße\n'), tags: ['a'], note: 'ü "q" \\ \u2028' }))
    await things.insert(
      tx,
      thing('odd', {
        size: -(2 ** 50),
        open: false,
        body: Buffer.from([0, 255, 1]),
        loud: true,
        seal: Buffer.alloc(0),
      }),
    )
    for (let index = 0; index < 1203; index++) await things.insert(tx, thing(`many-${index}`, { size: index }))
    await parts.insert(tx, { thing_id: 'plain', part: 'a' })
    for (const name of ['one', 'two', 'three']) await entries.append(tx, { name })
    await entries.remove(tx, { name: 'three' })
  })
}

/** As JSON, because the engines return different classes for bytes. */
const readEverything = (engine: Engine): Promise<string> =>
  engine.read(async (tx) =>
    JSON.stringify([
      (await things.list(tx)).map(({ body, seal, ...rest }) => [rest, hex(body), hex(seal)]),
      await parts.list(tx),
      await entries.list(tx),
      (await run(tx, 'select name, step from migrations order by name, step')).rows,
    ]),
  )

const hex = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString('hex')

async function createAddress(t: TestContext, engine: EngineName): Promise<StoreAddress> {
  const address = await emptyStore(t, engine)
  return 'path' in address ? { ...address, strict: false } : address
}

for (const from of ENGINES)
  for (const to of ENGINES)
    suite(`a store of ${from} loaded into ${to}`, from === to && from === 'sqlite' ? {} : needs('postgres'), () => {
      test('has the same rows and continues the counters', async (t) => {
        const [source, target] = [await createAddress(t, from), await createAddress(t, to)]
        const before = await withEngine(source, async (engine) => {
          await fill(engine)
          return readEverything(engine)
        })
        {
          await using snapshot = await openSnapshot(source, Date.now())
          await loadStore(snapshot, target, THING_TABLES)
        }
        await withEngine(target, async (engine) => {
          assert.deepEqual(await readEverything(engine), before)
          assert.equal(await migrate(engine, THING_TABLES, NOW), 0)
          const next = await engine.transaction((tx) => entries.insertReturning(tx, { name: 'next' }))
          assert.equal(next.id, 4)
          await assert.rejects(
            engine.transaction((tx) => parts.insert(tx, { thing_id: 'nothing', part: 'a' })),
            refusedAs('conflict'),
          )
        })
      })
    })

onEveryEngine('a snapshot', (name) => {
  test('does not contain later writes', async (t) => {
    const address = await createAddress(t, name)
    await withEngine(address, fill)
    await using snapshot = await openSnapshot(address, Date.now())
    await withEngine(address, (engine) => engine.transaction((tx) => entries.append(tx, { name: 'later' })))
    const shape = snapshot.tables.find((table) => table.name === 'entries') ?? assert.fail()
    const rows: (readonly Value[])[] = []
    for await (const batch of snapshot.rows(shape)) rows.push(...batch)
    assert.deepEqual(rows.map((row) => row[1]).sort(), ['one', 'two'])
  })

  test('is loaded with the schema of its release and migrated when opened', async (t) => {
    const [source, target] = [await createAddress(t, name), await createAddress(t, name)]
    await withEngine(source, async (engine) => {
      await migrate(engine, FIRST_RELEASE, NOW)
      await engine.transaction((tx) => run(tx, `insert into things (id, size, body) values ('a', 1, 'b')`))
    })
    {
      await using snapshot = await openSnapshot(source, Date.now())
      await loadStore(snapshot, target, SECOND_RELEASE)
    }
    await withEngine(target, async (engine) => {
      assert.equal(await migrate(engine, SECOND_RELEASE, NOW), 5)
      const { rows } = await engine.read((tx) => run(tx, 'select id, size, note from things'))
      assert.deepEqual({ ...rows[0] }, { id: 'a', size: 2, note: 'grown' })
      // The triggers work.
      const stamp = (): Promise<unknown> => engine.read(async (tx) => (await run(tx, 'select stamp from stamps')).rows)
      const before = await stamp()
      await engine.transaction((tx) => run(tx, `insert into things (id, size, body) values ('c', 1, 'b')`))
      assert.notDeepEqual(await stamp(), before)
    })
  })

  test('refuses rows that do not fit; an unfinished load leaves no store', async (t) => {
    const address = await createAddress(t, name)
    for (const [table, row] of [
      ['entries', [1, null]],
      ['parts', ['nothing', 'a', null]],
    ] as const) {
      await using load = await openLoad(await createAddress(t, name), THING_TABLES)
      const shape = load.tables.find((found) => found.name === table) ?? assert.fail()
      await assert.rejects(
        load.insert(shape, [row]).then(() => load.finish({})),
        refusedAs('invalid', table),
      )
    }
    {
      await using load = await openLoad(address, THING_TABLES)
      await load.insert(load.tables.find((found) => found.name === 'entries') ?? assert.fail(), [[1, 'a']])
    }
    if ('url' in address) {
      await using again = await openLoad(address, THING_TABLES)
      await again.finish({})
      await assert.rejects(openLoad(address, THING_TABLES), refusedAs('conflict', 'already contains a store'))
    }
  })
})

suite('a snapshot of SQLite', () => {
  test('leaves no files and removes those that a killed process left an hour ago', async (t) => {
    const address = await createAddress(t, 'sqlite')
    assert.ok('path' in address)
    await withEngine(address, fill)
    const [old, recent] = [`${address.path}.backup-0123456789abcdef`, `${address.path}.backup-fedcba9876543210`]
    for (const path of [old, recent]) writeFileSync(path, 'x')
    utimesSync(old, 0, Date.now() / 1000 - 3700)
    await using snapshot = await openSnapshot(address, Date.now())
    assert.equal(snapshot.engine, 'sqlite')
    assert.deepEqual(readdirSync(dirname(address.path)).sort(), ['svc.db', 'svc.db.backup-fedcba9876543210'])
  })

  test('is consistent and contains all earlier commits while other processes write', async (t) => {
    const address = await createAddress(t, 'sqlite')
    assert.ok('path' in address)
    await withEngine(address, fill)
    // In a process of its own: closing a file drops all locks of a process on it.
    const { spawn } = await import('node:child_process')
    const { once } = await import('node:events')
    const script = `import { DatabaseSync } from 'node:sqlite'
      const db = new DatabaseSync(process.argv[1], { timeout: 5000 })
      db.exec('pragma synchronous = off')
      const add = db.prepare("insert into entries (name) values (hex(randomblob(3000)))")
      for (let batch = 0; ; batch++) {
        db.exec('begin immediate'); for (let row = 0; row < 20; row++) add.run(); db.exec('commit')
        if (batch % 50 === 0) db.exec('pragma wal_checkpoint(' + (batch % 100 ? 'passive' : 'truncate') + ')')
        if (batch % 10 === 0) process.stdout.write(batch * 20 + '\\n')
      }`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script, address.path], { stdio: 'pipe' })
    t.after(() => void child.kill('SIGKILL'))
    let acknowledged = 0
    child.stdout.on('data', (chunk) => {
      acknowledged = Number(String(chunk).trim().split('\n').at(-1))
    })
    await once(child.stdout, 'data')
    for (let time = 0; time < 8; time++) {
      const before = acknowledged
      await using snapshot = await openSnapshot(address, Date.now())
      const shape = snapshot.tables.find((table) => table.name === 'entries') ?? assert.fail()
      const ids: number[] = []
      for await (const batch of snapshot.rows(shape)) ids.push(...batch.map(([id]) => Number(id)))
      assert.ok(ids.length >= before + 2, `${ids.length} rows, ${before} were committed before`)
      // Complete transactions of twenty rows without gaps; one of the first three rows was removed.
      assert.equal((ids.length - 2) % 20, 0)
      assert.deepEqual([ids[0], ids.at(-1)], [1, ids.length + 1])
    }
  })
})

test('reads a written row unchanged', () => {
  const value = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).filter((number) => !Object.is(number, -0)),
    fc.boolean(),
    fc.constant(null),
    fc.uint8Array().map((bytes) => Buffer.from(bytes)),
  )
  fc.assert(
    fc.property(fc.array(value, { minLength: 1 }), (row) => {
      const shape = { name: 't', columns: row.map((_, at) => `c${at}`) }
      const line = writeRow(row)
      assert.equal(line.indexOf('\n'), line.length - 1)
      assert.deepEqual(readRow(line, shape), row)
    }),
  )
})

test('refuses a line that is not a row of its table', () => {
  for (const line of ['', '{}', '[1]', '[1,2,3]', '[1,{}]', '[1,[2]]', '[1,{"b":1}]', '[1,2'])
    assert.throws(() => readRow(line, { name: 'things', columns: ['a', 'b'] }), refusedAs('invalid', 'things'))
})
