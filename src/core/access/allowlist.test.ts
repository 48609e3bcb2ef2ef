import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { openEngine } from '../../store/index.ts'
import { migrate } from '../../store/migrate.ts'
import { networkStamp } from '../change-stamps.ts'
import { networkRules, resolveAllowlist } from './allowlist.ts'

const NOW = '2026-01-01T00:00:00.000Z'
const ruleOf = (folder: string, target: string, created_by = 'cli') => ({ folder, target, created_at: NOW, created_by })

onEveryEngine('the allowlist', (engine) => {
  test('includes the default hosts once, without rows', async (t) => {
    const { host } = await testHost(t, engine)
    assert.deepEqual(await host.engine.read((tx) => networkRules.list(tx)), [])
    await host.engine.transaction((tx) => networkRules.insert(tx, ruleOf('team', 'anthropic.com')))
    const hosts = await host.engine.read((tx) => resolveAllowlist(tx, 'team'))
    assert.deepEqual(hosts, ['anthropic.com', 'api.anthropic.com'])
  })

  test('drops only the seeded rows of an older store', async (t) => {
    const store = await openEngine(await emptyStore(t, engine))
    t.after(() => store.close())
    const seededSteps = networkRules.storage.slice(0, 2)
    await migrate(store, [{ name: 'network_rules', storage: seededSteps }], () => NOW)
    const kept = [ruleOf('', 'own.example'), ruleOf('team', 'anthropic.com'), ruleOf('team', 'own.example', 'system')]
    await store.transaction(async (tx) => {
      assert.equal((await networkRules.list(tx)).length, 2)
      for (const rule of kept) await networkRules.insert(tx, rule)
    })
    await migrate(store, [networkRules], () => NOW)
    assert.deepEqual(await store.read((tx) => networkRules.list(tx)), kept)
  })

  test('changes its stamp with every insert, update and delete of a rule', async (t) => {
    const { host } = await testHost(t, engine)
    const seen = new Set<string>()
    const readStamp = async () => seen.add(await host.engine.read((tx) => networkStamp.read(tx)))
    await readStamp()
    await readStamp()
    assert.equal(seen.size, 1)
    const rule = { folder: 'team', target: 'a.example' }
    await host.engine.transaction((tx) => networkRules.insert(tx, ruleOf('team', 'a.example')))
    await readStamp()
    await host.engine.transaction((tx) => networkRules.update(tx, rule, { target: 'b.example' }))
    await readStamp()
    await host.engine.transaction((tx) => networkRules.remove(tx, { ...rule, target: 'b.example' }))
    await readStamp()
    assert.equal(seen.size, 4)
  })
})
