import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { formKeys, useFormKey } from './form-keys.ts'

onEveryEngine('keys of forms', (engine) => {
  test('are used once, however long they are, and kept for seven days', async (t) => {
    const { host } = await testHost(t, engine)
    const use = (key: string) => host.engine.transaction((tx) => useFormKey(tx, key, 0))
    // Not of one letter, which PostgreSQL would compress.
    const long = Array.from({ length: 20_000 }, (_, at) => String.fromCharCode(0x100 + ((at * at) % 7919))).join('')
    for (const key of ['', 'k', 'K', long, `${long}x`]) {
      await use(key)
      await assert.rejects(use(key), isRefusal('conflict', /was sent before/))
    }
    const kept = await host.engine.read((tx) => formKeys.list(tx))
    assert.deepEqual(
      [kept.length, new Set(kept.map(({ expires_at }) => expires_at))],
      [5, new Set(['1970-01-08T00:00:00.000Z'])],
    )
  })
})
