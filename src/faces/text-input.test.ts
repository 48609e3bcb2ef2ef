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
  'a number where a number is asked for': [
    { count: '12', ratio: '-0.5e1' },
    { count: 12, ratio: -5 },
  ],
  'through default, optional and transform': [
    { limit: '5', open: 'false' },
    { limit: 5, open: false },
  ],
  'behind what folds it first': [{ folded: '7' }, { folded: 7 }],
  'text stays text, whatever it looks like': [
    { name: '12', kind: 'true' },
    { name: '12', kind: 'true' },
  ],
  'what holds JSON stays text': [
    { object: '{"a":1}', list: '[1]' },
    { object: '{"a":1}', list: '[1]' },
  ],
  'a number of another spelling stays text': [
    { count: '0x10', ratio: ' 1', limit: '+1', folded: '007' },
    { count: '0x10', ratio: ' 1', limit: '+1', folded: '007' },
  ],
  'no text is no number': [
    { count: '', ratio: '.', limit: 'Infinity' },
    { count: '', ratio: '.', limit: 'Infinity' },
  ],
  'a boolean has two spellings': [{ open: 'yes' }, { open: 'yes' }],
  'what the schema does not know is left': [{ other: '1' }, { other: '1' }],
  'what every object has is not known': [
    { constructor: '1', toString: '1' },
    { constructor: '1', toString: '1' },
  ],
}

suite('texts become what the schema asks for', () => {
  for (const [sentence, [texts, input]] of Object.entries(TYPED)) {
    test(sentence, () => assert.deepEqual(parseTextInput(Input, texts), input))
  }

  const SENTENCES: Record<string, Record<string, string>> = {
    'count must be a number': { count: 'twelve' },
    'limit must be a number': { limit: '1e' },
    'open must be true or false': { open: '1' },
    'unknown field "other"': { other: '' },
  }
  for (const [sentence, texts] of Object.entries(SENTENCES)) {
    test(`refused by parse: ${sentence}`, () => {
      assert.throws(() => parse(Input, parseTextInput(Input, texts)), isRefusal('invalid', sentence))
    })
  }

  test('a number beyond every number is refused', () => {
    assert.throws(() => parse(Input, parseTextInput(Input, { ratio: '1e400' })), isRefusal('invalid', 'ratio'))
    assert.throws(
      () => parse(Input, parseTextInput(Input, { count: '9'.repeat(10_000) })),
      isRefusal('invalid', 'count'),
    )
  })
})

suite('for any text', () => {
  test('every whole number, boolean and text comes through as itself', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), fc.boolean(), fc.string(), (count, open, name) => {
        const texts = { count: String(count), open: String(open), name }
        assert.deepEqual(parseTextInput(Input, texts), { count, open, name })
      }),
    )
  })

  test('a number field gives what JSON reads there, or the text itself', () => {
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

  test('no name is lost, none is added, and no prototype changes', () => {
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

  test('a query is read as it was written', () => {
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

suite('queries', () => {
  test('a parameter that is given twice is refused, though it says the same', () => {
    assert.throws(() => parseQueryString('?a=1&b=2&a=1'), isRefusal('invalid', 'a is given twice'))
  })

  for (const query of ['?a=%', '?a=%zz', '?a=%ff', '?%E0%A4=1']) {
    test(`${query} is not properly encoded`, () => {
      assert.throws(() => parseQueryString(query), isRefusal('invalid', 'not properly URL-encoded'))
    })
  }

  test('a plus is a blank and an encoded one is a plus', () => {
    assert.deepEqual(parseQueryString('?a=1+2&b=1%2B2&c'), { a: '1 2', b: '1+2', c: '' })
  })
})
