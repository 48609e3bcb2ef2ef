import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { z } from 'zod'
import { isRefusal } from '../../../test/support/host.ts'
import { fieldsOf, labelOf } from './form-fields.ts'
import { omitEmpty, timeInput } from './message-parts.ts'
import { numberField, optionalField, requiredField } from './typed-fields.ts'

const INPUT = z.object({
  folder: z.string().max(300).describe('Its name'),
  long_text: z.string().max(301).optional(),
  kind: z.enum(['a', 'b']),
  way: z.enum(['x']).optional(),
  is_open: z.boolean(),
  count: z.int().min(1).max(9).default(3),
  config: z.record(z.string(), z.string()).optional(),
  names: z.array(z.string()).optional(),
  secret: z.string().meta({ writeOnly: true }),
})

suite('fields of forms', () => {
  test('follow from the input of a verb', () => {
    const fields = fieldsOf(INPUT, { omit: ['way'], values: { folder: 'team', names: ['a'], count: null } })
    const known = new Map(fields.map((field) => [field.name, field]))
    assert.deepEqual(
      [...known.keys()],
      ['folder', 'long_text', 'kind', 'is_open', 'count', 'config', 'names', 'secret'],
    )
    const of = (name: string) => {
      const { label: _, name: __, ...rest } = known.get(name) ?? assert.fail(name)
      return Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
    }
    assert.deepEqual(of('folder'), { hint: 'Its name', isRequired: true, maxLength: 300, value: 'team' })
    assert.deepEqual(of('long_text'), { kind: 'multiline', isRequired: false, maxLength: 301 })
    assert.deepEqual(of('kind'), { kind: 'select', isRequired: true, options: ['a', 'b'] })
    const [no, yes] = [
      ['false', 'no'],
      ['true', 'yes'],
    ] as const
    assert.deepEqual(of('is_open'), { kind: 'select', isRequired: true, options: [no, yes] })
    assert.deepEqual(of('count'), { kind: 'number', isRequired: false, min: 1, max: 9, value: '3' })
    assert.deepEqual(of('config'), { kind: 'multiline', isRequired: false, rows: 3, placeholder: '{}' })
    assert.deepEqual(of('names'), { kind: 'multiline', isRequired: false, rows: 3, placeholder: '[]', value: '["a"]' })
    assert.deepEqual(of('secret'), { kind: 'password', isRequired: true })
    const [way] = fieldsOf(INPUT.pick({ way: true }), { overrides: { way: { hint: 'Which' } } })
    assert.deepEqual([way?.options, way?.hint], [[['', 'not set'], 'x'], 'Which'])
    assert.equal(labelOf('next_run_at'), 'Next run at')
  })

  test('are read as they were typed, and empty ones not at all', () => {
    const fields = new Map([
      ['text', 'a\r\nb\r'],
      ['empty', ''],
      ['count', '-12'],
      ['part', '1.5'],
      ['word', 'many'],
    ])
    assert.equal(optionalField(fields, 'text'), 'a\nb\r')
    assert.deepEqual([optionalField(fields, 'empty'), optionalField(fields, 'missing')], [undefined, undefined])
    assert.throws(() => requiredField(fields, 'empty'), isRefusal('invalid', 'empty must not be empty'))
    assert.equal(requiredField(fields, 'text'), 'a\nb\r')
    assert.deepEqual([numberField(fields, 'count'), numberField(fields, 'empty')], [-12, undefined])
    for (const name of ['part', 'word'])
      assert.throws(() => numberField(fields, name), isRefusal('invalid', 'must be a whole number'))
  })

  test('of filters take times with and without seconds as UTC', () => {
    assert.equal(timeInput('2026-01-31T09:05'), '2026-01-31T09:05:00Z')
    assert.equal(timeInput('2026-01-31T09:05:06'), '2026-01-31T09:05:06Z')
    assert.equal(timeInput('2026-01-31T09:05:06.5Z'), '2026-01-31T09:05:06.5Z')
    assert.deepEqual([timeInput(''), timeInput(undefined), timeInput('soon')], [undefined, undefined, 'soon'])
    assert.deepEqual(omitEmpty({ a: '', b: undefined, c: 0, d: 'x' }), { c: 0, d: 'x' })
  })
})
