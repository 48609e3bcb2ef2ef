import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { ANTHROPIC_VARIABLES } from '../../core/secrets/model-variables.ts'
import { readSettings, sourceOf } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../settings.ts'
import { resolveClaudeCredentials } from './credentials.ts'

const INSTANCE_CREDENTIALS = {
  ANTHROPIC_BASE_URL: 'https://instance.example',
  ANTHROPIC_API_KEY: 'instance-key',
  CLAUDE_CODE_OAUTH_TOKEN: 'instance-token',
}
const settings = readSettings(RUNTIME_SETTINGS, [
  sourceOf('.env', new Map(Object.entries({ ...INSTANCE_CREDENTIALS, AGENT_MODEL: 'instance-model' }))),
])

suite('the credentials of a run', () => {
  test('are those of the instance if the run has no secret of its own', () => {
    assert.deepEqual(resolveClaudeCredentials(settings, { env: { OPENAI_API_KEY: 'x' } }), {
      env: INSTANCE_CREDENTIALS,
      model: 'instance-model',
      endpoint: { host: 'instance.example', port: 443, mayBePrivate: true },
    })
  })

  for (const name of ANTHROPIC_VARIABLES)
    test(`include nothing of the instance if ${name} is a secret`, () => {
      const { env, model, endpoint } = resolveClaudeCredentials(settings, { env: { [name]: 'own' } })
      assert.deepEqual([env, model], [{}, undefined])
      assert.notEqual(endpoint?.host, 'instance.example')
    })

  test('are not replaced by those of the instance if a secret could not be read', () => {
    const { env, model } = resolveClaudeCredentials(settings, { env: { ANTHROPIC_API_KEY: '' } })
    assert.deepEqual([env, model], [{}, undefined])
  })

  test('allow a private endpoint only if an operator set it', () => {
    const own = { ANTHROPIC_BASE_URL: 'http://10.0.0.1:8000' }
    const endpoint = { host: '10.0.0.1', port: 8000 }
    assert.deepEqual(resolveClaudeCredentials(settings, { env: own }).endpoint, { ...endpoint, mayBePrivate: true })
    const publicOnly = new Set(['ANTHROPIC_BASE_URL'])
    assert.deepEqual(resolveClaudeCredentials(settings, { env: own, publicOnly }).endpoint, {
      ...endpoint,
      mayBePrivate: false,
    })
    assert.equal(
      resolveClaudeCredentials(settings, { env: { ANTHROPIC_API_KEY: 'x' } }).endpoint?.host,
      'api.anthropic.com',
    )
  })
})
