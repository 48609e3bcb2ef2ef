import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { decodeManifest } from './decoder.ts'
import { rowsText, scalar } from './yaml-writer.ts'

/** Letters of which YAML makes something, in any order. */
const syntax = fc
  .array(fc.constantFrom(...'aA1 _~:#-?*&!|>%@`"\'{}[],.=+/\\<\n\t\r\u0000\u0085\u2028\ufeffé😀'), { maxLength: 8 })
  .map((letters) => letters.join(''))
const words = fc.constantFrom(
  ...'y n yes No ON off True false NULL null ~ .inf -.INF .nan 0 -1 +1 0o17 0x1f 1_000 1e3 1.5 1:20 190:20:30 2026-01-01'.split(
    ' ',
  ),
  ...[
    '2026-01-01T00:00:00.000Z',
    '<<',
    '=',
    '---',
    '...',
    '--- a',
    '- a',
    'a:',
    'a: b',
    'a #b',
    '',
    ' ',
    '\n',
    'a\n',
    '\ta',
  ],
)
const anyText = fc.oneof(words, syntax, fc.string({ unit: 'binary' }), fc.string())
const anyValue = fc.oneof(
  anyText,
  fc.maxSafeInteger(),
  fc.boolean(),
  fc.array(anyText),
  fc.dictionary(anyText, fc.oneof(anyText, fc.maxSafeInteger(), fc.array(anyText))),
)

suite('a value as YAML', () => {
  for (const version of ['1.2', '1.1'] as const) {
    test(`is read back as itself by YAML ${version}`, () => {
      fc.assert(
        fc.property(anyText, (text) => {
          assert.deepEqual(parse(`a: ${scalar(text)}\n`, { version }), { a: text })
        }),
        { numRuns: 3000 },
      )
    })
  }

  test('is read back in lists and maps, too', () => {
    const own = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
    fc.assert(
      fc.property(anyValue, (value) => {
        // An own __proto__ is a member like any other here, and the package makes a plain object of it.
        fc.pre(!JSON.stringify(value).includes('__proto__'))
        assert.deepEqual(own(parse(`a: ${scalar(value)}\n`)), own({ a: value }))
      }),
      { numRuns: 1000 },
    )
  })

  test('stays bare where that is safe, and stands in quotes where any reader might err', () => {
    const bare = ['main', 'team/support', 'role:operator', 'room=42 verb=mention', 'team#observe', '/pub/x', 'a.b-c_d']
    for (const text of bare) assert.equal(scalar(text), text)
    const words = ['', '**', 'no', 'Off', 'null', '42', '1:20', '2026-01-01', 'a: b', 'a #b', 'a:', '-', '~', 'é']
    for (const text of words) assert.equal(scalar(text), JSON.stringify(text))
    assert.equal(scalar('\u0085\u2028'), '"\\u0085\\u2028"')
  })

  test('is never bytes, nothing, or a number that is not whole', () => {
    for (const value of [new Uint8Array(1), null, undefined, 1.5, 2 ** 53, Number.NaN])
      assert.throws(() => scalar(value), /cannot hold/)
  })
})

suite('rows as YAML', () => {
  test('are read back as themselves, text of several lines included, and hold nothing invisible', () => {
    const lines = fc.array(anyText, { minLength: 2, maxLength: 4 }).map((parts) => parts.join('\n'))
    const row = fc.record({ a: anyText, b: lines, c: fc.oneof(lines, anyText) }, { noNullPrototype: true })
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 3 }), (rows) => {
        const text = `list:\n${rowsText(['a', 'b', 'c'], rows)}`
        assert.deepEqual(parse(text), { list: rows })
        assert.equal(decodeManifest(text).text, text)
      }),
      { numRuns: 2000 },
    )
  })

  test('have absent fields left out and several lines as a block', () => {
    const rows = [
      { id: 'x', prompt: 'one\n\n  two #3\nfour' },
      { id: 'y', prompt: 'one\ntwo\n', off: false },
    ]
    assert.equal(
      rowsText(['id', 'cron', 'prompt', 'off'], rows),
      `  - id: x
    prompt: |-
      one

        two #3
      four
  - id: "y"
    prompt: |
      one
      two
    off: false
`,
    )
  })

  test('have no block where it would say something else', () => {
    for (const text of ['\na\nb', ' a\nb', 'a \nb', 'a\nb ', 'a\nb\n\n', 'a\r\nb', 'a\n\tb'])
      assert.equal(rowsText(['a'], [{ a: text }]), `  - a: ${JSON.stringify(text)}\n`)
  })
})
