import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { findDuplicateKey } from './duplicate-key.ts'

const TEXTS: [sentence: string, text: string, name: string | undefined][] = [
  ['a name that occurs once is not a duplicate', '{"a":1,"b":2}', undefined],
  ['a name that occurs twice is a duplicate', '{"a":1, "b":2, "a" : 3}', 'a'],
  ['an escaped spelling of a name is the same name', '{"a":1,"\\u0061":2}', 'a'],
  ['names of an inner object are separate', '{"a":{"a":[{"a":1,"a":2}]},"b":{"a":1}}', undefined],
  ['names after an inner object belong to the outer one', '{"a":{"b":1},"a":2}', 'a'],
  ['text in a string is not a name', '{"a":"\\"a\\":1,{","b":["a:","a"]}', undefined],
]
for (const [sentence, text, name] of TEXTS) test(sentence, () => assert.equal(findDuplicateKey(text), name))

test('finds no duplicate in JSON that a program wrote', () => {
  fc.assert(fc.property(fc.json({ maxDepth: 5 }), (text) => findDuplicateKey(text) === undefined))
})

test('finds any name that is inserted twice', () => {
  const names = fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 8 })
  fc.assert(
    fc.property(names, fc.jsonValue(), fc.nat(), (all, value, at) => {
      const again = all[at % all.length] ?? ''
      const members = [...all, again].map((name) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`)
      assert.equal(findDuplicateKey(`{${members.join(', ')}}`), again)
    }),
  )
})

test('scans a string of a mebibyte', () => {
  const long = '\\"a'.repeat(300_000)
  assert.equal(findDuplicateKey(`{"a":"${long}","a":1}`), 'a')
})
