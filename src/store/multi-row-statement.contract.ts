// What one statement for many rows must do on every engine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { run } from '../../test/support/sql.ts'
import type { Value } from './engine.ts'
import { MultiRowStatement } from './multi-row-statement.ts'
import { type Open, refusedAs, things } from './things.contract.ts'

const INSERT = new MultiRowStatement(
  { id: 'text', size: 'bigint', body: 'bytea', note: 'text' },
  `insert into things (id, size, open, body, tags, note)
   select v.id, v.size, v.size > 0, v.body, '[]', v.note from {rows} (select 1 as one) as o {in order}`,
)

export function rowsContract(open: Open): void {
  test('inserts many rows by one statement and returns how many', async (t) => {
    const engine = await open(t)
    const rows = Array.from({ length: 500 }, (_, at) => [
      `${at}`,
      at,
      Uint8Array.of(at % 256, 0, 255),
      at % 2 ? 'odd' : null,
    ])
    assert.equal(await engine.transaction((tx) => INSERT.run(tx, engine.dialect, rows)), rows.length)
    assert.deepEqual(
      (await engine.read((tx) => things.list(tx, {}, [['size', 'asc']]))).map(({ id, size }) => [id, size]),
      rows.map(([id, size]) => [id, size]),
    )
    const stored = await engine.read((tx) => things.find(tx, { id: '257' }))
    assert.deepEqual(
      [stored?.size, Buffer.from(stored?.body ?? []).toString('hex'), stored?.note],
      [257, '0100ff', 'odd'],
    )
    assert.equal((await engine.read((tx) => things.find(tx, { id: '256' })))?.note, undefined)
  })

  test('no rows are no statement', async (t) => {
    const engine = await open(t)
    assert.deepEqual(await engine.transaction((tx) => INSERT.run(tx, engine.dialect, [])), 0)
  })

  test('one row that cannot be leaves none of them', async (t) => {
    const engine = await open(t)
    const rows = ['a', 'b', 'a'].map((id): Value[] => [id, 1, new Uint8Array(), null])
    await assert.rejects(
      engine.transaction((tx) => INSERT.run(tx, engine.dialect, rows)),
      refusedAs('conflict'),
    )
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('a column may be all nothing', async (t) => {
    const engine = await open(t)
    const rows = ['a', 'b'].map((id): Value[] => [id, 1, new Uint8Array(), null])
    assert.equal(await engine.transaction((tx) => INSERT.run(tx, engine.dialect, rows)), 2)
  })

  test('values are what they were: quotes, braces, commas, backslashes, the word null, every byte', async (t) => {
    const engine = await open(t)
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('null', 'NULL', '{}', '{a,b}', '"', '\\', '\\x00', "'", ',', ' ', '', '$1', '{rows}'),
    )
    const row = fc.record({ note: fc.option(text), body: fc.uint8Array({ maxLength: 300 }), size: fc.maxSafeInteger() })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 8 }), async (given) => {
        const rows = given.map(({ size, body, note }, at): Value[] => [`${at}`, size, body, plain(note)])
        await engine.transaction(async (tx) => {
          await run(tx, 'delete from things')
          await INSERT.run(tx, engine.dialect, rows)
        })
        const stored = await engine.read((tx) => things.list(tx))
        assert.equal(stored.length, given.length)
        for (const { id, size, body, note } of stored) {
          const meant = given[Number(id)]
          assert.deepEqual([size, note ?? null], [meant?.size, plain(meant?.note ?? null)])
          assert.deepEqual(Buffer.from(body), Buffer.from(meant?.body ?? []))
        }
      }),
      { numRuns: 40 },
    )
  })
}

/** PostgreSQL holds no NUL in a text, and a lone surrogate is no text. */
function plain(text: string | null): string | null {
  return text === null ? null : text.replaceAll('\0', '').toWellFormed()
}
