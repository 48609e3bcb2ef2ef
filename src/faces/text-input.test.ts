import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { isRefusal } from '../../test/support/host.ts'
import { HostName, jsonText, line, pageLimit } from '../core/values.ts'
import { parse } from '../lib/text/schema-parser.ts'
import { parseQueryString, parseTextInput } from './text-input.ts'

const Input = z
  .object({
    name: line(64),
    count: z.int(),
    ratio: z.number().optional(),
    open: z.boolean().default(true),
    limit: pageLimit(100, 1000),
    host: HostName.optional(),
    kind: z.enum(['1', 'true']).optional(),
    list: z.array(z.number()).optional(),
    object: jsonText(z.object({ a: z.number() })).optional(),
    folded: z.preprocess((value) => value, z.int()).optional(),
  })
  .partial({ name: true, count: true })
  .strict()

const TYPED: Record<string, [texts: Record<string, string>, input: Record<string, unknown>]> = {
  'converts a number where the schema has a number': [
    { count: '12', ratio: '-0.5e1' },
    { count: 12, ratio: -5 },
  ],
  'converts below default, optional and transform': [
    { limit: '5', open: 'false' },
    { limit: 5, open: false },
  ],
  'converts below a preprocess step': [{ folded: '7' }, { folded: 7 }],
  'keeps text where the schema has text': [
    { name: '12', kind: 'true' },
    { name: '12', kind: 'true' },
  ],
  'keeps JSON as text': [
    { object: '{"a":1}', list: '[1]' },
    { object: '{"a":1}', list: '[1]' },
  ],
  'keeps numbers in other notations as text': [
    { count: '0x10', ratio: ' 1', limit: '+1', folded: '007' },
    { count: '0x10', ratio: ' 1', limit: '+1', folded: '007' },
  ],
  'keeps text that is not a number': [
    { count: '', ratio: '.', limit: 'Infinity' },
    { count: '', ratio: '.', limit: 'Infinity' },
  ],
  'converts only true and false to booleans': [{ open: 'yes' }, { open: 'yes' }],
  'keeps unknown members': [{ other: '1' }, { other: '1' }],
  'treats members of Object.prototype as unknown': [
    { constructor: '1', toString: '1' },
    { constructor: '1', toString: '1' },
  ],
}

suite('text input', () => {
  for (const [name, [texts, input]] of Object.entries(TYPED)) {
    test(name, () => assert.deepEqual(parseTextInput(Input, texts), input))
  }

  const REFUSED: Record<string, Record<string, string>> = {
    'count must be a number': { count: 'twelve' },
    'limit must be a number': { limit: '1e' },
    'open must be true or false': { open: '1' },
    'unknown field "other"': { other: '' },
  }
  for (const [message, texts] of Object.entries(REFUSED)) {
    test(`leaves the refusal to parse: ${message}`, () => {
      assert.throws(() => parse(Input, parseTextInput(Input, texts)), isRefusal('invalid', message))
    })
  }

  test('refuses a number that is too large', () => {
    assert.throws(() => parse(Input, parseTextInput(Input, { ratio: '1e400' })), isRefusal('invalid', 'ratio'))
    assert.throws(
      () => parse(Input, parseTextInput(Input, { count: '9'.repeat(10_000) })),
      isRefusal('invalid', 'count'),
    )
  })
})

suite('for any text', () => {
  test('converts every integer, boolean and text to itself', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.boolean(), fc.string(), (count, open, name) => {
        const texts = { count: String(count), open: String(open), name }
        assert.deepEqual(parseTextInput(Input, texts), { count, open, name })
      }),
    )
  })

  test('converts numbers as JSON does, or keeps the text', () => {
    const numberlike = fc.stringMatching(/^[-+.0-9eExX _]{0,12}$/)
    fc.assert(
      fc.property(fc.oneof(numberlike, fc.string(), fc.double().map(String)), (ratio) => {
        const { ratio: value } = parseTextInput(Input, { ratio })
        if (value === ratio) return
        assert.equal(ratio, ratio.trim())
        assert.deepEqual(value, JSON.parse(ratio))
      }),
    )
  })

  test('keeps all names, adds none, and changes no prototype', () => {
    const name = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', 'count', 'limit'))
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.string())), (entries) => {
        const texts = Object.fromEntries(entries)
        const input = parseTextInput(Input, texts)
        assert.deepEqual(Object.keys(input), Object.keys(texts))
        assert.equal(Object.getPrototypeOf(input), Object.prototype)
      }),
    )
  })

  test('parses every encoded query', () => {
    const wellFormed = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(wellFormed, wellFormed), { selector: ([name]) => name }), (entries) => {
        const query = new URLSearchParams(entries).toString()
        assert.deepEqual(parseQueryString(query), Object.fromEntries(entries))
        assert.deepEqual(parseQueryString(`?${query}`), Object.fromEntries(entries))
      }),
    )
  })
})

suite('query strings', () => {
  test('refuses a parameter that is given twice with equal values', () => {
    assert.throws(() => parseQueryString('?a=1&b=2&a=1'), isRefusal('invalid', 'a is given twice'))
  })

  for (const query of ['?a=%', '?a=%zz', '?a=%ff', '?%E0%A4=1']) {
    test(`refuses ${query}, which is not properly encoded`, () => {
      assert.throws(() => parseQueryString(query), isRefusal('invalid', 'not properly URL-encoded'))
    })
  }

  test('decodes a plus as a space', () => {
    assert.deepEqual(parseQueryString('?a=1+2&b=1%2B2&c'), { a: '1 2', b: '1+2', c: '' })
  })
})
