import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { Refusal } from '../refusal.ts'
import { parse } from './schema-parser.ts'

const Input = z.strictObject({
  source_label: z.string().min(1),
  daily_limit: z.int().positive(),
  enabled: z.boolean().optional(),
  access: z.enum(['public', 'deny']).optional(),
  list: z.array(z.string()).max(1).optional(),
  most: z.int().min(-5).max(1_000_000).optional(),
  names: z.array(z.string().refine((name) => /^[a-z]+$/.test(name), 'must be letters')).optional(),
})

const CASES: Record<string, [unknown, string]> = {
  'all faults come in one line': [{ daily_limit: 0 }, 'source_label is required; daily_limit must be more than 0'],
  'an unknown member is named': [{ source_label: 'x', daily_limit: 1, isAdmin: true }, 'unknown field "isAdmin"'],
  'a wrong type is named in plain words': [{ source_label: 1, daily_limit: 1 }, 'source_label must be text'],
  'a float is not a whole number': [{ source_label: 'x', daily_limit: 1.5 }, 'daily_limit must be a whole number'],
  'an empty text is reported as empty': [{ source_label: '', daily_limit: 1 }, 'source_label must not be empty'],
  'a choice names its values': [
    { source_label: 'x', daily_limit: 1, access: 'all' },
    'access must be one of public, deny',
  ],
  'a boolean is true or false': [
    { source_label: 'x', daily_limit: 1, enabled: 'yes' },
    'enabled must be true or false',
  ],
  'a list has a size': [{ source_label: 'x', daily_limit: 1, list: ['a', 'b'] }, 'list has more than 1 entries'],
  'a text is not an object': ['x', 'the input must be an object'],
  'a missing input is required': [undefined, 'the input is required'],
  'only the strictest of several limits is reported': [
    { source_label: 'x', daily_limit: 1, most: 1e20 },
    'most must be at most 1000000',
  ],
  'only the strictest of several lower limits is reported': [
    { source_label: 'x', daily_limit: 1, most: -1e20 },
    'most must be at least -5',
  ],
  'a text in a list is named by its value': [
    { source_label: 'x', daily_limit: 1, names: ['good', 'bad!'] },
    'names: "bad!" must be letters',
  ],
  'a member of a list is named by its place': [{ source_label: 'x', daily_limit: 1, list: [1] }, 'list.0 must be text'],
}
for (const [sentence, [input, message]] of Object.entries(CASES)) {
  test(`bad input: ${sentence}`, () => {
    assert.throws(
      () => parse(Input, input),
      (error) => {
        assert.ok(error instanceof Refusal)
        assert.equal(error.code, 'invalid')
        assert.equal(error.message, message)
        return true
      },
    )
  })
}

test('returns a typed value or one refusal for any input, and changes no prototype', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.anything(),
        fc.json().map((text): unknown => JSON.parse(text)),
      ),
      (input) => {
        try {
          parse(Input, input)
        } catch (error) {
          assert.ok(error instanceof Refusal)
        }
        assert.equal(Object.keys(Object.prototype).length, 0)
      },
    ),
  )
})

test('reports the first of very many errors and counts the rest', () => {
  const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`x${index}`, 1]))
  assert.throws(
    () => parse(Input, many),
    (error) => error instanceof Refusal && /and 99982 more$/.test(error.message) && error.message.length < 1000,
  )
})

test('cuts a name of more than 100 characters', () => {
  const Any = z.strictObject({ sizes: z.record(z.string(), z.int()).optional() })
  const said = (raw: unknown): string => {
    try {
      parse(Any, raw)
    } catch (error) {
      if (error instanceof Refusal) return error.message
    }
    return assert.fail('it was taken')
  }
  const long = 'x'.repeat(1_000_000)
  assert.equal(said({ [long.slice(0, 100)]: 1 }), `unknown field "${long.slice(0, 100)}"`)
  assert.equal(said({ [long.slice(0, 101)]: 1 }), `unknown field "${long.slice(0, 100)}…"`)
  assert.equal(said({ [long]: 1 }), `unknown field "${long.slice(0, 100)}…"`)
  assert.equal(said({ sizes: { [long]: 'a' } }), `sizes.${long.slice(0, 94)}… must be a number`)
})

test('refuses a member called __proto__ like any unknown one', () => {
  assert.throws(
    () => parse(Input, JSON.parse('{"source_label":"x","daily_limit":1,"__proto__":{"a":1}}')),
    /unknown field "__proto__"/,
  )
})
