import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import { parseSignInAllowlist } from './sign-in-allowlist.ts'

function withEmail(email: string | undefined, email_verified = true): ConfirmedAccount {
  return { sub: 'oidc:corp/1', issuer: 'https://id.example', subject: '1', email, email_verified }
}
const allows = (list: string, email: string | undefined, isVerified = true): boolean =>
  parseSignInAllowlist(list)(withEmail(email, isVerified))

suite('SIGN_IN_ALLOW', () => {
  test('has subs, which are compared exactly', () => {
    const isAllowed = parseSignInAllowlist(' oidc:corp/1 ,, github:42')
    assert.ok(isAllowed(withEmail(undefined, false)))
    for (const sub of ['oidc:corp/2', 'OIDC:corp/1', 'oidc:corp/1 ', 'github:4', 'github:42x'])
      assert.ok(!isAllowed({ ...withEmail(undefined), sub }), sub)
  })

  test('admits no account when it is empty', () => {
    for (const list of ['', ' ', ',', ' , '])
      for (const email of ['anna@example.com', '', '@', undefined]) assert.ok(!allows(list, email), `${list} ${email}`)
  })

  test('has addresses and domains, without regard to ASCII case', () => {
    for (const [list, email] of [
      ['anna@example.com', 'Anna@Example.COM'],
      ['ANNA@example.com', 'anna@example.com'],
      ['*@Example.com', 'ben@EXAMPLE.com'],
      ['a@b.example, *@example.com', 'ben@example.com'],
    ] as const)
      assert.ok(allows(list, email), `${list} ${email}`)
  })

  test('does not count addresses that are not verified', () => {
    for (const list of ['anna@example.com', '*@example.com']) assert.ok(!allows(list, 'anna@example.com', false))
  })

  const attacks: readonly (readonly [list: string, email: string])[] = [
    ['*@example.com', 'anna@sub.example.com'],
    ['*@example.com', 'anna@example.com.evil.example'],
    ['*@example.com', 'anna@notexample.com'],
    ['*@example.com', 'anna@evil.example@example.com'],
    ['*@example.com', '"anna@evil.example"@example.com'],
    ['*@example.com', 'anna@example.com@evil.example'],
    ['*@example.com', '@example.com'],
    ['*@example.com', 'anna@example.com '],
    ['*@example.com', 'anna@example.com\n'],
    ['*@example.com', 'anna @example.com'],
    ['*@example.com', 'anna@example.com.'],
    ['*@example.com', '*@evil.example'],
    ['*', 'anna@example.com'],
    ['*@*', 'anna@example.com'],
    ['*@', 'anna@example.com'],
    ['*@*.com', 'anna@example.com'],
    ['*nna@example.com', 'anna@example.com'],
    ['@example.com', 'anna@example.com'],
    ['example.com', 'anna@example.com'],
    // Lower-casing turns these letters into ASCII ones.
    ['*@kiosk.example', 'anna@\u212aiosk.example'],
    ['kim@example.com', '\u212aim@example.com'],
    ['*@\u212aiosk.example', 'anna@kiosk.example'],
    ['*@i.example', 'anna@\u0130.example'],
    ['*@example.com', 'anna@ｅxample.com'],
    ['*@example.com', 'anna@ex\u00adample.com'],
    ['anna@example.com', 'ann\u0430@example.com'],
  ]
  for (const [list, email] of attacks)
    test(`${JSON.stringify(list)} does not admit ${JSON.stringify(email)}`, () => assert.ok(!allows(list, email)))

  test('admits exactly the accounts of a domain', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,5}$/)
    const domain = fc.tuple(label, label).map((labels) => labels.join('.'))
    fc.assert(
      fc.property(label, domain, domain, (local, allowed, own) => {
        assert.equal(allows(`*@${allowed}`, `${local}@${own}`), allowed === own)
        assert.ok(!allows(`*@${allowed}`, `${local}@${own}.${allowed}`))
        assert.ok(!allows(`*@${allowed}`, `${local}@${allowed}.${own}`))
      }),
    )
  })

  test('compares any address with itself in another ASCII case only', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (list, email) => {
        if (!allows(list, email)) return
        const fold = (text: string): string => text.replace(/[A-Z]/g, (letter) => letter.toLowerCase())
        const entries = list.split(',').map((entry) => fold(entry.trim()))
        assert.ok(entries.some((entry) => entry === fold(email) || entry === `*@${fold(email).split('@')[1]}`))
      }),
    )
  })
})
