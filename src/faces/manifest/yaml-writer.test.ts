import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parse } from 'yaml'
import { decodeManifest } from './decoder.ts'
import { inlineText, rowsText } from './yaml-writer.ts'

/** Characters with a meaning in YAML, in any order. */
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

suite('a value in YAML', () => {
  for (const version of ['1.2', '1.1'] as const) {
    test(`is read back unchanged by YAML ${version}`, () => {
      fc.assert(
        fc.property(anyText, (text) => {
          assert.deepEqual(parse(`a: ${inlineText(text)}\n`, { version }), { a: text })
        }),
        { numRuns: 1000 },
      )
    })
  }

  test('is read back unchanged in lists and maps', () => {
    const own = (value: unknown): unknown => JSON.parse(JSON.stringify(value))
    fc.assert(
      fc.property(anyValue, (value) => {
        // The package handles __proto__ in its own way.
        fc.pre(!JSON.stringify(value).includes('__proto__'))
        assert.deepEqual(own(parse(`a: ${inlineText(value)}\n`)), own({ a: value }))
      }),
      { numRuns: 1000 },
    )
  })

  test('is quoted only where a reader might take it for another type', () => {
    const bare = ['main', 'team/support', 'role:operator', 'room=42 verb=mention', 'team#observe', '/pub/x', 'a.b-c_d']
    for (const text of bare) assert.equal(inlineText(text), text)
    const words = ['', '**', 'no', 'Off', 'null', '42', '1:20', '2026-01-01', 'a: b', 'a #b', 'a:', '-', '~', 'é']
    for (const text of words) assert.equal(inlineText(text), JSON.stringify(text))
    assert.equal(inlineText('\u0085\u2028'), '"\\u0085\\u2028"')
  })

  test('cannot be bytes, null, undefined or a fraction', () => {
    for (const value of [new Uint8Array(1), null, undefined, 1.5, 2 ** 53, Number.NaN])
      assert.throws(() => inlineText(value), /cannot contain/)
  })
})

suite('rows in YAML', () => {
  test('are read back unchanged and contain no forbidden characters', () => {
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

  test('omit absent fields and write several lines as a block', () => {
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

  test('quote text that a block would change', () => {
    for (const text of ['\na\nb', ' a\nb', 'a \nb', 'a\nb ', 'a\nb\n\n', 'a\r\nb', 'a\n\tb'])
      assert.equal(rowsText(['a'], [{ a: text }]), `  - a: ${JSON.stringify(text)}\n`)
  })
})
