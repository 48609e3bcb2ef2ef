import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openKeyring } from '../core/secrets/keyring.ts'
import { modelKeyContext } from '../core/secrets/model-keys.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { openSealedKeys } from './sealed-keys.ts'
import { RUNTIME_SETTINGS } from './settings.ts'

const keyring = openKeyring('a key of the tests')
const ENDPOINT = 'https://models.example/v1'
const variable = 'OPENAI_API_KEY' as const
const row = {
  variable,
  endpoint: ENDPOINT,
  value: keyring.seal('sk-1', modelKeyContext({ variable, endpoint: ENDPOINT })),
  created_at: '2026-01-01T00:00:00.000Z',
}

function opened(entries: Record<string, string>, rows = [row]): { key: string | undefined; warnings: string[] } {
  const warnings: string[] = []
  const settings = readSettings(RUNTIME_SETTINGS, [sourceOf('the test', new Map(Object.entries(entries)))])
  const { OPENAI_API_KEY: key } = openSealedKeys(settings, rows, keyring, (sentence) => warnings.push(sentence))
  return { key, warnings }
}

test('a key that .env leaves to the store is opened for the endpoint that it was set with', () => {
  for (const OPENAI_BASE_URL of [ENDPOINT, `${ENDPOINT}/`])
    assert.deepEqual(opened({ OPENAI_BASE_URL, OPENAI_API_KEY: 'sealed' }), { key: 'sk-1', warnings: [] })
})

test('after the endpoint was changed the key does not open, so it is sent nowhere else', () => {
  const { key, warnings } = opened({ OPENAI_BASE_URL: 'https://other.example/v1', OPENAI_API_KEY: 'sealed' })
  assert.equal(key, undefined)
  assert.match(
    warnings.join(),
    /^OPENAI_API_KEY cannot be used with https:\/\/other\.example\/v1: .*svc model sets it$/,
  )
})

test('a key that is not in the store is none, and so is an empty one', () => {
  assert.equal(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: 'sealed' }, []).key, undefined)
  assert.deepEqual(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: '' }), { key: undefined, warnings: [] })
})

test('a key in .env itself is used as it is', () => {
  assert.deepEqual(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: 'sk-2' }), { key: 'sk-2', warnings: [] })
})
