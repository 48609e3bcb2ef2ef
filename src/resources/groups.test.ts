// Groups: created and removed on the host, listed for their admins.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { groups } from '../core/groups/groups.ts'
import { firstIdAt } from '../core/messages/id-times.ts'
import { inbox } from '../core/messages/inbox.ts'
import { conversations } from '../core/turns/conversations.ts'
import { costLog } from '../core/turns/costs.ts'
import { aclMembershipResource } from './acl-membership.ts'
import { groupsResource } from './groups.ts'
import { routesResource } from './routes.ts'
import { scheduledTasksResource } from './scheduled-tasks.ts'

const { list, add, remove, set_budget, budget } = groupsResource.verbs
const JAN_1 = '2026-01-01T00:00:00.000Z'

/** All rows of a group, each as one line. */
async function rowsOf(at: TestHost): Promise<string[]> {
  const { groups } = await at.cli.call(list, { limit: 1000 })
  const { routes } = await at.cli.call(routesResource.verbs.list, { limit: 1000 })
  const { scheduled_tasks } = await at.cli.call(scheduledTasksResource.verbs.list, { limit: 1000 })
  const { acl_membership } = await at.cli.call(aclMembershipResource.verbs.list, { limit: 1000 })
  return [
    ...groups.map(({ folder, name, product }) => `group ${folder} ${name} ${product}`),
    ...routes.map(({ seq, match, target }) => `route ${seq} ${match} ${target}`),
    ...scheduled_tasks.map(({ id, next_run }) => `task ${id} ${next_run}`),
    ...acl_membership.map(({ subject, role }) => `member ${subject} ${role}`),
  ]
}

