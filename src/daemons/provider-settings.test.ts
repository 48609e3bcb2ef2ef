import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../test/support/host.ts'
import { serveHost } from '../../test/support/served-host.ts'
import { environment } from '../lib/environment.ts'
import { Refusal } from '../lib/refusal.ts'
import { sourceOf, unknownKeys } from '../lib/settings.ts'
import { readProviderSettings } from './provider-settings.ts'
import { ALL_SETTINGS, isOpenIdKey } from './settings.ts'

const from = (entries: Record<string, string>) => sourceOf('.env', new Map(Object.entries(entries)))
const CORP = { OIDC_CORP_ISSUER: 'https://id.example/', OIDC_CORP_ID: 'an id', OIDC_CORP_SECRET: 'hunter2hunter2' }

suite('settings of providers', () => {
  test('name any number of OpenID providers, GitHub and Discord', () => {
    const read = readProviderSettings([
      from({ ...CORP, OIDC_A1_ID: 'x', OIDC_A1_SECRET: ' y ', OIDC_A1_ISSUER: 'http://127.0.0.1:99/realm' }),
      from({ GITHUB_ID: 'g', GITHUB_SECRET: 's', OIDC_CORP_ID: 'of a later source' }),
    ])
    assert.deepEqual(read.github, { id: 'g', secret: 's' })
    assert.equal(read.discord, undefined)
    assert.deepEqual(
      read.openId.map(({ name, issuer, id, secret }) => [name, issuer.href, id, secret]),
      [
        ['a1', 'http://127.0.0.1:99/realm', 'x', 'y'],
        ['corp', 'https://id.example/', 'an id', 'hunter2hunter2'],
      ],
    )
  })

  test('are found in the environment too, and empty ones do not count', () => {
    assert.ok([...(environment().keys?.() ?? [])].includes('PATH'))
    const empty = { OIDC_CORP_ISSUER: '', OIDC_CORP_ID: ' ', OIDC_CORP_SECRET: '', GITHUB_ID: '' }
    assert.deepEqual(readProviderSettings([from(empty)]).openId, [])
    // A source that cannot list its keys has none of them.
    assert.deepEqual(readProviderSettings([{ name: 'flags', get: () => undefined }]).openId, [])
  })

  test('with half a provider stop the start and name the missing key', () => {
    for (const missing of Object.keys(CORP))
      assert.throws(
        () => readProviderSettings([from({ ...CORP, [missing]: '' })]),
        isRefusal('invalid', new RegExp(`^${missing} is missing: OIDC_CORP_`)),
      )
    for (const [given, missing] of [
      ['GITHUB_ID', 'GITHUB_SECRET'],
      ['DISCORD_SECRET', 'DISCORD_ID'],
    ] as const)
      assert.throws(() => readProviderSettings([from({ [given]: 'x' })]), isRefusal('invalid', `${missing} is missing`))
  })

  test('stop the start of authd', async (t) => {
    await assert.rejects(
      serveHost(t, { daemons: ['authd'], settings: { OIDC_CORP_ID: 'x' } }),
      isRefusal('invalid', 'OIDC_CORP_ISSUER is missing'),
    )
  })

  test('refuse issuers that are not plain https URLs, without showing them', () => {
    for (const issuer of [
      ...['id.example', 'http://id.example', 'https://user:pass@id.example', 'https://id.example?a=1'],
      ...['https://id.example#x', 'ftp://id.example', 'javascript:alert(1)', 'http://127.0.0.1.evil.example'],
      ...['http://localhost.evil.example', 'https://', 'hunter2'],
    ]) {
      const check = isRefusal('invalid', 'OIDC_CORP_ISSUER must be the https URL')
      assert.throws(() => readProviderSettings([from({ ...CORP, OIDC_CORP_ISSUER: issuer })]), check, issuer)
    }
    for (const issuer of ['http://localhost:8080', 'http://[::1]/x', 'https://id.example/realms/a'])
      assert.equal(readProviderSettings([from({ ...CORP, OIDC_CORP_ISSUER: issuer })]).openId.length, 1, issuer)
  })

  test('refuse names that are not capital letters and digits, up to 32 of them', () => {
    const named = (name: string) =>
      from({ [`OIDC_${name}_ID`]: 'x', [`OIDC_${name}_SECRET`]: 'x', [`OIDC_${name}_ISSUER`]: 'https://a.example' })
    for (const name of ['A', 'A'.repeat(32), 'A9']) assert.equal(readProviderSettings([named(name)]).openId.length, 1)
    for (const name of ['', 'a', 'Corp', '9A', 'A_B', 'A-B', 'A'.repeat(33), '\u212a', 'A/..'])
      assert.throws(
        () => readProviderSettings([named(name)]),
        isRefusal('invalid', /^OIDC_.*: the name between OIDC_ and _/s),
        name,
      )
  })

  test('refuse an OpenID provider with the name of a configured built-in one', () => {
    const github = { OIDC_GITHUB_ISSUER: 'https://a.example', OIDC_GITHUB_ID: 'x', OIDC_GITHUB_SECRET: 'x' }
    assert.equal(readProviderSettings([from(github)]).openId[0]?.name, 'github')
    assert.throws(
      () => readProviderSettings([from({ ...github, GITHUB_ID: 'x', GITHUB_SECRET: 'x' })]),
      isRefusal('invalid', 'OIDC_GITHUB_ID and GITHUB_ID configure two providers named github'),
    )
    // Discord's subs have the same form as those of an OpenID provider with its name.
    const discord = { OIDC_DISCORD_ISSUER: 'https://a.example', OIDC_DISCORD_ID: 'x', OIDC_DISCORD_SECRET: 'x' }
    assert.throws(
      () => readProviderSettings([from({ ...discord, DISCORD_ID: 'x', DISCORD_SECRET: 'x' })]),
      isRefusal('invalid', 'two providers named discord'),
    )
  })

  test('never show a value in an error', () => {
    const key = fc.constantFrom(
      'OIDC_A_ID',
      'OIDC_A_SECRET',
      'OIDC_A_ISSUER',
      'OIDC_a_ID',
      'GITHUB_ID',
      'GITHUB_SECRET',
    )
    const value = fc.constantFrom('hunter2', 'https://u:hunter2@a.example', '', 'https://a.example')
    fc.assert(
      fc.property(fc.dictionary(key, value), (entries) => {
        try {
          readProviderSettings([from(entries)])
        } catch (error) {
          if (!(error instanceof Refusal)) throw error
          assert.ok(!`${error.message} ${error.hint}`.includes('hunter2'), error.message)
        }
      }),
    )
  })

  test('are known keys of a .env; a typing error is not', () => {
    const entries = new Map(Object.keys({ ...CORP, GITHUB_ID: '', OIDC_CORP_ISSUR: '' }).map((key) => [key, 'x']))
    assert.deepEqual(
      unknownKeys(ALL_SETTINGS, entries, isOpenIdKey).map(({ key }) => key),
      ['OIDC_CORP_ISSUR'],
    )
  })
})
