// The contract of multi-row statements, for each engine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { run } from '../../test/support/sql.ts'
import type { Value } from './engine.ts'
import { MultiRowStatement } from './multi-row-statement.ts'
import { type EngineOpener, refusedAs, things } from './things.contract.ts'

const INSERT = new MultiRowStatement(
  { id: 'text', size: 'bigint', body: 'bytea', note: 'text' },
  `insert into things (id, size, open, body, tags, note)
   select v.id, v.size, v.size > 0, v.body, '[]', v.note from {rows} (select 1 as one) as o {in order}`,
)

export function multiRowStatementContract(open: EngineOpener): void {
  test('inserts many rows with one statement and returns their number', async (t) => {
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

  test('does nothing without rows', async (t) => {
    const engine = await open(t)
    assert.deepEqual(await engine.transaction((tx) => INSERT.run(tx, engine.dialect, [])), 0)
  })

  test('inserts none of the rows if one fails', async (t) => {
    const engine = await open(t)
    const rows = ['a', 'b', 'a'].map((id): Value[] => [id, 1, new Uint8Array(), null])
    await assert.rejects(
      engine.transaction((tx) => INSERT.run(tx, engine.dialect, rows)),
      refusedAs('conflict'),
    )
    assert.equal(await engine.read((tx) => things.count(tx)), 0)
  })

  test('accepts a column with only NULL', async (t) => {
    const engine = await open(t)
    const rows = ['a', 'b'].map((id): Value[] => [id, 1, new Uint8Array(), null])
    assert.equal(await engine.transaction((tx) => INSERT.run(tx, engine.dialect, rows)), 2)
  })

  test('keeps all values: quotes, braces, commas, backslashes, the word null, every byte', async (t) => {
    const engine = await open(t)
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.constantFrom('null', 'NULL', '{}', '{a,b}', '"', '\\', '\\x00', "'", ',', ' ', '', '$1', '{rows}'),
    )
    const row = fc.record({ note: fc.option(text), body: fc.uint8Array({ maxLength: 300 }), size: fc.maxSafeInteger() })
    await fc.assert(
      fc.asyncProperty(fc.array(row, { maxLength: 8 }), async (given) => {
        const rows = given.map(({ size, body, note }, at): Value[] => [`${at}`, size, body, toStorableText(note)])
        await engine.transaction(async (tx) => {
          await run(tx, 'delete from things')
          await INSERT.run(tx, engine.dialect, rows)
        })
        const stored = await engine.read((tx) => things.list(tx))
        assert.equal(stored.length, given.length)
        for (const { id, size, body, note } of stored) {
          const expected = given[Number(id)]
          assert.deepEqual([size, note ?? null], [expected?.size, toStorableText(expected?.note ?? null)])
          assert.deepEqual(Buffer.from(body), Buffer.from(expected?.body ?? []))
        }
      }),
      { numRuns: 40 },
    )
  })
}

/** Removes what PostgreSQL text cannot contain: NUL and lone surrogates. */
function toStorableText(text: string | null): string | null {
  return text === null ? null : text.replaceAll('\0', '').toWellFormed()
}
