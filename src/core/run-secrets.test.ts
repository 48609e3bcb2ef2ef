import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import { providerKeys } from './run-secrets.ts'
import { secretContext, secrets } from './secrets.ts'

onEveryEngine('the keys that a run is given', (engine) => {
  test('are those of model providers alone: the person’s, else the nearest folder’s', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('team', 'team/a', 'other')
    const { engine: store, keyring } = on.host
    const keep = (scope_kind: 'folder' | 'user', owner: string, key: string, plain: string) => {
      const name = { scope_kind, owner, key }
      const row = { ...name, value: keyring.seal(plain, secretContext(name)), created_at: '2026-01-01T00:00:00.000Z' }
      return store.transaction((tx) => secrets.insert(tx, row))
    }
    await keep('folder', 'team', 'OPENAI_API_KEY', 'of team')
    await keep('folder', 'team', 'ANTHROPIC_API_KEY', 'of team')
    await keep('folder', 'team/a', 'ANTHROPIC_API_KEY', 'of a')
    await keep('folder', 'team/a', 'DATABASE_PASSWORD', 'never')
    await keep('user', 'github:1', 'OPENAI_API_KEY', 'of the person')
    const keys = (folder: string, sub?: string) => store.read((tx) => providerKeys(tx, keyring, { folder, sub }))
    assert.deepEqual(await keys('team/a'), { ANTHROPIC_API_KEY: 'of a', OPENAI_API_KEY: 'of team' })
    assert.deepEqual(await keys('team/a', 'github:1'), { ANTHROPIC_API_KEY: 'of a', OPENAI_API_KEY: 'of the person' })
    assert.deepEqual(await keys('other'), {})
  })
})
