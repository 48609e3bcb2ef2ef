import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { checkBudget } from '../core/turns/budget.ts'
import { budgetStatus, costLog, users } from '../core/turns/costs.ts'
import { timestamp } from '../lib/clock.ts'
import { auditResource } from './audit.ts'
import { groupsResource } from './groups.ts'
import { identitiesResource } from './identities.ts'
import { usersResource } from './users.ts'

onEveryEngine('identities, caps and the audit log', (engine) => {
  test('a sub belongs to one identity and moves to another only with move', async (t) => {
    const { cli, clock } = await testHost(t, engine)
    const { link, list, unlink } = identitiesResource.verbs
    const first = await cli.call(link, { sub: 'github:1', name: 'Ada' })
    assert.ok(first.created)
    assert.match(first.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    clock.advance(1)
    const second = await cli.call(link, { sub: 'google:2' })
    assert.equal(second.name, 'google:2')
    clock.advance(1)
    for (const target of [{ id: first.id }, { name: 'Else' }, {}])
      await assert.rejects(
        cli.call(link, { sub: 'google:2', ...target }),
        isRefusal('conflict', `google:2 belongs to google:2 (${second.id})`),
      )
    assert.equal((await cli.call(list, {})).identities.length, 2)
    const moved = { id: first.id, name: 'Ada', created: false }
    assert.deepEqual(await cli.call(link, { sub: 'google:2', id: first.id, name: 'ignored', move: true }), moved)
    // Linking to the same person again changes nothing and needs no flag.
    assert.deepEqual(await cli.call(link, { sub: 'google:2', id: first.id }), moved)
    const { identities } = await cli.call(list, {})
    assert.deepEqual(
      identities.map(({ name, subs }) => [name, subs]),
      [
        ['Ada', ['github:1', 'google:2']],
        ['google:2', []],
      ],
    )
    assert.deepEqual(await cli.call(unlink, { sub: 'google:2' }), { removed: true })
    assert.deepEqual(await cli.call(unlink, { sub: 'google:2' }), { removed: false })
  })

  test('linking to an unknown identity or an invalid sub is refused', async (t) => {
    const { as, cli } = await testHost(t, engine)
    const { link, list } = identitiesResource.verbs
    await assert.rejects(cli.call(link, { sub: 'github:1', id: 'nobody' }), isRefusal('not_found', 'nobody'))
    await assert.rejects(cli.call(link, { sub: 'github' }), isRefusal('invalid', 'sub'))
    await assert.rejects(as(person('github:1')).call(link, { sub: 'github:1' }), isRefusal('forbidden'))
    assert.deepEqual((await cli.call(list, {})).identities, [])
  })

  test('a cap counts the spend of today in UTC, separately for folders and people', async (t) => {
    const { host, cli, groups } = await testHost(t, engine)
    await groups('team')
    const cost = { model: 'm', input_tokens: 1, output_tokens: 1, folder: 'team', user_sub: 'github:1' }
    await host.engine.transaction(async (tx) => {
      await costLog.insert(tx, { ...cost, turn_id: 'a', cost_cents: 80, recorded_at: '2026-01-01T00:00:00.000Z' })
      await costLog.insert(tx, { ...cost, turn_id: 'b', cost_cents: 500, recorded_at: '2025-12-31T23:59:59.999Z' })
      await costLog.insert(tx, {
        ...cost,
        turn_id: 'c',
        cost_cents: 7,
        recorded_at: '2026-01-01T00:00:00.000Z',
        user_sub: 'github:2',
      })
    })
    const { set_budget, budget } = groupsResource.verbs
    assert.deepEqual(await cli.call(budget, { folder: 'team' }), { spent: 87 })
    await cli.call(set_budget, { folder: 'team', daily: 100 })
    assert.deepEqual(await cli.call(budget, { folder: 'team' }), { spent: 87, cap: 100, status: 'WARN' })
    await cli.call(usersResource.verbs.set_budget, { sub: 'github:1', daily: 79 })
    assert.deepEqual(await cli.call(usersResource.verbs.budget, { sub: 'github:1' }), {
      spent: 80,
      cap: 79,
      status: 'EXHAUSTED',
    })
    await cli.call(set_budget, { folder: 'team', daily: 0 })
    assert.deepEqual(await cli.call(budget, { folder: 'team' }), { spent: 87 })
    await assert.rejects(cli.call(set_budget, { folder: 'nobody', daily: 1 }), isRefusal('not_found'))
    for (const daily of [-1, 1.5, 2 ** 63, '5']) {
      await assert.rejects(cli.call(set_budget, { folder: 'team', daily }), isRefusal('invalid', 'daily'))
    }
  })

  test('a cap can be set only for people whose turns are counted, and removed for anyone', async (t) => {
    const { host, cli, groups } = await testHost(t, engine)
    await groups('team')
    const { set_budget } = usersResource.verbs
    const subs = [
      'google:1',
      'github:1',
      'local:ada',
      'oidc:1',
      'telegram:1',
      'anon:1',
      'githubb:1',
      'folder:team',
      'GitHub:1',
    ]
    const now = timestamp(host.clock.now())
    for (const sub of subs) {
      // Earlier versions stored such rows.
      await host.engine.transaction((tx) => users.insert(tx, { sub, cost_cap_cents_per_day: 1 }))
      const allowance = await host.engine.read((tx) => checkBudget(tx, { folder: 'team', sender: sub, now }))
      const isCounted = allowance.kind === 'granted' && allowance.money_cents !== undefined
      const set = cli.call(set_budget, { sub, daily: 1 })
      if (isCounted) await set
      else await assert.rejects(set, isRefusal('invalid', `a cap for ${sub} would have no effect`))
      await cli.call(set_budget, { sub, daily: 0 })
    }
    const capped = await host.engine.read((tx) => users.list(tx))
    assert.deepEqual(
      capped.filter(({ cost_cap_cents_per_day }) => cost_cap_cents_per_day !== undefined),
      [],
    )
  })

  test('the audit log is newest first and filtered before it is paged', async (t) => {
    const { as, cli, grant, groups, operator } = await testHost(t, engine)
    await groups('team', 'other')
    await operator('github:9')
    await grant('github:1', 'admin', 'team')
    const { list } = auditResource.verbs
    await assert.rejects(
      as(person('github:5', 'team')).call(groupsResource.verbs.remove, { folder: 'team' }),
      isRefusal('forbidden'),
    )
    for (const sub of ['github:6', 'github:7', 'github:8']) {
      await assert.rejects(
        as(person(sub, 'other')).call(groupsResource.verbs.remove, { folder: 'other' }),
        isRefusal('forbidden'),
      )
    }
    const { audit: all } = await as(person('github:9')).call(list, { limit: 2 })
    assert.deepEqual(
      all.map(({ actor, outcome }) => [actor, outcome]),
      [
        ['github:8', 'denied'],
        ['github:7', 'denied'],
      ],
    )
    const { audit: own } = await as(person('github:1')).call(list, { limit: 1 })
    assert.deepEqual(
      own.map(({ actor, folder, key }) => [actor, folder, key]),
      [['github:5', 'team', 'team']],
    )
    assert.deepEqual((await as(person('github:2')).call(list, {})).audit, [])
    const { audit: mutations, next } = await cli.call(list, { category: 'mutation', limit: 1 })
    assert.equal(mutations[0]?.action, 'acl.grant')
    const { audit: before } = await cli.call(list, { category: 'mutation', limit: 1, after: next })
    assert.equal(before[0]?.action, 'acl_membership.add')
    await assert.rejects(cli.call(list, { after: 'garbage' }), isRefusal('invalid', 'cursor'))
    await grant('github:9', 'admin', 'other/**', 'deny')
    const { audit: allowed } = await as(person('github:9')).call(list, { category: 'authz' })
    assert.deepEqual(
      allowed.map(({ folder }) => folder),
      ['team'],
    )
  })
})

test('the status is EXHAUSTED exactly when turns are refused, and WARN from 80 percent', () => {
  const cases: [number, number, string][] = [
    [0, 100, 'ok'],
    [79, 100, 'ok'],
    [80, 100, 'WARN'],
    [100, 100, 'WARN'],
    [101, 100, 'EXHAUSTED'],
    [1, 1, 'WARN'],
  ]
  for (const [spent, cap, status] of cases) assert.equal(budgetStatus(spent, cap), status, `${spent} of ${cap}`)
})
