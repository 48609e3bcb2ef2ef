import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { accountKey } from './attempt-limits.ts'

test('an account has one key in every case and Unicode form', () => {
  const key = accountKey('github:John')
  for (const same of ['github:john', 'GITHUB:JOHN', 'github:ＪＯＨＮ']) assert.equal(accountKey(same), key)
  assert.equal(accountKey('oidc:a/\u212a'), accountKey('oidc:a/k'))
  assert.equal(accountKey('oidc:a/e\u0301'), accountKey('oidc:a/É'))
  assert.notEqual(accountKey('github:1'), accountKey('github:2'))
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      assert.equal(accountKey(accountKey(text).slice('account '.length)), accountKey(text))
    }),
  )
})