onEveryEngine('groups', (engine) => {
  test('adding creates the group with tasks, membership and route; adding again changes nothing', async (t) => {
    const at = await testHost(t, engine)
    const input = { folder: 'team/a', jid: 'telegram:group/42' }
    assert.deepEqual(await at.cli.call(add, input), { added: true, routed: 1 })
    const rows = await rowsOf(at)
    assert.deepEqual(rows, [
      'group team/a a assistant',
      'route 0 room=group/42 team/a',
      'task team/a-mem-0 2026-01-01T02:00:00.000Z',
      'task team/a-mem-1 2026-01-05T03:00:00.000Z',
      'task team/a-mem-2 2026-01-01T04:00:00.000Z',
      'task team/a-mem-3 2026-01-05T03:00:00.000Z',
      'task team/a-mem-4 2026-01-01T04:00:00.000Z',
      'member folder:team/a role:member',
    ])
    at.clock.advance(24 * 3_600_000)
    assert.deepEqual(await at.cli.call(add, { ...input, name: 'Else', product: 'else' }), { added: false, routed: 0 })
    assert.deepEqual(await rowsOf(at), rows)
    assert.deepEqual(await at.cli.call(add, { folder: 'team/a', jid: 'telegram:group/7' }), { added: false, routed: 1 })
  })

  test('a guild channel starts turns on mentions and is otherwise observed', async (t) => {
    const at = await testHost(t, engine)
    assert.deepEqual(await at.cli.call(add, { folder: 'team', jid: 'discord:1/2' }), { added: true, routed: 2 })
    await at.cli.call(add, { folder: 'dm', jid: 'discord:dm/3' })
    assert.deepEqual(
      (await rowsOf(at)).filter((line) => line.startsWith('route')),
      ['route -1 room=1/2 verb=mention team', 'route 0 room=1/2 team#observe', 'route 0 room=dm/3 dm'],
    )
  })

  test('only groups of tier 1 and 2 become members', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'a', 'a/b', 'a/b/c', 'a/b/c/d')
    assert.deepEqual(
      (await rowsOf(at)).filter((line) => line.startsWith('member')),
      ['a', 'a/b', 'a/b/c'].map((folder) => `member folder:${folder} role:member`),
    )
  })

  test('adding a group again does not restore a removed role', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await at.cli.call(aclMembershipResource.verbs.remove, { subject: 'folder:team', role: 'role:member' })
    await at.groups('team')
    assert.ok(!(await rowsOf(at)).some((line) => line.startsWith('member')))
  })

  test('invalid folders, chats and names are refused', async (t) => {
    const at = await testHost(t, engine)
    const bad: object[] = [
      {},
      { folder: '' },
      { folder: '../x' },
      { folder: 'a//b' },
      { folder: 'a/share' },
      { folder: 'a/b/c/d/e/f/g/h/i' },
      { folder: 'x'.repeat(65) },
      { folder: 'team', jid: '42' },
      { folder: 'team', name: 'a\nb' },
      { folder: 'team', open: true },
    ]
    for (const input of bad) await assert.rejects(at.cli.call(add, input), isRefusal('invalid'), JSON.stringify(input))
    assert.deepEqual(await rowsOf(at), [])
  })

  test('only the host adds, removes and caps groups', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    for (const caller of [agent('main'), person('github:op')]) {
      await assert.rejects(at.as(caller).call(add, { folder: 'main' }), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(remove, { folder: 'main' }), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(set_budget, { folder: 'main', daily: 1 }), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(budget, { folder: 'main' }), isRefusal('forbidden'))
    }
  })

  test('callers see the rows of folders that they administer', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a', 'team/a/b', 'teams', 'other')
    await at.operator('github:op')
    await at.grant('github:1', 'admin', 'team/*')
    await at.grant('github:1', 'interact', 'other')
    const seen = async (caller: Caller) => (await at.as(caller).call(list, {})).groups.map(({ folder }) => folder)
    assert.deepEqual(await seen(agent('main')), ['main', 'other', 'team', 'team/a', 'team/a/b', 'teams'])
    assert.deepEqual(await seen(agent('team')), ['team', 'team/a', 'team/a/b'])
    assert.deepEqual(await seen(agent('team/a/b')), ['team/a/b'])
    assert.deepEqual(await seen(person('github:1')), ['team/a'])
    assert.deepEqual(await seen(person('github:op')), await seen(agent('main')))
    assert.deepEqual(await seen(person('github:2')), [])
    await assert.rejects(seen(agent('a/b/c/d')), isRefusal('forbidden', 'tiers 0 to 2'))
    await at.grant('folder:team', 'mcp:refresh_groups', 'team/a/**', 'deny')
    assert.deepEqual(await seen(agent('team')), ['team'])
  })

  test('removing a missing group is refused', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'team/a')
    await at.cli.call(remove, { folder: 'team' })
    await assert.rejects(at.cli.call(remove, { folder: 'team' }), isRefusal('not_found', 'there is no group team'))
    // Groups below it are not removed.
    assert.deepEqual(
      (await at.cli.call(list, {})).groups.map(({ folder }) => folder),
      ['team/a'],
    )
  })

  test('a cap can be set, shown with the spend of today, and removed', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    assert.deepEqual(await at.cli.call(budget, { folder: 'team' }), { spent: 0 })
    await at.cli.call(set_budget, { folder: 'team', daily: 100 })
    const spend = (turn_id: string, cost_cents: number) =>
      at.host.engine.transaction((tx) =>
        costLog.insert(tx, {
          ...{ folder: 'team', turn_id, model: 'm', input_tokens: 1, output_tokens: 1 },
          ...{ cost_cents, recorded_at: JAN_1 },
        }),
      )
    for (const [id, cents, status] of [
      ['a', 79, 'ok'],
      ['b', 1, 'WARN'],
      ['c', 20, 'WARN'],
      ['d', 1, 'EXHAUSTED'],
    ] as const) {
      await spend(id, cents)
      assert.equal((await at.cli.call(budget, { folder: 'team' })).status, status, id)
    }
    at.clock.advance(24 * 3_600_000)
    assert.deepEqual(await at.cli.call(budget, { folder: 'team' }), { cap: 100, spent: 0, status: 'ok' })
    await at.cli.call(set_budget, { folder: 'team', daily: 0 })
    const row = await at.host.engine.read((tx) => groups.find(tx, { folder: 'team' }))
    assert.deepEqual([row?.cost_cap_cents_per_day, row?.updated_at], [undefined, '2026-01-02T00:00:00.000Z'])
    for (const daily of [-1, 0.5, 1e15])
      await assert.rejects(at.cli.call(set_budget, { folder: 'team', daily }), isRefusal('invalid'))
    await assert.rejects(at.cli.call(set_budget, { folder: 'none', daily: 1 }), isRefusal('not_found'))
    await assert.rejects(at.cli.call(budget, { folder: 'none' }), isRefusal('not_found'))
  })

  test('each change and each refusal has one audit row, and nothing changes without it', async (t) => {
    const at = await testHost(t, engine)
    const calls = await auditedCalls(at, async () => {
      await at.cli.call(add, { folder: 'team', jid: 'telegram:1' })
      await at.cli.call(set_budget, { folder: 'team', daily: 5 })
      await at.cli.call(budget, { folder: 'team' })
      await at
        .as(agent('team'))
        .call(remove, { folder: 'team' })
        .catch(() => {})
      await at.cli.call(remove, { folder: 'team' })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      ['groups.add team ok', 'groups.set_budget team ok', 'groups.remove team denied', 'groups.remove team ok'],
    )
    const before = await rowsOf(at)
    await breakAudit(at)
    await assert.rejects(at.cli.call(add, { folder: 'new', jid: 'telegram:2' }), /audit/)
    assert.deepEqual(await rowsOf(at), before)
  })
})

