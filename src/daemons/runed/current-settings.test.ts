import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { modelKeyContext, modelKeys } from '../../core/secrets/model-keys.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { CurrentSettings } from './current-settings.ts'

const ENDPOINT = 'http://127.0.0.1:9/v1'
const written = (entries: Record<string, string>): readonly SettingSource[] => [
  sourceOf('.env', new Map(Object.entries(entries))),
]

onEveryEngine('the settings of a turn', (engine) => {
  test('are those in .env when it starts, and the same object until something changes', async (t) => {
    const { host } = await testHost(t, engine)
    let sources = written({ OPENAI_MODEL: 'one', SANDBOX: 'none', TURN_HANG: '1m' })
    const warnings: string[] = []
    const current = new CurrentSettings({
      host,
      initial: readSettings(RUNTIME_SETTINGS, sources),
      sources: async () => sources,
      warn: (sentence) => warnings.push(sentence),
    })
    const first = await current.read()
    assert.equal(first.settings.OPENAI_MODEL, 'one')
    assert.equal(await current.read(), first)
    sources = written({ OPENAI_MODEL: 'two', SANDBOX: 'bwrap', TURN_HANG: '2m' })
    const { settings, mark } = await current.read()
    assert.deepEqual([settings.OPENAI_MODEL, settings.TURN_HANG], ['two', 120_000])
    assert.equal(settings.SANDBOX, 'none', 'cells were made at the start')
    assert.notEqual(mark, first.mark)
    assert.deepEqual(warnings, [])
  })

  test('stay unchanged while .env is invalid, which is logged once', async (t) => {
    const { host } = await testHost(t, engine)
    const good = written({ OPENAI_MODEL: 'one' })
    let sources = async (): Promise<readonly SettingSource[]> => good
    const warnings: string[] = []
    const initial = readSettings(RUNTIME_SETTINGS, good)
    const warn = (sentence: string): void => void warnings.push(sentence)
    const current = new CurrentSettings({ host, initial, sources: () => sources(), warn })
    const first = await current.read()
    sources = async () => written({ AGENT_RUNTIME: 'opnai' })
    for (let count = 0; count < 2; count++) assert.equal(await current.read(), first)
    assert.match(
      warnings.join('\n'),
      /^invalid settings, the previous ones stay in use: AGENT_RUNTIME in \.env must be one of .*opnai"$/,
    )
    sources = async () => refuse('invalid', '.env line 3 must look like KEY=value')
    assert.equal(await current.read(), first)
    assert.equal(warnings.length, 2)
    sources = async () => written({ OPENAI_MODEL: 'three' })
    assert.equal((await current.read()).settings.OPENAI_MODEL, 'three')
  })

  test('contain the sealed key, and a new one as soon as it is set', async (t) => {
    const { host } = await testHost(t, engine)
    const sources = written({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: 'sealed' })
    const warnings: string[] = []
    const current = new CurrentSettings({
      host,
      initial: readSettings(RUNTIME_SETTINGS, sources),
      sources: async () => sources,
      warn: (sentence) => warnings.push(sentence),
    })
    assert.equal((await current.read()).settings.OPENAI_API_KEY, undefined)
    assert.deepEqual(warnings, ['OPENAI_API_KEY is not in the store; set it with svc model'])
    const name = { variable: 'OPENAI_API_KEY' as const, endpoint: ENDPOINT }
    for (const key of ['sk-1', 'sk-2']) {
      const value = host.keyring.seal(key, modelKeyContext(name))
      const row = { ...name, value, created_at: '2026-01-01T00:00:00.000Z' }
      await host.engine.transaction((tx) => modelKeys.upsert(tx, row))
      assert.equal((await current.read()).settings.OPENAI_API_KEY, key)
    }
  })
})
