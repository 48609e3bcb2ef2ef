import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nearest } from './nearest.ts'

const COMMANDS = ['create', 'generate', 'group', 'gate', 'grant', 'status', 'secret', 'send', 'serve', 'run', 'list']

test('a mistyped word finds what was meant', () => {
  const cases: Record<string, string | undefined> = {
    lsit: 'list',
    statsu: 'status',
    craete: 'create',
    gruop: 'group',
    GROUP: 'group',
    gener: 'generate',
    cre: 'create',
    run: 'run',
    rn: 'run',
    rm: undefined,
    g: undefined,
    '': undefined,
    xyzzy: undefined,
    deploy: undefined,
  }
  for (const [word, meant] of Object.entries(cases)) assert.equal(nearest(word, COMMANDS), meant, word)
})

test('the closer candidate wins over the earlier one, and the earlier one among equals', () => {
  assert.equal(nearest('WEB_LISTN', ['WEB_LISTENS', 'WEB_LISTEN']), 'WEB_LISTEN')
  assert.equal(nearest('bat', ['cat', 'hat']), 'cat')
  assert.equal(nearest('anything', []), undefined)
})

test('a known word is always its own nearest', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.stringMatching(/^[a-z]{1,10}$/), { minLength: 1 }), (words) => {
      for (const word of words) assert.equal(nearest(word, words), word)
    }),
  )
})

test('one wrong letter is always found', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{2,12}$/), fc.nat(), (word, where) => {
      const at = where % word.length
      assert.equal(nearest(`${word.slice(0, at)}#${word.slice(at + 1)}`, [word]), word)
    }),
  )
})

test('a word of a megabyte costs nothing', () => {
  assert.equal(nearest('x'.repeat(1_000_000), COMMANDS), undefined)
})
