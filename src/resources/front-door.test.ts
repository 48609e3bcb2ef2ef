import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { installedPackagesResource } from './installed-packages.ts'
import { onboardingGatesResource } from './onboarding-gates.ts'
import { proxydRoutesResource } from './proxyd-routes.ts'
import { sessionsResource } from './sessions.ts'
import { signingKeysResource } from './signing-keys.ts'

const NOW = '2026-01-01T00:00:00.000Z'

onEveryEngine('resources of the instance', (engine) => {
  test('operators create, change and remove front-door routes', async (t) => {
    const { as, operator, groups } = await testHost(t, engine)
    await groups('main', 'team')
    await operator('github:9')
    const { list, create, update, delete: remove } = proxydRoutesResource.verbs
    const byOperator = as(person('github:9'))
    const route = {
      path: '/slack/',
      backend: 'http://slack:8080',
      auth: 'public',
      preserve_headers: ['X-Sig'],
      strip_prefix: true,
    } as const
    assert.deepEqual(await byOperator.call(create, route), route)
    await assert.rejects(byOperator.call(create, route), isRefusal('conflict', '/slack/'))
    assert.equal((await byOperator.call(update, { path: '/slack/', auth: 'user' })).auth, 'user')
    assert.deepEqual((await byOperator.call(list, {})).proxyd_routes, [{ ...route, auth: 'user' }])
    await as(agent('main')).call(remove, { path: '/slack/' })
    await assert.rejects(byOperator.call(remove, { path: '/slack/' }), isRefusal('not_found'))
  })

  test('other callers cannot read or write front-door routes', async (t) => {
    const { as, grant, groups } = await testHost(t, engine)
    await groups('main', 'team')
    await grant('github:1', 'admin', 'main')
    await grant('github:2', 'admin', '*')
    const route = { path: '/x/', backend: 'http://x', auth: 'public' }
    for (const caller of [person('github:1'), person('github:2'), person('github:3'), agent('team')]) {
      await assert.rejects(as(caller).call(proxydRoutesResource.verbs.create, route), isRefusal('forbidden'))
      await assert.rejects(as(caller).call(proxydRoutesResource.verbs.list, {}), isRefusal('forbidden'))
    }
  })

  test('invalid front-door routes are refused', async (t) => {
    const { cli } = await testHost(t, engine)
    const { create, update, list } = proxydRoutesResource.verbs
    const bad: Record<string, object> = {
      'path must start with /': { path: 'x', backend: 'http://x', auth: 'public' },
      'must not contain . or ..': { path: '/a/../b', backend: 'http://x', auth: 'public' },
      'one of backend and redirect_to': { path: '/a', auth: 'public' },
      'backend must be an http': { path: '/a', backend: 'javascript:alert(1)', auth: 'public' },
      'must not contain a password': { path: '/a', backend: 'http://u:p@x', auth: 'public' },
      'redirect_to must be a path': { path: '/a', redirect_to: '//evil.example', auth: 'public' },
      'auth must be one of': { path: '/a', backend: 'http://x', auth: 'admin' },
      'preserve_headers: "X-User-Sub" cannot be preserved': {
        ...{ path: '/a', backend: 'http://x', auth: 'public' },
        preserve_headers: ['X-Sig', 'X-User-Sub'],
      },
      'gated_by must look like': { path: '/a', backend: 'http://x', auth: 'public', gated_by: 'x y' },
    }
    for (const [sentence, route] of Object.entries(bad))
      await assert.rejects(cli.call(create, route), isRefusal('invalid', sentence))
    for (const path of ['/chat/x/', '/v1'])
      await assert.rejects(
        cli.call(create, { path, redirect_to: '/x', auth: 'public' }),
        isRefusal('forbidden', `${path} belongs to the front door`),
      )
    await cli.call(create, { path: '/a', backend: 'http://x', auth: 'public' })
    await assert.rejects(cli.call(update, { path: '/a', redirect_to: '/b' }), isRefusal('conflict', 'one of backend'))
    assert.deepEqual((await cli.call(list, {})).proxyd_routes, [{ path: '/a', backend: 'http://x', auth: 'public' }])
  })

  test('gates are globs with a daily limit, and put keeps a gate disabled', async (t) => {
    const { as, cli } = await testHost(t, engine)
    const { list, create, update, put, delete: remove } = onboardingGatesResource.verbs
    await cli.call(put, { spec: 'team/*', daily_limit: 5 })
    await cli.call(update, { spec: 'team/*', enabled: false })
    await cli.call(put, { spec: 'team/*', daily_limit: 7 })
    assert.deepEqual((await cli.call(list, {})).onboarding_gates, [{ spec: 'team/*', daily_limit: 7, enabled: false }])
    await assert.rejects(cli.call(create, { spec: 'team/*', daily_limit: 1 }), isRefusal('conflict'))
    for (const spec of ['[', '', '../x', 'team/../x', 'email:*@x.org', 'a b', 'team/']) {
      await assert.rejects(cli.call(create, { spec, daily_limit: 1 }), isRefusal('invalid', 'spec'))
    }
    for (const daily_limit of [0, -1, 1.5, '5']) {
      await assert.rejects(cli.call(create, { spec: 'x', daily_limit }), isRefusal('invalid', 'daily_limit'))
    }
    await cli.call(remove, { spec: 'team/*' })
    await assert.rejects(cli.call(remove, { spec: 'team/*' }), isRefusal('not_found'))
    await assert.rejects(cli.call(update, { spec: 'team/*', enabled: true }), isRefusal('not_found'))
    await assert.rejects(as(person('github:1')).call(list, {}), isRefusal('forbidden'))
  })

  test('packages are visible to the admins of their folder', async (t) => {
    const { host, as, cli, grant, groups } = await testHost(t, engine)
    await groups('team')
    await grant('github:1', 'admin', 'team')
    const row = {
      name: 'mail',
      source: 'local',
      revision: 'local',
      installed_at: NOW,
      manifest: { routes: ['/mail/'] },
    }
    const { table } = installedPackagesResource
    await host.engine.transaction(async (tx) => {
      await table.insert(tx, { ...row, folder: '' })
      await table.insert(tx, { ...row, folder: 'team' })
    })
    const { list } = installedPackagesResource.verbs
    assert.equal((await cli.call(list, {})).installed_packages.length, 2)
    assert.deepEqual((await as(person('github:1')).call(list, {})).installed_packages, [{ ...row, folder: 'team' }])
    assert.deepEqual((await as(person('github:2')).call(list, {})).installed_packages, [])
    await assert.rejects(as(agent('team')).call(list, {}), isRefusal('forbidden'))
  })

  test('its owner and operators see a session and can revoke it once', async (t) => {
    const { host, as, operator } = await testHost(t, engine)
    await operator('github:9')
    const row = {
      sub: 'github:1',
      scope: '',
      started_at: NOW,
      renewed_at: NOW,
      expires_at: NOW,
      rotations: 0,
      status: 'active',
      kind: 'browser',
      method: 'link',
      idle_ms: 1000,
      ends_at: NOW,
    } as const
    await host.engine.transaction(async (tx) => {
      for (const family_id of ['one', 'two']) await sessionsResource.table.insert(tx, { ...row, family_id })
    })
    const { list, delete: revoke } = sessionsResource.verbs
    assert.equal((await as(person('github:9')).call(list, {})).sessions.length, 2)
    assert.equal((await as(person('github:2')).call(list, {})).sessions.length, 0)
    await assert.rejects(as(person('github:2')).call(revoke, { family_id: 'one' }), isRefusal('not_found'))
    await as(person('github:1')).call(revoke, { family_id: 'one' })
    await assert.rejects(
      as(person('github:1')).call(revoke, { family_id: 'one' }),
      isRefusal('not_found', 'ended already'),
    )
    await as(person('github:9')).call(revoke, { family_id: 'two' })
    await assert.rejects(as(person('github:9')).call(revoke, { family_id: 'three' }), isRefusal('not_found'))
  })

  test('signing keys are listed without key material, and only one can be active', async (t) => {
    const { host, as, operator } = await testHost(t, engine)
    await operator('github:9')
    const key = {
      alg: 'ES256',
      status: 'active',
      active: true,
      public_jwk: '{"x":1}',
      private_sealed: new Uint8Array([1]),
      created_at: NOW,
    } as const
    await host.engine.transaction((tx) => signingKeysResource.table.insert(tx, { ...key, kid: 'a' }))
    const second = host.engine.transaction((tx) => signingKeysResource.table.insert(tx, { ...key, kid: 'b' }))
    await assert.rejects(second, isRefusal('conflict'))
    const { signing_keys } = await as(person('github:9')).call(signingKeysResource.verbs.list, {})
    assert.deepEqual(signing_keys, [{ kid: 'a', alg: 'ES256', active: true, status: 'active', created_at: NOW }])
    await assert.rejects(as(person('github:1')).call(signingKeysResource.verbs.list, {}), isRefusal('forbidden'))
  })
})
