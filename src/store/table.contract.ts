// The contract of tables, for each engine.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { run } from '../../test/support/sql.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Engine } from './engine.ts'
import type { Order, PageRequest } from './table.ts'
import { type EngineOpener, entries, parts, type Thing, thing, things } from './things.contract.ts'

const MIXED_ORDER: Order<Thing> = [
  ['open', 'desc'],
  ['size', 'asc'],
  ['id', 'desc'],
]
const ORDERS: readonly Order<Thing>[] = [
  [['id', 'asc']],
  [['id', 'desc']],
  [
    ['size', 'asc'],
    ['id', 'asc'],
  ],
  [
    ['size', 'desc'],
    ['id', 'desc'],
  ],
  [
    ['size', 'desc'],
    ['body', 'asc'],
    ['id', 'desc'],
  ],
  MIXED_ORDER,
]

async function fill(engine: Engine, count: number): Promise<void> {
  await engine.transaction(async (tx) => {
    for (let index = 0; index < count; index++) {
      const body = Uint8Array.from([index % 3, 255])
      await things.insert(tx, thing(`id-${(index * 7919) % count}`, { size: index % 10, open: index % 2 === 0, body }))
    }
  })
}

/** Reads all pages. */
async function readAllPages(engine: Engine, request: Omit<PageRequest<Thing>, 'after'>) {
  const ids: string[] = []
  let after: string | undefined
  do {
    const page = await engine.read((tx) => things.page(tx, { ...request, after }))
    assert.ok(page.rows.length <= request.limit)
    if (page.next !== undefined) assert.equal(page.rows.length, request.limit)
    ids.push(...page.rows.map(({ id }) => id))
    after = page.next
  } while (after !== undefined)
  return ids
}

