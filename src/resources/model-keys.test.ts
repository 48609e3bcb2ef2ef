import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../test/support/host.ts'
import { modelKeysResource } from './model-keys.ts'

const { set, list, set_instance } = modelKeysResource.verbs

onEveryEngine('the model of the instance', (engine) => {
  test('is written to .env by operators, who see keys without their values', async (t) => {
    const at = await testHost(t, engine)
    await at.operator('github:op')
    await at.grant('github:admin', 'admin', 'main')
    const dash = (sub: string) => at.as({ kind: 'person', sub, session: 'a-session' }, 'dash')
    const env = at.host.layout?.env ?? ''
    const changes = [
      { variable: 'AGENT_RUNTIME', value: 'openai' },
      { variable: 'OPENAI_MODEL', value: 'small' },
      { variable: 'AGENT_COMMAND' },
    ]
    await assert.rejects(dash('github:op').call(set_instance, { changes }), isRefusal('unavailable'))
    assert.ok(!existsSync(env))
    writeFileSync(env, '# kept\nWEB_HOST=a.example\nAGENT_COMMAND=old\n')
    await assert.rejects(dash('github:admin').call(set_instance, { changes }), isRefusal('forbidden'))
    const other = [{ variable: 'SECRETS_KEY', value: 'x' }]
    await assert.rejects(dash('github:op').call(set_instance, { changes: other }), isRefusal('invalid'))
    assert.match(readFileSync(env, 'utf8'), /AGENT_COMMAND=old/)
    await dash('github:op').call(set_instance, { changes })
    const text = readFileSync(env, 'utf8')
    assert.match(text, /^# kept\nWEB_HOST=a\.example\n/)
    assert.match(text, /^AGENT_RUNTIME=openai$/m)
    assert.doesNotMatch(text, /AGENT_COMMAND/)
    const key = { variable: 'OPENAI_API_KEY', endpoint: 'https://x.example/v1' }
    await dash('github:op').call(set, { ...key, value: 'sk-secret' })
    const { keys } = await dash('github:op').call(list, {})
    assert.deepEqual(keys, [{ ...key, created_at: '2026-01-01T00:00:00.000Z' }])
    await assert.rejects(dash('github:admin').call(list, {}), isRefusal('forbidden'))
  })
})
