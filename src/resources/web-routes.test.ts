// Web routes: which callers may publish which path, and allowed redirects.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { RefusalCode } from '../lib/refusal.ts'
import { groupsResource } from './groups.ts'
import { proxydRoutesResource } from './proxyd-routes.ts'
import { webRoutesResource } from './web-routes.ts'

const { list, create, update, set, delete: remove } = webRoutesResource.verbs
const JAN_1 = '2026-01-01T00:00:00.000Z'
const admin = person('github:1')
const operator = person('github:op')

async function openHost(...[t, engine]: Parameters<typeof testHost>): Promise<TestHost> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  await at.operator('github:op')
  return at
}

async function linesOf(at: TestHost): Promise<string[]> {
  const { web_routes } = await at.cli.call(list, {})
  return web_routes.map(({ path_prefix, access, redirect_to = '', folder }) =>
    `${path_prefix} ${access} ${redirect_to} ${folder}`.replace('  ', ' '),
  )
}

onEveryEngine('web routes', (engine) => {
  test('a person publishes for a folder that they administer', async (t) => {
    const at = await openHost(t, engine)
    const route = { path_prefix: '/pub/team/a/', access: 'public', folder: 'team/a' }
    assert.deepEqual(await at.as(admin).call(create, route), { ...route, created_at: JAN_1 })
    await assert.rejects(at.as(admin).call(create, route), isRefusal('conflict', 'has a route already'))
    const theirs = { path_prefix: '/pub/other/', access: 'public', folder: 'other' }
    await assert.rejects(at.as(admin).call(create, theirs), isRefusal('forbidden', 'on other'))
    await assert.rejects(at.as(admin).call(create, { ...theirs, folder: 'team' }), isRefusal('forbidden', 'slot'))
    await at.as(operator).call(create, theirs)
    await assert.rejects(
      at.as(operator).call(create, { ...theirs, path_prefix: '/x', folder: 'none' }),
      isRefusal('not_found', 'there is no group none'),
    )
  })

  test('an update keeps other columns, and drops the target of a former redirect', async (t) => {
    const at = await openHost(t, engine)
    const path_prefix = '/pub/team/'
    await at.as(admin).call(create, { path_prefix, access: 'redirect', redirect_to: '/pub/team/b', folder: 'team' })
    const elsewhere = await at.as(admin).call(update, { path_prefix, redirect_to: '/pub/team/c' })
    assert.deepEqual([elsewhere.access, elsewhere.redirect_to], ['redirect', '/pub/team/c'])
    const open = await at.as(admin).call(update, { path_prefix, access: 'public' })
    assert.deepEqual(open, { path_prefix, access: 'public', folder: 'team', created_at: JAN_1 })
    assert.deepEqual(await linesOf(at), ['/pub/team/ public team'])
    await assert.rejects(
      at.as(admin).call(update, { path_prefix, access: 'redirect' }),
      isRefusal('conflict', 'required'),
    )
    await assert.rejects(
      at.as(admin).call(update, { path_prefix, redirect_to: '/pub/team/c' }),
      isRefusal('conflict', 'only with access redirect'),
    )
    await assert.rejects(at.as(admin).call(update, { path_prefix, folder: 'other' }), isRefusal('invalid', 'folder'))
  })

  test('an update needs access to the folder of the route', async (t) => {
    const at = await openHost(t, engine)
    await at.as(agent('other')).call(set, { path: '/pub/other/', access: 'public' })
    const change = { path_prefix: '/pub/other/', access: 'deny' }
    await assert.rejects(at.as(admin).call(update, change), isRefusal('not_found', 'there is no web route /pub/other/'))
    await assert.rejects(at.as(admin).call(update, { ...change, path_prefix: '/none' }), isRefusal('not_found'))
    await at.as(operator).call(update, change)
    assert.deepEqual(await linesOf(at), ['/pub/other/ deny other'])
  })

  test('its folder, folders above and operators can remove a path', async (t) => {
    const at = await openHost(t, engine)
    const path_prefix = '/pub/team/a/'
    const publish = () => at.as(agent('team/a')).call(set, { path: path_prefix, access: 'public' })
    for (const caller of [agent('team/a'), agent('team'), agent('main'), admin, operator]) {
      await publish()
      await at.as(caller).call(remove, { path_prefix })
      assert.deepEqual(await linesOf(at), [])
    }
    await publish()
    // Other callers get the same error as for an unknown path.
    for (const caller of [agent('other'), person('github:2')])
      for (const path of [path_prefix, '/pub/none'])
        await assert.rejects(
          at.as(caller).call(remove, { path_prefix: path }),
          isRefusal('not_found', `there is no web route ${path}, or it is not yours`),
        )
    await assert.rejects(
      at.as(agent('a/b/c/d')).call(remove, { path_prefix }),
      isRefusal('forbidden', 'no rule of tier 3'),
    )
    assert.deepEqual(await linesOf(at), ['/pub/team/a/ public team/a'])
  })

  test('a person sets a path for their own folder', async (t) => {
    const at = await openHost(t, engine)
    await at.as(admin).call(set, { path: '/team', access: 'auth' })
    await at.as(operator).call(set, { path: '/pub/other/x', access: 'public' })
    assert.deepEqual(await linesOf(at), ['/pub/other/x public main', '/team auth team'])
    await assert.rejects(at.as(person('github:2')).call(set, { path: '/x', access: 'public' }), isRefusal('forbidden'))
  })

  test('callers see the rows of folders that they administer', async (t) => {
    const at = await openHost(t, engine)
    for (const folder of ['team', 'team/a', 'other'])
      await at.as(agent(folder)).call(set, { path: `/pub/${folder}/`, access: 'public' })
    const seen = async (caller: Parameters<TestHost['as']>[0]) =>
      (await at.as(caller).call(list, {})).web_routes.map(({ folder }) => folder)
    assert.deepEqual(await seen(admin), ['team', 'team/a'])
    assert.deepEqual(await seen(agent('team/a')), ['team/a'])
    assert.deepEqual(await seen(operator), ['other', 'team', 'team/a'])
    assert.deepEqual(await seen(person('github:2')), [])
    await assert.rejects(seen(agent('a/b/c/d')), isRefusal('forbidden'))
  })

  test('removing a folder deletes its paths', async (t) => {
    const at = await openHost(t, engine)
    for (const folder of ['team', 'other'])
      await at.as(agent(folder)).call(set, { path: `/pub/${folder}/`, access: 'auth' })
    await at.cli.call(groupsResource.verbs.remove, { folder: 'team' })
    assert.deepEqual(await linesOf(at), ['/pub/other/ auth other'])
  })

  test('each change and each refusal has one audit row, and nothing changes without it', async (t) => {
    const at = await openHost(t, engine)
    const calls = await auditedCalls(at, async () => {
      await at.as(admin).call(create, { path_prefix: '/pub/team/', access: 'public', folder: 'team' })
      await at.as(admin).call(update, { path_prefix: '/pub/team/', access: 'auth' })
      await at.as(agent('team')).call(set, { path: '/pub/team/x', access: 'public' })
      await at
        .as(agent('team'))
        .call(set, { path: '/pub/other/x', access: 'public' })
        .catch(() => {})
      await at.as(agent('team')).call(list, {})
      await at.as(admin).call(remove, { path_prefix: '/pub/team/' })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      [
        'web_routes.create /pub/team/ ok',
        'web_routes.update /pub/team/ ok',
        'web_routes.set /pub/team/x ok',
        'web_routes.set /pub/other/x denied',
        'web_routes.delete /pub/team/ ok',
      ],
    )
    await breakAudit(at)
    await assert.rejects(at.as(agent('team')).call(set, { path: '/pub/team/y', access: 'public' }), /audit/)
    await assert.rejects(at.as(admin).call(remove, { path_prefix: '/pub/team/x' }), /audit/)
    assert.deepEqual(await linesOf(at), ['/pub/team/x public team'])
  })
})

suite('path ownership', () => {
  /** The result when `team` sets the path while `other` owns /shop/ and /docs. */
  const PATHS: Record<string, 'accepted' | RefusalCode> = {
    '/pub/team': 'accepted',
    '/pub/team/': 'accepted',
    '/priv/team/x/y': 'accepted',
    '/pub/team/a/x': 'accepted',
    '/pub/teams': 'forbidden',
    '/pub/other': 'forbidden',
    '/pub/nobody-yet': 'forbidden',
    '/pub': 'forbidden',
    '/pub/': 'forbidden',
    '/priv': 'forbidden',
    '/public': 'accepted',
    '/team': 'accepted',
    '/shop': 'conflict',
    '/shop/': 'conflict',
    '/shop/cart': 'conflict',
    '/shops': 'accepted',
    '/docs': 'conflict',
    '/docs/': 'conflict',
    '/docs/intro': 'conflict',
    '/docs_': 'accepted',
    '/': 'forbidden',
    '/chat/x': 'forbidden',
    '/chatter': 'accepted',
    '/v1': 'forbidden',
  }
  for (const [path, result] of Object.entries(PATHS)) {
    test(`${path} is ${result}`, async (t) => {
      const at = await openHost(t)
      for (const theirs of ['/shop/', '/docs']) await at.as(agent('other')).call(set, { path: theirs, access: 'auth' })
      const before = await linesOf(at)
      const attempt = at.as(agent('team')).call(set, { path, access: 'public' })
      if (result === 'accepted') await attempt
      else await assert.rejects(attempt, isRefusal(result))
      assert.equal((await linesOf(at)).length - before.length, result === 'accepted' ? 1 : 0)
      // The root may set any path except those of the front door.
      const byRoot = at.as(agent('main')).call(set, { path, access: 'deny' })
      if (path === '/chat/x' || path === '/v1') await assert.rejects(byRoot, isRefusal('forbidden', 'front door'))
      else await byRoot
    })
  }

  test('the paths of the front door cannot be set, and / only by operators', async (t) => {
    const at = await testHost(t)
    await at.groups('main', 'team')
    await at.grant('folder:team', 'mcp:set_web_route', 'team')
    for (const path of [
      '/',
      '/chat',
      '/chat/x',
      '/hook/',
      '/v1/groups',
      '/auth/login',
      '/dash/',
      '/mcp',
      '/invite/x',
      '/DASH/',
      '/Chat',
    ]) {
      const claim = at.as(agent('team')).call(webRoutesResource.verbs.set, { path, access: 'deny' })
      await assert.rejects(claim, isRefusal('forbidden', 'front door'))
    }
    await at.as(agent('team')).call(webRoutesResource.verbs.set, { path: '/chatter/', access: 'deny' })
    const claim = at.as(agent('main')).call(webRoutesResource.verbs.set, { path: '/chat/x', access: 'deny' })
    await assert.rejects(claim, isRefusal('forbidden', 'front door'))
    await at.as(agent('main')).call(webRoutesResource.verbs.set, { path: '/', access: 'deny' })
  })

  test('the names of the whole host are reserved for operators, who route them to a backend', async (t) => {
    const at = await openHost(t)
    const NAMES = ['/.well-known/', '/.Well-Known/acme-challenge/', '/login', '/LOGIN/x', '/favicon.ico', '/robots.txt']
    for (const path of [...NAMES, '/apple-touch-icon.png', '/apple-touch-icon-120x120.png', '/manifest.json']) {
      for (const caller of [agent('team'), agent('main')])
        await assert.rejects(
          at.as(caller).call(set, { path, access: 'public' }),
          isRefusal('forbidden', 'front door'),
          path,
        )
    }
    for (const path of ['/loginx', '/apple-touch-icons', '/well-known/'])
      await at.as(agent('team')).call(set, { path, access: 'public' })
    const { create } = proxydRoutesResource.verbs
    for (const path of ['/.well-known/acme-challenge/', '/login', '/favicon.ico'])
      await at.cli.call(create, { path, backend: 'http://x', auth: 'public' })
    for (const path of ['/.well-known/', '/.WELL-KNOWN', '/robots.txt', '/V1/x', '/.well-known/openid-configuration'])
      await assert.rejects(
        at.cli.call(create, { path, backend: 'http://x', auth: 'public' }),
        isRefusal('forbidden'),
        path,
      )
  })

  test('a folder cannot set a path with a backend', async (t) => {
    const at = await openHost(t)
    for (const path of ['/slack/', '/'])
      await at.cli.call(proxydRoutesResource.verbs.create, { path, backend: 'http://x', auth: 'public' })
    for (const path of ['/slack', '/slack/', '/slack/events'])
      await assert.rejects(at.as(agent('team')).call(set, { path, access: 'public' }), isRefusal('conflict', '/slack/'))
    await at.as(agent('team')).call(set, { path: '/slacker', access: 'public' })
  })

  test('a redirect of a folder must point into its own slots', async (t) => {
    const at = await openHost(t)
    const go = (redirect_to: string) => at.as(agent('team')).call(set, { path: '/go', access: 'redirect', redirect_to })
    for (const to of ['/pub/team', '/priv/team/x', '/pub/team/a/']) await go(to)
    for (const to of ['/pub/other', '/pub/teams', '/v1/secrets', '/', '/pub'])
      await assert.rejects(go(to), isRefusal('forbidden'))
    for (const to of ['https://evil.example', '//evil.example', '/pub/team/../other', '/\\evil.example', ''])
      await assert.rejects(go(to), isRefusal('invalid'))
    await at.as(agent('main')).call(set, { path: '/go', access: 'redirect', redirect_to: '/pub/other' })
  })
})
