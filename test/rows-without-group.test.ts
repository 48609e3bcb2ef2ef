// Rows that refer to removed groups, or to directories that are not groups: every export applies anywhere.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acl, aclMembership } from '../src/core/access/acl.ts'
import { networkRules } from '../src/core/access/allowlist.ts'
import { bindWebHost, webHosts } from '../src/core/links/web-hosts.ts'
import { webRoutes } from '../src/core/links/web-routes.ts'
import { onboardingGates } from '../src/core/people/onboarding-gates.ts'
import { routes } from '../src/core/routing/routes.ts'
import { scheduledTasks } from '../src/core/schedule/tasks.ts'
import { secrets } from '../src/core/secrets/secrets.ts'
import { groupsResource } from '../src/resources/groups.ts'
import type { Tx } from '../src/store/engine.ts'
import { isRefusal, onEveryEngine, type TestHost, testHost } from './support/host.ts'
import { applied, exportOf, keysOf, SHAPES } from './support/manifest.ts'

const THEN = '2026-01-01T00:00:00.000Z'
const BY = { granted_by: 'cli', granted_at: THEN }

/** A row of each exported resource that refers to the group `gone`; undefined if its rows refer to no group. */
const ROWS: Record<string, ((tx: Tx) => Promise<unknown>) | undefined> = {
  acl: (tx) =>
    acl.insert(tx, {
      ...{ principal: 'folder:gone', action: 'mcp:add_route', scope: 'gone/**', effect: 'allow' },
      ...{ params: '', predicate: '', ...BY },
    }),
  acl_membership: (tx) =>
    aclMembership.insertIfMissing(tx, { subject: 'folder:gone', role: 'role:crew', added_by: 'cli', added_at: THEN }),
  // The group below a removed one stays.
  groups: undefined,
  network_rules: (tx) =>
    networkRules.insert(tx, { folder: 'gone', target: 'a.example', created_at: THEN, created_by: 'cli' }),
  onboarding_gates: (tx) => onboardingGates.insert(tx, { spec: 'gone', daily_limit: 1, enabled: true }),
  proxyd_routes: undefined,
  routes: (tx) => routes.append(tx, { seq: 0, match: 'room=1', target: 'gone#observe' }),
  scheduled_tasks: (tx) =>
    scheduledTasks.insert(tx, {
      ...{ id: 'task-1', owner: 'gone', chat_jid: 'slack:1', prompt: 'x', cron: '0 0 1 1 *', status: 'active' },
      ...{ context_mode: 'group', next_run: '2027-01-01T00:00:00.000Z', created_at: THEN },
    }),
  secrets: (tx) =>
    secrets.insert(tx, {
      ...{ scope_kind: 'folder', owner: 'gone', key: 'API_KEY', value: Buffer.from('sealed'), created_at: THEN },
    }),
  settings: undefined,
  web_hosts: (tx) => webHosts.insert(tx, { hostname: 'gone.example', folder: 'gone' }),
  web_routes: (tx) =>
    webRoutes.insert(tx, { path_prefix: '/pub/gone/', access: 'public', folder: 'gone', created_at: THEN }),
}
/** What of these `group rm` keeps. */
const KEPT = ['acl', 'acl_membership', 'network_rules', 'onboarding_gates', 'routes', 'scheduled_tasks']

const write = ({ host }: TestHost, work: (tx: Tx) => Promise<unknown>) => host.engine.transaction(work)

/** Without the version, and without secrets, which apply ignores. */
async function bodyOf(svc: TestHost): Promise<string> {
  return (await exportOf(svc)).replace(/^config_version: \d+\n/, '').replace(/^secrets:.*\n(?: .*\n)*/m, '')
}