onEveryEngine('folders with their activity', (engine) => {
  test('are listed for those who administer them, with messages and costs of today', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a', 'team/b')
    await at.cli.call(set_budget, { folder: 'team/a', daily: 50 })
    await at.grant('github:admin', 'admin', 'team/**')
    const { activity } = groupsResource.verbs
    await at.host.engine.transaction(async (tx) => {
      const message = { jid: 'web:x', topic: '', chat_topic: '', sender: 'x', verb: 'message', updated_at: JAN_1 }
      const states = ['answered', 'failed', 'answered'] as const
      for (const [at, state] of states.entries())
        await inbox.insert(tx, {
          ...message,
          // The first one is from the day before.
          id: `${firstIdAt(Date.parse(JAN_1) + (at === 0 ? -1 : 1))}-7000-8000-00000000000${at}`,
          message_seq: at + 1,
          folder: 'team/a',
          state,
        })
      const cost = { turn_id: 't', model: 'm', input_tokens: 1, output_tokens: 1, cost_cents: 7, recorded_at: JAN_1 }
      await costLog.insert(tx, { ...cost, folder: 'team/a' })
      await conversations.insert(tx, { folder: 'team/b', topic: '', waiting: 1, observed_seq: 0, updated_at: JAN_1 })
    })
    const dash = at.as({ kind: 'person', sub: 'github:admin', session: 'a-session' }, 'dash')
    const { folders } = await dash.call(activity, {})
    assert.deepEqual(
      folders.map((row) => [row.folder, row.messages_today, row.cost_today_cents, row.last_at, row.state]),
      [
        ['team', 0, 0, undefined, 'idle'],
        ['team/a', 2, 7, JAN_1, 'idle'],
        ['team/b', 0, 0, undefined, 'waiting'],
      ],
    )
    assert.equal(folders[1]?.cost_cap_cents_per_day, 50)
    const names = async (input: object) => (await dash.call(activity, input)).folders.map(({ folder }) => folder)
    assert.deepEqual(await names({ parent: 'team' }), ['team/a', 'team/b'])
    assert.deepEqual(await names({ search: ' TEAM/B ' }), ['team/b'])
    assert.deepEqual(await names({ search: 'main' }), [])
    assert.deepEqual(await names({ parent: 'main' }), [])
    const first = await dash.call(activity, { limit: 1 })
    assert.deepEqual(await names({ limit: 1, after: first.next }), ['team/a'])
  })
})
