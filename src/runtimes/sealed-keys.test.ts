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
  const { OPENAI_API_KEY: key } = openSealedKeys(settings, rows, keyring, (message) => warnings.push(message))
  return { key, warnings }
}

test('decrypts a sealed key for the endpoint that it was set with', () => {
  for (const OPENAI_BASE_URL of [ENDPOINT, `${ENDPOINT}/`])
    assert.deepEqual(opened({ OPENAI_BASE_URL, OPENAI_API_KEY: 'sealed' }), { key: 'sk-1', warnings: [] })
})

test('does not decrypt a sealed key for another endpoint', () => {
  const { key, warnings } = opened({ OPENAI_BASE_URL: 'https://other.example/v1', OPENAI_API_KEY: 'sealed' })
  assert.equal(key, undefined)
  assert.match(
    warnings.join(),
    /^OPENAI_API_KEY cannot be used with https:\/\/other\.example\/v1: .*set it with svc model$/,
  )
})

test('treats a missing or empty key as not set', () => {
  assert.equal(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: 'sealed' }, []).key, undefined)
  assert.deepEqual(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: '' }), { key: undefined, warnings: [] })
})

test('uses a key in .env unchanged', () => {
  assert.deepEqual(opened({ OPENAI_BASE_URL: ENDPOINT, OPENAI_API_KEY: 'sk-2' }), { key: 'sk-2', warnings: [] })
})
