import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { nearest } from './nearest-word.ts'

const COMMANDS = ['create', 'generate', 'group', 'gate', 'grant', 'status', 'secret', 'send', 'serve', 'run', 'list']

test('finds the word that was meant', () => {
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

test('prefers the closer candidate, then the earlier one', () => {
  assert.equal(nearest('WEB_LISTN', ['WEB_LISTENS', 'WEB_LISTEN']), 'WEB_LISTEN')
  assert.equal(nearest('bat', ['cat', 'hat']), 'cat')
  assert.equal(nearest('anything', []), undefined)
})

test('returns a known word itself', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.stringMatching(/^[a-z]{1,10}$/), { minLength: 1 }), (words) => {
      for (const word of words) assert.equal(nearest(word, words), word)
    }),
  )
})

test('always finds a word with one wrong letter', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{2,12}$/), fc.nat(), (word, where) => {
      const at = where % word.length
      assert.equal(nearest(`${word.slice(0, at)}#${word.slice(at + 1)}`, [word]), word)
    }),
  )
})

test('handles a word of a megabyte at once', () => {
  assert.equal(nearest('x'.repeat(1_000_000), COMMANDS), undefined)
})