export function tableContract(open: EngineOpener): void {
  test('finds a row by any of its columns, and by several', async (t) => {
    const engine = await open(t)
    const row = thing('a', { size: 5, note: 'n', body: Uint8Array.from([1]), tags: ['x', 'y'], loud: false })
    await engine.transaction((tx) => things.insert(tx, row))
    const found = (where: Partial<Thing>) => engine.read((tx) => things.find(tx, where))
    for (const where of [
      { id: 'a' },
      { size: 5 },
      { loud: false },
      { body: row.body },
      { tags: row.tags },
      { id: 'a', note: 'n' },
    ])
      assert.equal((await found(where))?.id, 'a', JSON.stringify(where))
    for (const where of [{ id: 'b' }, { id: 'a', size: 6 }, { open: false }, { tags: ['x'] }])
      assert.equal(await found(where), undefined)
  })

  test('throws on a condition without columns, without a value or with an unknown column', async (t) => {
    const engine = await open(t)
    await engine.transaction((tx) => things.insert(tx, thing('a')))
    const wrong = [
      () => engine.read((tx) => things.find(tx, {})),
      () => engine.read((tx) => things.find(tx, { note: undefined })),
      () => engine.read((tx) => things.list(tx, { id: 'a', note: undefined })),
      () => engine.transaction((tx) => things.update(tx, {}, { size: 1 })),
      () => engine.transaction((tx) => things.remove(tx, {})),
      () => engine.transaction((tx) => things.remove(tx, { id: 'a', note: undefined })),
    ]
    for (const attempt of wrong) await assert.rejects(attempt(), /condition/)
    const named = { id: 'a', "x' or '1' = '1": 1 }
    await assert.rejects(
      engine.read((tx) => things.find(tx, named)),
      /no column/,
    )
    await assert.rejects(
      engine.transaction((tx) => things.update(tx, { id: 'a' }, named)),
      /no column/,
    )
    assert.equal(await engine.read((tx) => things.count(tx)), 1)
  })

  test('lists rows in the order of the key or in the given order', async (t) => {
    const engine = await open(t)
    await engine.transaction(async (tx) => {
      for (const [id, size] of [
        ['b', 1],
        ['a', 2],
        ['c', 1],
      ] as const)
        await things.insert(tx, thing(id, { size }))
    })
    const ids = async (where: Partial<Thing>, order?: Order<Thing>) =>
      (await engine.read((tx) => things.list(tx, where, order))).map(({ id }) => id).join('')
    assert.equal(await ids({}), 'abc')
    assert.equal(await ids({ size: 1 }), 'bc')
    assert.equal(
      await ids({}, [
        ['size', 'desc'],
        ['id', 'desc'],
      ]),
      'acb',
    )
  })

  test('returns an inserted row with its counter', async (t) => {
    const engine = await open(t)
    const row = await engine.transaction((tx) => entries.insertReturning(tx, { name: 'first' }))
    assert.deepEqual(row, { id: row.id, name: 'first' })
    await engine.transaction((tx) => entries.append(tx, { name: 'second' }))
    assert.deepEqual(
      (await engine.read((tx) => entries.list(tx))).map(({ name }) => name),
      ['first', 'second'],
    )
    const given = thing('a', { tags: ['x'], loud: true })
    const added = await engine.transaction((tx) => things.insertReturning(tx, given))
    assert.deepEqual({ ...added, body: new Uint8Array(added.body) }, given)
  })

  test('replaces the whole row on upsert', async (t) => {
    const engine = await open(t)
    const full = thing('a', { note: 'n', weight: 1, loud: true, extra: { a: [1, null] }, tags: ['x'] })
    for (const given of [full, thing('a', { size: 3 }), { ...full, weight: 2 }]) {
      await engine.transaction((tx) => things.upsert(tx, given))
      const { body, ...rest } = (await engine.read((tx) => things.find(tx, { id: 'a' }))) ?? assert.fail()
      assert.deepEqual({ ...rest, body: new Uint8Array(body) }, given)
    }
    await engine.transaction(async (tx) => {
      await parts.upsert(tx, { thing_id: 'a', part: '1', label: 'one' })
      await parts.upsert(tx, { thing_id: 'a', part: '2' })
      await parts.upsert(tx, { thing_id: 'a', part: '1', label: 'uno' })
    })
    assert.deepEqual(await engine.read((tx) => parts.list(tx)), [
      { thing_id: 'a', part: '1', label: 'uno' },
      { thing_id: 'a', part: '2' },
    ])
  })

  test('does not change an existing row with insertIfMissing', async (t) => {
    const engine = await open(t)
    const insert = (size: number) => engine.transaction((tx) => things.insertIfMissing(tx, thing('a', { size })))
    assert.equal(await insert(1), true)
    assert.equal(await insert(2), false)
    assert.equal((await engine.read((tx) => things.find(tx, { id: 'a' })))?.size, 1)
  })

  test('sets named columns on update, clears undefined ones and returns the count', async (t) => {
    const engine = await open(t)
    const row = thing('a', { note: 'n', weight: 1, loud: true, extra: { x: 1 } })
    await engine.transaction(async (tx) => {
      await things.insert(tx, row)
      await things.insert(tx, thing('b'))
    })
    const update = (where: Partial<Thing>, patch: Parameters<typeof things.update>[2]) =>
      engine.transaction((tx) => things.update(tx, where, patch))
    assert.equal(await update({ id: 'a' }, { note: undefined, loud: undefined, extra: undefined, size: 9 }), 1)
    const { body: _, ...rest } = (await engine.read((tx) => things.find(tx, { id: 'a' }))) ?? assert.fail()
    assert.deepEqual(rest, { id: 'a', size: 9, open: true, tags: [], weight: 1 })
    assert.equal(await update({ open: true }, { tags: ['t'], open: false }), 2)
    assert.equal(await update({ id: 'none' }, { size: 1 }), 0)
    assert.equal(await update({ id: 'a' }, {}), 0)
    assert.deepEqual((await engine.read((tx) => things.list(tx, { tags: ['t'] }))).length, 2)
  })

  test('removes matching rows and returns the count', async (t) => {
    const engine = await open(t)
    await fill(engine, 20)
    const remove = (where: Partial<Thing>) => engine.transaction((tx) => things.remove(tx, where))
    assert.equal(await remove({ size: 3 }), 2)
    assert.equal(await remove({ size: 3 }), 0)
    assert.equal(await engine.read((tx) => things.count(tx)), 18)
  })

  test('pages through all rows without gaps, in any order and page size', async (t) => {
    const engine = await open(t)
    await fill(engine, 1234)
    for (const order of ORDERS) {
      const all = (await engine.read((tx) => things.list(tx, {}, order))).map(({ id }) => id)
      assert.equal(all.length, 1234)
      for (const limit of [97, 617, 1233, 1234, 1235, 5000])
        assert.deepEqual(await readAllPages(engine, { order, limit }), all)
      const wanted = (await engine.read((tx) => things.list(tx, { size: 4 }, order))).map(({ id }) => id)
      assert.deepEqual(await readAllPages(engine, { order, limit: 10, where: { size: 4 } }), wanted)
    }
  })

  test('restricts pages to subtrees by whole path segments', async (t) => {
    const engine = await open(t)
    const ids = ['a', 'a/b', 'a/b/c', 'a-b', 'a.b', 'a0', 'ab', 'b', 'b/x', 'é', 'é/ü', 'a/😀']
    await engine.transaction(async (tx) => {
      for (const id of ids) await things.insert(tx, thing(id, {}))
    })
    const below = (...paths: string[]) =>
      ids.filter((id) => paths.some((path) => id === path || id.startsWith(`${path}/`)))
    for (const paths of [['a'], ['a/b'], ['é', 'b'], ['a', 'a/b'], ['nothing'], []]) {
      for (const limit of [1, 2, 100]) {
        const walked = await readAllPages(engine, { order: [['id', 'asc']], limit, below: { column: 'id', paths } })
        assert.deepEqual(walked.sort(), below(...paths).sort())
      }
    }
    const openIds = await readAllPages(engine, {
      order: MIXED_ORDER,
      limit: 2,
      where: { open: true },
      below: { column: 'id', paths: ['a'] },
    })
    assert.ok(openIds.every((id) => id === 'a' || id.startsWith('a/')))
  })

  test('pages through the rows that match one of several conditions, each row once', async (t) => {
    const engine = await open(t)
    await fill(engine, 1234)
    await engine.transaction((tx) => things.update(tx, { size: 7 }, { note: 'noted' }))
    const isAny = ({ size, open: isOpen, note }: Thing): boolean =>
      size === 4 || (size < 3 && isOpen) || note === 'noted'
    const anyOf = [{ size: 4 }, { size: 0, open: true }, { size: 2, open: true }, { note: 'noted' }, { size: 7 }]
    for (const order of ORDERS) {
      const all = await engine.read((tx) => things.list(tx, {}, order))
      for (const limit of [1, 10, 300, 1000]) {
        if (limit === 1 && order !== MIXED_ORDER) continue
        const wanted = all.filter(isAny).map(({ id }) => id)
        assert.deepEqual(await readAllPages(engine, { order, limit, anyOf }), wanted)
      }
      const unnoted = all.filter(({ note, open: isOpen }) => note === undefined && isOpen).map(({ id }) => id)
      const request = { order, limit: 100, where: { open: true }, anyOf: [{ note: null }, { size: 4, note: null }] }
      assert.deepEqual(await readAllPages(engine, request), unnoted)
      assert.deepEqual(await readAllPages(engine, { order, limit: 100, anyOf: [] }), [])
    }
  })

  test('finds a text in any of several columns, in either case, and takes wildcards literally', async (t) => {
    const engine = await open(t)
    await engine.transaction(async (tx) => {
      for (const id of ['Alpha', 'beta', 'a%b', 'a_b', 'a!b', 'axb', 'Übung'])
        await things.insert(tx, thing(id, { note: id === 'beta' ? 'has ALPHA inside' : 'nothing' }))
    })
    const found = async (text: string): Promise<string[]> =>
      (
        await readAllPages(engine, {
          order: [['id', 'asc']],
          limit: 1,
          containing: { columns: ['id', 'note'], text },
          anyOf: [{ note: 'nothing' }, { note: 'has ALPHA inside' }],
        })
      ).sort()
    assert.deepEqual(await found('aLPha'), ['Alpha', 'beta'])
    assert.deepEqual(await found('a%B'), ['a%b'])
    assert.deepEqual(await found('A_b'), ['a_b'])
    assert.deepEqual(await found('a!b'), ['a!b'])
    assert.deepEqual(await found('BUNG'), ['Übung'])
    assert.deepEqual(await found('nowhere'), [])
  })

  test('does not count filtered rows towards the limit', async (t) => {
    const engine = await open(t)
    await fill(engine, 1234)
    const all = await engine.read((tx) => things.list(tx, {}, MIXED_ORDER))
    const filters = {
      some: (row: Thing) => row.size % 4 === 1,
      few: (row: Thing) => row.id.endsWith('77'),
      last: (row: Thing) => row.id === all.at(-1)?.id,
      none: () => false,
      all: () => true,
    }
    for (const keep of Object.values(filters)) {
      const wanted = all.filter(keep).map(({ id }) => id)
      for (const limit of [1, 10, 300]) {
        if (wanted.length / limit > 300) continue
        assert.deepEqual(await readAllPages(engine, { order: MIXED_ORDER, limit, keep }), wanted)
      }
    }
  })

  test('neither repeats nor skips rows when others are written between two pages', async (t) => {
    const engine = await open(t)
    await fill(engine, 100)
    const order: Order<Thing> = [['id', 'asc']]
    const first = await engine.read((tx) => things.page(tx, { order, limit: 50 }))
    const last = first.rows.at(-1)?.id ?? ''
    await engine.transaction(async (tx) => {
      await things.remove(tx, { id: last })
      await things.insert(tx, thing('a before all'))
      await things.insert(tx, thing('z after all'))
    })
    const second = await engine.read((tx) => things.page(tx, { order, limit: 100, after: first.next }))
    const ids = [...first.rows, ...second.rows].map(({ id }) => id)
    assert.equal(new Set(ids).size, 101)
    assert.equal(ids.at(-1), 'z after all')
  })

  test('refuses a forged cursor or returns a page, and never fails otherwise', async (t) => {
    const engine = await open(t)
    await fill(engine, 30)
    const genuine = (await engine.read((tx) => things.page(tx, { order: MIXED_ORDER, limit: 3 }))).next ?? assert.fail()
    const readPage = async (after: string, order: Order<Thing> = MIXED_ORDER): Promise<'page' | 'refused'> => {
      try {
        await engine.read((tx) => things.page(tx, { order, limit: 5, after }))
        return 'page'
      } catch (error) {
        if (error instanceof Refusal && error.code === 'invalid') return 'refused'
        throw error
      }
    }
    assert.equal(await readPage(genuine), 'page')
    for (const order of ORDERS.slice(0, 5)) assert.equal(await readPage(genuine, order), 'refused')
    const encode = (value: unknown): string => Buffer.from(JSON.stringify(value) ?? '').toString('base64url')
    for (const parts of [
      [],
      [true],
      [true, 1],
      [true, 1, null],
      [1, 1, 'a'],
      [true, '1', 'a'],
      [true, 1.5, 'a'],
      [true, 1, 'a', 'b'],
      [true, 1, 'a\u0000'],
      [true, 2 ** 60, 'a'],
      [true, 1, { bytes: 'AA' }],
      [[true], 1, 'a'],
      { length: 3 },
      null,
      'x',
    ])
      assert.equal(await readPage(encode(parts)), 'refused', JSON.stringify(parts))
    const part = fc.oneof(
      fc.jsonValue(),
      fc.string({ unit: 'binary' }),
      fc.record({ bytes: fc.base64String() }),
      fc.maxSafeInteger(),
      fc.boolean(),
    )
    const forged = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.base64String(),
      fc.array(part, { maxLength: 4 }).map(encode),
      fc.tuple(fc.boolean(), fc.maxSafeInteger(), fc.string({ unit: 'binary' })).map(encode),
      fc
        .tuple(fc.nat(genuine.length - 1), fc.string({ maxLength: 2 }))
        .map(([at, text]) => genuine.slice(0, at) + text + genuine.slice(at + 1)),
    )
    await fc.assert(
      fc.asyncProperty(forged, fc.constantFrom(...ORDERS), async (after, order) => {
        await readPage(after, order)
      }),
      { numRuns: 300 },
    )
  })

  test('decodes a stored row', async (t) => {
    const engine = await open(t)
    const row = thing('a', { tags: ['x'], extra: { y: [true] }, loud: false })
    await engine.transaction((tx) => things.insert(tx, row))
    const { rows } = await engine.read((tx) => run(tx, 'select * from things'))
    const { body, ...decoded } = things.decode(rows[0] ?? {})
    assert.deepEqual({ ...decoded, body: new Uint8Array(body) }, row)
  })
}
