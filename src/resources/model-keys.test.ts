import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../test/support/host.ts'
import { modelKeysResource } from './model-keys.ts'

const { set, list, set_instance } = modelKeysResource.verbs

onEveryEngine('the model of the instance', (engine) => {
  test('is written to the store by operators, who see keys without their values', async (t) => {
    const at = await testHost(t, engine)
    await at.operator('github:op')
    await at.grant('github:admin', 'admin', 'main')
    const dash = (sub: string) => at.as({ kind: 'person', sub, session: 'a-session' }, 'dash')
    const changes = [
      { variable: 'AGENT_RUNTIME', value: 'openai' },
      { variable: 'OPENAI_MODEL', value: 'small' },
      { variable: 'OPENAI_PRICE_INPUT' },
    ]
    const stored = () => at.host.engine.read(async (tx) => at.host.storedSettings.read(tx))
    await assert.rejects(dash('github:admin').call(set_instance, { changes }), isRefusal('forbidden'))
    const other = [{ variable: 'SECRETS_KEY', value: 'x' }]
    await assert.rejects(dash('github:op').call(set_instance, { changes: other }), isRefusal('invalid'))
    const typed = [...changes, { variable: 'OPENAI_API_KEY', value: 'sk-secret' }]
    const fault = isRefusal('invalid', 'OPENAI_API_KEY is set by svc model, with its endpoint')
    await assert.rejects(dash('github:op').call(set_instance, { changes: typed }), fault)
    assert.deepEqual([...((await stored()).keys?.() ?? [])], [])
    await dash('github:op').call(set_instance, { changes })
    const source = await stored()
    const values = ['AGENT_RUNTIME', 'OPENAI_MODEL', 'OPENAI_PRICE_INPUT'].map((name) => source.get(name))
    assert.deepEqual(values, ['openai', 'small', ''])
    const key = { variable: 'OPENAI_API_KEY', endpoint: 'https://x.example/v1' }
    await dash('github:op').call(set, { ...key, value: 'sk-secret' })
    const { keys } = await dash('github:op').call(list, {})
    assert.deepEqual(keys, [{ ...key, created_at: '2026-01-01T00:00:00.000Z' }])
    await assert.rejects(dash('github:admin').call(list, {}), isRefusal('forbidden'))
  })
})
