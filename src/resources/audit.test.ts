import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { audit } from '../registry/audit.ts'
import { auditResource } from './audit.ts'

const { list } = auditResource.verbs

onEveryEngine('the audit log', (engine) => {
  test('shows administrators the rows of their folders only, with any filter', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team', 'team/sub', 'team/hidden', 'other')
    await on.grant('github:admin', 'admin', 'team/**')
    await on.grant('github:admin', '*', 'team/hidden', 'deny')
    const at = { created_at: '2026-01-01T00:00:00.000Z', duration_ms: 1, instance: 'test', params_summary: '' }
    await on.host.engine.transaction(async (tx) => {
      for (const folder of ['team', 'team/sub', 'team/hidden', 'other', undefined])
        for (const category of ['mutation', 'authz'] as const)
          await audit.append(tx, {
            ...{ ...at, category, action: 'x.y', actor: 'github:1', resource: 'x', key: `${folder} ${category}` },
            ...{ surface: 'rest', outcome: category === 'authz' ? 'denied' : 'ok', folder },
          })
    })
    const keys = async (input: object, caller?: Caller, face?: 'dash'): Promise<string[]> => {
      const as = caller ? on.as(caller, face) : on.cli
      const { audit: rows } = await as.call(list, { limit: 200, ...input })
      return rows.filter(({ resource }) => resource === 'x').map(({ key }) => key)
    }
    const admin: Caller = { kind: 'person', sub: 'github:admin', session: 's' }
    const own = ['team/sub authz', 'team/sub mutation', 'team authz', 'team mutation']
    for (const input of [{}, { actor: 'github:1' }, { folder: 'team' }, { folder: 'team', actor: 'github:1' }])
      assert.deepEqual(await keys(input, admin, 'dash'), own, JSON.stringify(input))
    assert.deepEqual(await keys({ category: 'authz' }, admin, 'dash'), ['team/sub authz', 'team authz'])
    for (const input of [{ folder: 'other' }, { folder: 'team/hidden' }, { actor: 'github:2' }])
      assert.deepEqual(await keys(input, admin, 'dash'), [], JSON.stringify(input))
    assert.equal((await keys({})).length, 10)
    assert.equal((await keys({ folder: 'team' })).length, 6)
  })
})
