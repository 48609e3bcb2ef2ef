import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { trimLeading, trimTrailing } from './trimming.ts'

test('removes the characters at one end only, and only these', () => {
  assert.equal(trimTrailing('//a//', '/'), '//a')
  assert.equal(trimLeading('//a//', '/'), 'a//')
  for (const trim of [trimLeading, trimTrailing]) {
    assert.equal(trim('.!.', '.!'), '')
    assert.equal(trim('', '/'), '')
    assert.equal(trim('/a', ''), '/a')
  }
})

test('trims as a pattern does', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[-. a]*$/), (text) => {
      assert.equal(trimTrailing(text, '-. '), text.replace(/[-. ]+$/, ''))
      assert.equal(trimLeading(text, '-. '), text.replace(/^[-. ]+/, ''))
    }),
  )
})
