import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseFixedSettings, settingRules } from './setting-rules.ts'
import { ALL_SETTINGS } from './settings.ts'

test('what is needed to open the store, to listen or to confine agents is never in the store', () => {
  const { fault } = settingRules([])
  const keys = ['DATABASE_URL', 'SECRETS_KEY', 'CHANNEL_SECRET', 'WEB_HOST', 'WEB_LISTEN', 'PROXYD_LISTEN', 'ROUTD_URL']
  const confining = ['SANDBOX', 'SANDBOX_PATHS', 'NETWORK', 'NETWORK_DENY_PRIVATE', 'ENGINE_SOCKET', 'AGENT_UID']
  for (const key of [...keys, ...confining, 'TRUSTED_PROXIES', 'SETTINGS_FIXED'])
    assert.equal(fault(key, ALL_SETTINGS[key]?.initial ?? 'x'), `${key} can only be set in .env or the environment`)
})

test('every other default can be stored, and no text of a stranger makes the check throw', () => {
  const { fault } = settingRules([])
  for (const [key, { initial, change }] of Object.entries(ALL_SETTINGS))
    if (change !== 'env' && initial !== undefined) assert.equal(fault(key, initial), undefined, key)
  fc.assert(
    fc.property(
      fc.constantFrom(...Object.keys(ALL_SETTINGS), 'OIDC_A_SECRET', '__proto__'),
      fc.string(),
      (key, text) => {
        const found = fault(key, text)
        assert.ok(found === undefined || found.startsWith(key) || found.startsWith('there is no setting'))
      },
    ),
  )
})

test('settings that SETTINGS_FIXED names cannot be in the store', () => {
  const { fault } = settingRules(parseFixedSettings(' LOG_LEVEL ,TZ,'))
  assert.equal(fault('LOG_LEVEL', 'warn'), 'LOG_LEVEL cannot be set here: SETTINGS_FIXED names it')
  assert.deepEqual([fault('TZ', 'UTC') === undefined, fault('KEEP_TURNS', '1h')], [false, undefined])
})
