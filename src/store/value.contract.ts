// The contract of values, for each engine: a stored value is read back unchanged.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { run } from '../../test/support/sql.ts'
import type { Engine } from './engine.ts'
import { bytes, execute, flag, integer, oneOf, optional, query, queryOne, text } from './statement.ts'
import { type EngineOpener, refusedAs, type Thing, thing, things } from './things.contract.ts'

async function roundTrip(engine: Engine, given: Thing): Promise<Thing> {
  return engine.transaction(async (tx) => {
    await things.upsert(tx, given)
    const { body, seal, ...rest } = (await things.find(tx, { id: given.id })) ?? assert.fail('no such row')
    // The engines return different subclasses of Uint8Array.
    return { ...rest, body: new Uint8Array(body), ...(seal ? { seal: new Uint8Array(seal) } : {}) }
  })
}

export function valueContract(open: EngineOpener): void {
  test('keeps every byte', async (t) => {
    const engine = await open(t)
    const body = Uint8Array.from({ length: 256 }, (_, index) => index)
    for (const bytes of [body, body.toReversed(), new Uint8Array(), new Uint8Array(100_000).fill(255)])
      assert.deepEqual(
        await roundTrip(engine, thing('a', { body: bytes, seal: bytes })),
        thing('a', { body: bytes, seal: bytes }),
      )
    // Of a view, only its part of the buffer is stored.
    const view = body.subarray(10, 20)
    assert.deepEqual((await roundTrip(engine, thing('a', { body: view }))).body, Uint8Array.from(view))
  })

  test('reads booleans as booleans and NULL as an absent key', async (t) => {
    const engine = await open(t)
    for (const given of [thing('a', { open: false, loud: true }), thing('a', { loud: false }), thing('a')])
      assert.deepEqual(await roundTrip(engine, given), given)
    const { rows } = await engine.read((tx) => run(tx, 'select open, loud, note from things'))
    assert.deepEqual({ ...rows[0] }, { open: true, loud: null, note: null })
  })

  test('decodes counts, sums, conditions, bytes and NULL with a row schema', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a', { size: 7, loud: true })))
    const schema = {
      n: integer,
      total: integer,
      largest: optional(integer),
      none: optional(text),
      is_large: flag,
      is_there: flag,
      kind: oneOf(['small', 'large']),
    }
    const sql = `select count(*) as n, sum(size) as total, max(size) as largest, max(note) as none, sum(size) > 5 as is_large,
      exists (select 1 from things where id = $1) as is_there, case when max(size) > 5 then 'large' else 'small' end as kind
      from things`
    assert.deepEqual(await engine.read((tx) => query(tx, schema, sql, ['b'])), [
      { n: 1, total: 7, largest: 7, none: undefined, is_large: true, is_there: false, kind: 'large' },
    ])
    const row = await engine.read((tx) => queryOne(tx, { id: text, body: bytes, loud: flag }, 'select * from things'))
    assert.deepEqual({ ...row, body: [...row.body] }, { id: 'a', body: [...thing('a').body], loud: true })
    assert.equal(await engine.transaction((tx) => execute(tx, 'update things set size = size + 1')), 1)
    const wrong = { id: integer, body: text, note: text, size: flag, tags: bytes, open: oneOf(['yes']) }
    for (const [name, decode] of Object.entries(wrong))
      await assert.rejects(
        engine.read((tx) => query(tx, { [name]: decode }, 'select * from things')),
        new RegExp(`column "${name}" of a query must be `),
      )
    await assert.rejects(
      engine.read((tx) => queryOne(tx, { id: text }, 'select id from things where id = $1', ['b'])),
      /query returned no row/,
    )
  })

  test('keeps integers exact up to 2^53 - 1', async (t) => {
    const engine = await open(t)
    const max = Number.MAX_SAFE_INTEGER
    for (const size of [0, 1, -1, 2 ** 31, -(2 ** 31) - 1, 2 ** 32, max, -max]) {
      const given = thing('a', { size, weight: size })
      assert.deepEqual(await roundTrip(engine, given), given)
      assert.equal(await engine.read((tx) => things.find(tx, { size })).then((row) => row?.size), size)
    }
    const { rows } = await engine.read((tx) => run(tx, 'select count(*) as n, sum(size) as total from things'))
    assert.deepEqual({ ...rows[0] }, { n: 1, total: -max })
  })

  test('keeps text of any language', async (t) => {
    const engine = await open(t)
    const texts = [
      '',
      ' ',
      "it's",
      '"',
      '\\',
      '%_',
      '$1 ? ?1',
      '\n\r\t\u0001\u007f',
      'naïve',
      '日本語',
      'مرحبا',
      '👩‍👩‍👧‍👦',
      '\ufeff',
      '\uffff',
      '\u{10ffff}',
    ]
    for (const note of texts) assert.deepEqual(await roundTrip(engine, thing('a', { note })), thing('a', { note }))
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary' }), async (text) => {
        fc.pre(!text.includes('\u0000'))
        const given = thing(`x${text}`, { note: text, tags: [text], extra: { [text]: text } })
        assert.deepEqual(await roundTrip(engine, given), given)
      }),
      { numRuns: 100 },
    )
  })

  test('stores a lone surrogate as the replacement character', async (t) => {
    const engine = await open(t)
    assert.equal((await roundTrip(engine, thing('a', { note: 'x\ud800y' }))).note, 'x\ufffdy')
    // JSON can escape it, so it is kept there.
    assert.deepEqual((await roundTrip(engine, thing('a', { tags: ['\ud800'] }))).tags, ['\ud800'])
  })

  test('refuses NUL in text, which PostgreSQL does not support', async (t) => {
    const engine = await open(t)
    await assert.rejects(roundTrip(engine, thing('a', { note: 'a\u0000b' })), refusedAs('invalid'))
    await assert.rejects(
      engine.read((tx) => things.find(tx, { id: '\u0000' })),
      refusedAs('invalid'),
    )
    assert.deepEqual((await roundTrip(engine, thing('a', { tags: ['\u0000'] }))).tags, ['\u0000'])
  })

  test('sorts text by bytes', async (t) => {
    const engine = await open(t)
    const fixed = [
      'a',
      'B',
      'b',
      'A',
      'ä',
      'z',
      'Z',
      '_',
      '-',
      '1',
      '10',
      '2',
      '',
      ' ',
      'é',
      'e\u0301',
      '\uffff',
      '\u{10000}',
    ]
    const ids = new Set([
      ...fixed,
      ...fc.sample(fc.string({ unit: 'grapheme', minLength: 1 }), { numRuns: 200, seed: 1 }),
    ])
    await engine.transaction(async (tx) => {
      for (const id of ids) await things.insert(tx, thing(id))
    })
    const sorted = [...ids].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
    const listed = await engine.read((tx) => things.list(tx))
    assert.deepEqual(
      listed.map(({ id }) => id),
      sorted,
    )
    const { rows } = await engine.read((tx) => run(tx, 'select count(*) as n from things where id > $1', ['b']))
    assert.equal(rows[0]?.n, sorted.filter((id) => Buffer.compare(Buffer.from(id), Buffer.from('b')) > 0).length)
  })

  test('accepts numbered parameters in any order, repeatedly', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a', { note: 'costs $1 or $2' })))
    const sql = `select id, '$1 and $2' as quoted from things where note = $2 and id = $1 and $1 <> $2`
    const { rows } = await engine.read((tx) => run(tx, sql, ['a', 'costs $1 or $2']))
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [{ id: 'a', quoted: '$1 and $2' }],
    )
  })
}
