import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { ANTHROPIC_VARIABLES } from '../../core/model-variables.ts'
import { readSettings, sourceOf } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../settings.ts'
import { credentialsOf } from './credentials.ts'

const OF_INSTANCE = {
  ANTHROPIC_BASE_URL: 'https://instance.example',
  ANTHROPIC_API_KEY: 'instance-key',
  CLAUDE_CODE_OAUTH_TOKEN: 'instance-token',
}
const settings = readSettings(RUNTIME_SETTINGS, [
  sourceOf('.env', new Map(Object.entries({ ...OF_INSTANCE, AGENT_MODEL: 'instance-model' }))),
])

suite('the credentials of a run', () => {
  test('are the instance’s if no secret is among them', () => {
    assert.deepEqual(credentialsOf(settings, { env: { OPENAI_API_KEY: 'x' } }), {
      env: OF_INSTANCE,
      model: 'instance-model',
    })
  })

  for (const name of ANTHROPIC_VARIABLES)
    test(`are none of the instance’s if ${name} is a secret`, () => {
      assert.deepEqual(credentialsOf(settings, { env: { [name]: 'own' } }), { env: {} })
    })

  test('that could not be read are not replaced by the instance’s', () => {
    assert.deepEqual(credentialsOf(settings, { env: { ANTHROPIC_API_KEY: '' } }), { env: {} })
  })
})
