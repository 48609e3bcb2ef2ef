import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { isRunFault } from '../../../test/support/runtimes.ts'
import { readSettings, sourceOf } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../settings.ts'
import { resolveOpenaiEndpoint } from './endpoint.ts'

const INSTANCE_ENDPOINT = {
  OPENAI_BASE_URL: 'https://instance.example/v1',
  OPENAI_MODEL: 'instance-model',
  OPENAI_API_KEY: 'instance-key',
}

function endpoint(env: Record<string, string>, config = {}, instance: Record<string, string> = INSTANCE_ENDPOINT) {
  const settings = readSettings(RUNTIME_SETTINGS, [sourceOf('.env', new Map(Object.entries(instance)))])
  const { baseUrl, model, apiKey } = resolveOpenaiEndpoint(settings, { env, config })
  return [baseUrl, model, apiKey]
}

suite('the endpoint of a run', () => {
  test('is the one of the instance if the run has no secret of its own', () => {
    assert.deepEqual(endpoint({ GITHUB_TOKEN: 'x' }), ['https://instance.example/v1', 'instance-model', 'instance-key'])
  })

  test('is the public one, not the one of the instance, for a key of the run', () => {
    const own = { OPENAI_API_KEY: 'own' }
    assert.deepEqual(endpoint(own, { model: 'm' }), ['https://api.openai.com/v1', 'm', 'own'])
    assert.throws(
      () => endpoint(own),
      isRunFault('terminal', /set the secret OPENAI_MODEL beside the other OPENAI_ secrets/),
    )
  })

  test('gets no key or model of the instance with a base URL of the run', () => {
    const own = { OPENAI_BASE_URL: 'http://127.0.0.1:9/v1', OPENAI_MODEL: 'own-model' }
    assert.deepEqual(endpoint(own), ['http://127.0.0.1:9/v1', 'own-model', undefined])
    assert.throws(
      () => endpoint({ ...own, OPENAI_BASE_URL: 'https://own.example/v1' }),
      isRunFault('terminal', /OPENAI_API_KEY is not set/),
    )
  })

  test('gets nothing of the instance with a model of the run', () => {
    assert.throws(() => endpoint({ OPENAI_MODEL: 'own-model' }), isRunFault('terminal', /OPENAI_API_KEY is not set/))
  })

  test('uses the model in the config of the group with any endpoint', () => {
    assert.equal(endpoint({}, { model: 'of-the-group' })[1], 'of-the-group')
    assert.equal(endpoint({ OPENAI_API_KEY: 'k', OPENAI_MODEL: 'own' }, { model: 'of-the-group' })[1], 'of-the-group')
  })

  test('is not replaced by another one if a secret could not be read', () => {
    const unreadable = { OPENAI_BASE_URL: '', OPENAI_API_KEY: 'own', OPENAI_MODEL: 'm' }
    assert.throws(() => endpoint(unreadable), isRunFault('terminal', /OPENAI_BASE_URL is not an HTTP URL/))
    assert.throws(
      () => endpoint({ OPENAI_API_KEY: '', OPENAI_MODEL: 'm' }),
      isRunFault('terminal', /OPENAI_API_KEY is not/),
    )
  })

  test('must be an HTTP URL', () => {
    for (const url of ['nowhere', 'file:///etc/passwd', 'http://'])
      assert.throws(
        () => endpoint({ OPENAI_BASE_URL: url, OPENAI_MODEL: 'm' }),
        isRunFault('terminal', /is not an HTTP URL/),
      )
  })
})
