import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { SEALED } from '../core/secrets/model-keys.ts'
import { type SettingSource, sourceOf } from '../lib/settings.ts'
import { ALL_SETTINGS } from './settings.ts'
import { listSettingsInForce } from './settings-in-force.ts'

const source = (name: string, entries: Record<string, string>): SettingSource =>
  sourceOf(name, new Map(Object.entries(entries)))

function find(key: string, sources: readonly SettingSource[], current?: readonly SettingSource[]) {
  const found = listSettingsInForce(sources, current).find((each) => each.key === key)
  assert.ok(found, key)
  return found
}

suite('settings in force', () => {
  test('are all declared ones, each with its default and what it is for', () => {
    const listed = listSettingsInForce([])
    assert.deepEqual(
      listed.map(({ key }) => key),
      Object.keys(ALL_SETTINGS),
    )
    assert.deepEqual(find('LOG_LEVEL', []), {
      key: 'LOG_LEVEL',
      about: 'lowest level that is logged',
      change: 'restart',
      value: 'info',
      isSecret: false,
      origin: 'default',
      isDefault: true,
      initial: 'info',
      needsRestart: false,
    })
    assert.equal(find('DATABASE_URL', []).origin, 'not set')
  })

  test('name the first source that has a value', () => {
    const sources = [source('/data/.env', { LOG_LEVEL: 'warn' }), source('the environment', { LOG_LEVEL: 'debug' })]
    const { value, origin, isDefault } = find('LOG_LEVEL', sources)
    assert.deepEqual([value, origin, isDefault], ['warn', '/data/.env', false])
  })

  test('never contain a secret value', () => {
    const secrets = {
      SECRETS_KEY: 'hidden-1',
      CHANNEL_SECRET: 'hidden-2',
      DATABASE_URL: 'postgres://u:hidden-3@host/db',
      TTS_URL: 'http://user:hidden-4@speech:80',
      OPENAI_API_KEY: 'hidden-5',
      OIDC_CORP_SECRET: 'hidden-6',
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20hidden-7',
      GITHUB_SECRET: 'hidden-8',
      POSTGRES_PASSWORD: 'hidden-9',
    }
    const listed = listSettingsInForce([source('.env', secrets)])
    assert.ok(!JSON.stringify(listed).includes('hidden'), JSON.stringify(listed.filter((each) => !each.isDefault)))
    for (const key of Object.keys(secrets)) assert.equal(listed.find((each) => each.key === key)?.isSecret, true, key)
    assert.equal(find('TTS_URL', [source('.env', { TTS_URL: 'http://speech:80' })]).value, 'http://speech:80')
    assert.equal(find('OPENAI_API_KEY', [source('.env', { OPENAI_API_KEY: SEALED })]).value, 'in the store, encrypted')
  })

  test('say which value a process cannot use', () => {
    const { fault } = find('LOG_LEVEL', [source('/data/.env', { LOG_LEVEL: 'loud' })])
    assert.match(fault ?? '', /^LOG_LEVEL in \/data\/\.env must be /)
  })

  test('keep the value of the start until a restart, except settings of models', () => {
    const [before, after] = [
      [source('.env', { LOG_LEVEL: 'warn', OPENAI_MODEL: 'old' })],
      [source('.env', { LOG_LEVEL: 'debug', OPENAI_MODEL: 'new' })],
    ]
    const level = find('LOG_LEVEL', before, after)
    assert.deepEqual([level.value, level.needsRestart], ['warn', true])
    const model = find('OPENAI_MODEL', before, after)
    assert.deepEqual([model.value, model.needsRestart], ['new', false])
  })
})
