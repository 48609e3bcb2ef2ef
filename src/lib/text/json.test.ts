import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { findJsonError, JSON_DEPTH, JSON_VALUES, parseJson, tryParseJson } from './json.ts'

const nested = (depth: number, open = '[', close = ']'): string => open.repeat(depth) + close.repeat(depth)
const list = (entries: number): string => `[${Array.from({ length: entries }, () => '0').join(',')}]`
const DEEP = 'the body is nested deeper than 64 levels'
const MANY = 'the body has more than 20000 values'

test('parses JSON of at most 64 levels', () => {
  assert.equal(JSON_DEPTH, 64)
  assert.deepEqual(parseJson(nested(64)), JSON.parse(nested(64)))
  for (const text of [nested(65), '['.repeat(65), '{"a":'.repeat(65), `[{}, ${nested(64)}]`, nested(500_000)]) {
    assert.throws(() => parseJson(text), isRefusal('invalid', DEEP))
    assert.equal(tryParseJson(text), undefined)
  }
  // Siblings do not count as depth.
  assert.deepEqual(parseJson('[[],[],{"a":[]}]'), [[], [], { a: [] }])
  assert.equal(findJsonError(`[${nested(63)},${nested(63)}]`), undefined)
})

test('parses JSON of at most 20,000 values', () => {
  assert.equal(JSON_VALUES, 20_000)
  assert.equal((parseJson(list(20_000)) as unknown[]).length, 20_000)
  for (const text of [list(20_001), `[${'[],'.repeat(350_000)}[]]`, `{${'"a":1,'.repeat(170_000)}"a":1}`]) {
    assert.throws(() => parseJson(text), isRefusal('invalid', MANY))
    assert.equal(tryParseJson(text), undefined)
  }
  assert.equal((parseJson(list(3), 3) as unknown[]).length, 3)
  assert.throws(() => parseJson(list(4), 3), isRefusal('invalid', 'the body has more than 3 values'))
})

test('does not count brackets and commas in strings', () => {
  for (const text of [
    '['.repeat(100),
    ','.repeat(30_000),
    '\\"[{'.repeat(100),
    '\\\\"',
    `${'\\'.repeat(1001)}"[[`,
    '"',
  ])
    assert.equal(parseJson(JSON.stringify({ [text]: text, more: [text] })) instanceof Object, true)
  assert.equal(findJsonError(`"${'['.repeat(100)}`), undefined)
  assert.equal(findJsonError(`"\\\\"${'['.repeat(65)}`), 'is nested deeper than 64 levels')
  assert.equal(findJsonError(`"\\"${'['.repeat(65)}`), undefined)
})

test('parses JSON like V8 and refuses other text with its position', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      assert.deepEqual(parseJson(text), JSON.parse(text))
      assert.deepEqual(tryParseJson(text), JSON.parse(text))
    }),
  )
  fc.assert(
    fc.property(fc.string(), (text) => {
      assert.deepEqual(tryParseJson(text), engine(text))
    }),
  )
  assert.throws(() => parseJson('{} x'), isRefusal('invalid', 'the body is not JSON (at character 3)'))
  assert.throws(() => parseJson(''), isRefusal('invalid', 'the body is not JSON'))
})

function engine(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

test('counts depth and values like the parsed tree', () => {
  const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 6 },
      fc.constantFrom('a', '[', '"', '\\', ',', 1, null),
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(fc.constantFrom('a', '{', '"', '\\"'), tie('tree'), { maxKeys: 4 }),
    ),
  }))
  fc.assert(
    fc.property(tree, (value) => {
      const text = JSON.stringify(value)
      const count = valuesOf(value)
      assert.equal(findJsonError(text, count), undefined)
      if (count > 0) assert.equal(findJsonError(text, count - 1), `has more than ${count - 1} values`)
    }),
  )
})

/** Entries and members; an empty array or object counts as one. */
function valuesOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const inner = Object.values(value)
  return Math.max(1, inner.length) + inner.reduce((sum: number, each) => sum + valuesOf(each), 0)
}

test('checks a text in linear time', () => {
  for (const piece of ['"', '\\"', '\\', '"\\', '"\\\\', ' ', 'a', '"a"', ']', '[]', '"a":1'])
    for (const end of ['', '"']) {
      const times = growth(
        5000,
        (size) => `"${piece.repeat(size / piece.length)}${end}`,
        (text) => findJsonError(text, Number.POSITIVE_INFINITY),
      )
      assert.ok(times < LINEAR, `${JSON.stringify(piece + end)}: ${times}`)
    }
})
