import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { Sub } from '../../core/values.ts'
import { accountText, openIdSub } from './provider-accounts.ts'

test('subs keep plain subjects and encode others', () => {
  for (const [subject, sub] of [
    ['248289761001', 'oidc:corp/248289761001'],
    ['auth0|5f7c8ec7', 'oidc:corp/auth0|5f7c8ec7'],
    ['Anna.B@x', 'oidc:corp/Anna.B@x'],
    ['a/b c%', 'oidc:corp/a%2Fb%20c%25'],
    ['*', 'oidc:corp/%2A'],
    ['ä😀', 'oidc:corp/%C3%A4%F0%9F%98%80'],
    ['role:operator', 'oidc:corp/role%3Aoperator'],
  ] as const)
    assert.equal(openIdSub('corp', subject), sub)
})

test('each subject has its own valid sub', () => {
  const subject = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(subject, subject, (a, b) => {
      const [first, second] = [openIdSub('corp', a), openIdSub('corp', b)]
      assert.equal(first === second, a === b)
      assert.ok(Sub.safeParse(first).success)
      assert.match(first, /^oidc:corp\/[\x21-\x7e]+$/)
      assert.ok(!first.includes('*') && !first.slice(10).includes('/'))
    }),
  )
})

test('refuses subjects that are empty, invalid or too long', () => {
  assert.equal(openIdSub('corp', 'a'.repeat(246)).length, 256)
  for (const subject of ['', '\ud800', 'a'.repeat(247), 'ä'.repeat(42)])
    assert.throws(() => openIdSub('corp', subject), isRefusal('unprocessable', 'the provider corp sent'))
})

test('texts of accounts are one plain line of up to 256 characters, or absent', () => {
  assert.equal(accountText(' Anna\nB\u0000\u001b '), 'Anna B')
  assert.equal(accountText('a'.repeat(256))?.length, 256)
  for (const value of ['a'.repeat(257), '', ' ', '\ud800', undefined, null, 5, {}])
    assert.equal(accountText(value), undefined)
})
