import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshStore, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { timestamp } from '../lib/clock.ts'
import { audit } from '../registry/audit.ts'
import { removeAudit } from '../registry/audit-retention.ts'
import type { Tx } from '../store/engine.ts'
import { auditResource } from './audit.ts'
import { proxydRoutesResource } from './proxyd-routes.ts'
import { secretsResource } from './secrets.ts'

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

  test('counts equal refusals of one caller within a minute in one row, over processes', async (t) => {
    const store = await freshStore(t, engine)
    const [first, second] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    const { clock } = first
    const denials = async () => {
      const rows = await first.host.engine.read((tx) => audit.list(tx, { category: 'authz' }, [['id', 'asc']]))
      return rows.map(({ actor, action, key, count }) => [actor, action, key, count])
    }
    const remove = (on: TestHost, sub: string, path: string) =>
      assert.rejects(on.as(person(sub)).call(proxydRoutesResource.verbs.delete, { path }), isRefusal('forbidden'))
    const row = (actor: string, path: string, count?: number) => [actor, 'proxyd_routes.delete', path, count]
    await remove(first, 'github:1', '/a')
    assert.deepEqual(await denials(), [row('github:1', '/a')])
    clock.advance(59_999)
    for (let index = 0; index < 50; index++) await remove(index % 2 === 0 ? first : second, 'github:1', '/a')
    assert.deepEqual(await denials(), [row('github:1', '/a', 51)])
    // Another caller, another row, or a minute later.
    await remove(first, 'github:2', '/a')
    await remove(first, 'github:1', '/b')
    clock.advance(1)
    await remove(first, 'github:1', '/a')
    await remove(second, 'github:1', '/a')
    const rows = [row('github:1', '/a', 51), row('github:2', '/a'), row('github:1', '/b'), row('github:1', '/a', 2)]
    assert.deepEqual(await denials(), rows)
    const { audit: listed } = await first.cli.call(list, { category: 'authz' })
    assert.deepEqual(
      listed.map(({ count }) => count),
      [2, undefined, undefined, 51],
    )
  })

  test('never merges changes', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('team')
    const name = { scope_kind: 'folder', owner: 'team', key: 'A', value: 'x' }
    for (let index = 0; index < 3; index++) await on.cli.call(secretsResource.verbs.create, name)
    const rows = await on.host.engine.read((tx) => audit.list(tx, { action: 'secrets.create' }))
    assert.deepEqual(
      rows.map(({ count }) => count),
      [undefined, undefined, undefined],
    )
  })

  test('removes rows that are older, in steps', async (t) => {
    const on = await testHost(t, engine)
    const row = {
      category: 'authz',
      action: 'x.y',
      actor: 'github:1',
      resource: 'x',
      key: 'k',
      surface: 'rest',
    } as const
    const rest = { params_summary: '', outcome: 'denied', duration_ms: 1, instance: 'test' } as const
    const write = <T>(work: (tx: Tx) => Promise<T>) => on.host.engine.transaction(work)
    for (let day = 0; day < 5; day++) {
      await write((tx) => audit.append(tx, { ...row, ...rest, created_at: timestamp(on.clock.now()) }))
      on.clock.advance(86_400_000)
    }
    const left = () => on.host.engine.read((tx) => audit.count(tx))
    const before = on.clock.now() - 2 * 86_400_000
    const step = (after: number) => write((tx) => removeAudit(tx, { before, after, limit: 2 }))
    const { removed, next = assert.fail('there is more') } = await step(0)
    assert.deepEqual([removed, await left()], [2, 3])
    // The fourth row is exactly as old as the limit.
    assert.deepEqual([await step(next), await left()], [{ removed: 1 }, 2])
    assert.deepEqual([await step(0), await left()], [{ removed: 0 }, 2])
  })
})