onEveryEngine('a row of a removed group', (engine) => {
  test('is tried for every exported resource', () =>
    assert.deepEqual(SHAPES.map(({ name }) => name).sort(), Object.keys(ROWS)))

  test('leaves an export that applies to its own instance and to a new one, which names the rows', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'gone', 'gone/below')
    await write(svc, async (tx) => {
      for (const insert of Object.values(ROWS)) await insert?.(tx)
    })
    await svc.cli.call(groupsResource.verbs.remove, { folder: 'gone' })
    const text = await exportOf(svc)
    for (const name of KEPT) assert.match(text, new RegExp(`^${name}:\\n(?: .*\\n)*.*\\bgone\\b`, 'm'))

    const again = await applied(svc, text)
    assert.deepEqual([keysOf(again), again.effects], [{}, []])

    const fresh = await testHost(t, engine)
    await fresh.groups('main')
    const { effects } = await applied(fresh, text, { force: true })
    const [found, ...others] = effects.filter(({ folder }) => folder === 'gone')
    assert.deepEqual(others, [])
    assert.match(
      found?.without_group ?? '',
      /^1 route \(room=1\), 6 tasks \(gone-mem-0, .*\), 1 network rule \(a\.example\), 1 grant \(folder:gone mcp:add_route gone\/\*\*\), 2 roles \(.*\), 1 gate \(gone\)$/,
    )
    assert.equal(await bodyOf(fresh), await bodyOf(svc))

    await fresh.cli.call(groupsResource.verbs.remove, { folder: 'gone', purge: true })
    assert.doesNotMatch(await exportOf(fresh), /\bgone\b(?!\/below)/)
  })

  test('is accepted in each part of an export alone', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'gone')
    await write(svc, async (tx) => {
      for (const insert of Object.values(ROWS)) await insert?.(tx)
    })
    await svc.cli.call(groupsResource.verbs.remove, { folder: 'gone' })
    const parts = (await exportOf(svc)).split(/^(?=[a-z_]+:)/m)
    const fresh = await testHost(t, engine)
    await fresh.groups('main')
    for (const name of Object.keys(ROWS)) {
      const part = parts.find((text) => text.startsWith(`${name}:`)) ?? assert.fail(name)
      const { effects } = await applied(fresh, `config_version: 1\n${part}`, { force: true })
      assert.deepEqual([name, effects.map(({ folder }) => folder)], [name, KEPT.includes(name) ? ['gone'] : []])
      if (name !== 'secrets') assert.ok((await exportOf(fresh)).includes(part), name)
    }
  })

  test('is named once: by the change that adds it, and not by the removal of the group or a later apply', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main', 'team')
    const text = await exportOf(svc)
    const without = text.replace(/^ {2}- folder: team\n(?: {4}.*\n)*/m, '')
    const removal = await applied(svc, without)
    assert.deepEqual(
      removal.effects.map(({ folder, stays, without_group }) => [folder, stays?.slice(0, 7), without_group]),
      [['team', '5 tasks', undefined]],
    )
    const task = '  - {id: new, owner: nope, chat_jid: main, prompt: p, status: active, context_mode: group}\n'
    const added = without.replace(/^scheduled_tasks:\n/m, `scheduled_tasks:\n${task}`)
    const [effect, ...more] = (await applied(svc, added, { force: true })).effects
    assert.deepEqual([effect, more], [{ folder: 'nope', without_group: '1 task (new)' }, []])
    const moved = added.replace('owner: nope', 'owner: nowhere')
    assert.deepEqual((await applied(svc, moved, { force: true })).effects, [
      { folder: 'nowhere', without_group: '1 task (new)' },
    ])
    assert.deepEqual((await applied(svc, moved, { force: true })).effects, [])
  })
})

onEveryEngine('a web host of a directory that is not a group', (engine) => {
  test('applies to another instance, and rm --purge removes it there', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    await write(svc, (tx) => bindWebHost(tx, 'docs.example', 'docs'))
    const text = await exportOf(svc)
    assert.deepEqual(keysOf(await applied(svc, text)), {})
    const fresh = await testHost(t, engine)
    await fresh.groups('main')
    const { effects } = await applied(fresh, text, { force: true })
    assert.deepEqual(effects, [{ folder: 'docs', without_group: '1 web host (docs.example)' }])
    assert.equal(await bodyOf(fresh), await bodyOf(svc))
    await assert.rejects(fresh.cli.call(groupsResource.verbs.remove, { folder: 'docs' }), isRefusal('not_found'))
    const removed = await fresh.cli.call(groupsResource.verbs.remove, { folder: 'docs', purge: true })
    const rows = [{ folder: 'docs', kind: 'web host', names: ['docs.example'] }]
    assert.deepEqual(removed, { is_group: false, ends: [], stays: rows })
    assert.match(await exportOf(fresh), /^web_hosts: \[\]$/m)
  })

  test('ends with a group that was made there later', async (t) => {
    const svc = await testHost(t, engine)
    await svc.groups('main')
    await write(svc, (tx) => bindWebHost(tx, 'docs.example', 'docs'))
    await svc.groups('docs')
    const { ends } = await svc.cli.call(groupsResource.verbs.remove, { folder: 'docs' })
    assert.deepEqual(ends, [{ folder: 'docs', kind: 'web host', names: ['docs.example'] }])
  })
})
