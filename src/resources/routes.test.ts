// Access to routes. core/routing tests how they are matched; faces tests the tools.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { routesResource } from './routes.ts'

const { list, create, update, delete: remove, set } = routesResource.verbs

async function openHost(...[t, engine]: Parameters<typeof testHost>): Promise<TestHost> {
  const at = await testHost(t, engine)
  await at.groups('main', 'team', 'team/a', 'other')
  await at.grant('github:1', 'admin', 'team/**')
  await at.operator('github:op')
  return at
}

const admin = person('github:1')
const operator = person('github:op')

/** Every route as one line: `seq match target`. */
async function linesOf(at: TestHost): Promise<string[]> {
  return (await at.cli.call(list, {})).routes.map(({ seq, match, target }) => `${seq} ${match} ${target}`)
}

onEveryEngine('routes', (engine) => {
  test('a person writes routes to folders that they administer', async (t) => {
    const at = await openHost(t, engine)
    const made = await at.as(admin).call(create, { match: 'room=1', target: 'team/a' })
    assert.deepEqual(made, { id: made.id, seq: 0, match: 'room=1', target: 'team/a' })
    for (const target of ['other', 'main', 'teams', 'daemon:mail', 'builtin:drop', '{sender}', 'folder:other#x'])
      await assert.rejects(at.as(admin).call(create, { target }), isRefusal('forbidden', 'add_route: not permitted'))
    for (const target of ['daemon:mail', 'builtin:echo', '{sender}', 'other'])
      await at.as(operator).call(create, { target })
    await assert.rejects(at.as(person('github:2')).call(create, { target: 'team' }), isRefusal('forbidden'))
  })

  test('a target with {sender} belongs to the folder above it', async (t) => {
    const at = await openHost(t, engine)
    await at.as(admin).call(create, { target: 'team/{sender}' })
    await at.as(agent('team/a')).call(create, { target: 'team/a/guest-{sender}#topic' })
    await assert.rejects(at.as(agent('team/a')).call(create, { target: 'team/{sender}' }), isRefusal('forbidden'))
    assert.equal((await at.as(admin).call(list, {})).routes.length, 2)
  })

  test('a duplicate route is a conflict on create and update', async (t) => {
    const at = await openHost(t, engine)
    await at.as(admin).call(create, { match: 'room=1', target: 'team' })
    const { id } = await at.as(admin).call(create, { match: 'room=2', target: 'team' })
    await assert.rejects(at.as(admin).call(create, { match: 'room=1', target: 'team' }), isRefusal('conflict'))
    await assert.rejects(at.as(admin).call(update, { id, match: 'room=1' }), isRefusal('conflict'))
    assert.deepEqual(await linesOf(at), ['0 room=1 team', '0 room=2 team'])
  })

  test('changing a route needs access to the old and the new target', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(admin).call(create, { match: 'room=1', target: 'team' })
    const changed = await at.as(admin).call(update, { id, seq: -3, observe_window_chars: 100 })
    assert.deepEqual(changed, { id, seq: -3, match: 'room=1', target: 'team', observe_window_chars: 100 })
    await assert.rejects(at.as(admin).call(update, { id, target: 'other' }), isRefusal('forbidden', 'on other'))
    const refusal = (which: number) => isRefusal('not_found', `there is no route ${which}`)
    const { id: theirs } = await at.as(operator).call(create, { target: 'other' })
    await assert.rejects(at.as(admin).call(update, { id: theirs, target: 'team' }), refusal(theirs))
    await assert.rejects(at.as(admin).call(update, { id: 99, seq: 1 }), isRefusal('not_found', 'there is no route 99'))
    assert.deepEqual(await at.as(admin).call(update, { id }), changed)
    await assert.rejects(at.as(admin).call(update, { id, match: 'rom=1' }), isRefusal('invalid', 'unknown key "rom"'))
  })

  test('deleting a route needs access to its target', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(admin).call(create, { target: 'team' })
    for (const caller of [agent('other'), person('github:2')])
      await assert.rejects(at.as(caller).call(remove, { id }), isRefusal('not_found', `there is no route ${id}`))
    // Only the agent itself cannot delete its default route.
    await assert.rejects(at.as(agent('team')).call(remove, { id }), isRefusal('forbidden', 'your own default route'))
    assert.deepEqual(await at.as(admin).call(remove, { id }), { deleted: true, id })
    await assert.rejects(at.as(admin).call(remove, { id }), isRefusal('not_found'))
  })

  test('a route cannot take over a chat that a glob routes to another folder', async (t) => {
    const at = await openHost(t, engine)
    await at.as(operator).call(create, { match: 'platform=sandbox room=sales-*', target: 'other' })
    const { id } = await at.as(agent('team')).call(create, { seq: 4, match: 'room=ours', target: 'team' })
    const before = await linesOf(at)
    const refusal = isRefusal('forbidden', /"[^"]*sales[^"]*" takes a chat of another folder$/)
    for (const caller of [agent('team'), admin])
      for (const match of ['room=sales-9', 'chat_jid=sandbox:sales-9', 'room=*sales-? verb=mention']) {
        const route = { seq: -1, match, target: 'team' }
        await assert.rejects(at.as(caller).call(create, route), refusal)
        await assert.rejects(at.as(caller).call(set, { routes: [route] }), refusal)
        await at.grant('folder:team', 'mcp:routes.update', 'team/**')
        await assert.rejects(at.as(caller).call(update, { id, seq: -1, match }), refusal)
      }
    assert.deepEqual(await linesOf(at), before)
    // No conflict behind the other route, on another platform, or in another room.
    for (const match of ['chat_jid=sandbox:sales-9', 'platform=telegram room=sales-9', 'room=office-9'])
      await at.as(agent('team')).call(create, { seq: 3, match, target: 'team' })
    await at.as(operator).call(create, { seq: -1, match: 'room=sales-9', target: 'team' })
  })

  test('an older route cannot move in front of a route of another folder', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(admin).call(create, { seq: 4, match: 'room=ours', target: 'team' })
    await at.as(operator).call(create, { match: 'room=theirs', target: 'other' })
    await assert.rejects(
      at.as(admin).call(update, { id, seq: 0, match: 'room=theirs' }),
      isRefusal('forbidden', '"room=theirs" takes a chat of another folder'),
    )
    await at.as(admin).call(update, { id, seq: 1, match: 'room=theirs' })
  })

  test('ids are not reused', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(admin).call(create, { target: 'team' })
    await at.as(admin).call(remove, { id })
    const { id: next } = await at.as(admin).call(create, { target: 'team' })
    assert.ok(next > id)
  })

  test('lists have the order of matching and show the folders that the caller administers', async (t) => {
    const at = await openHost(t, engine)
    for (const [seq, target] of [
      [1, 'team'],
      [-1, 'other'],
      [0, 'team/a'],
      [0, 'builtin:drop'],
      [-1, 'team'],
    ] as const)
      await at.as(operator).call(create, { seq, target })
    assert.deepEqual(await linesOf(at), ['-1  other', '-1  team', '0  team/a', '0  builtin:drop', '1  team'])
    const seen = async (caller: Parameters<TestHost['as']>[0]) =>
      (await at.as(caller).call(list, {})).routes.map(({ target }) => target)
    assert.deepEqual(await seen(admin), ['team', 'team/a', 'team'])
    assert.deepEqual(await seen(person('github:2')), [])
    assert.equal((await seen(agent('main'))).length, 5)
    await assert.rejects(seen(agent('team')), isRefusal('forbidden', 'no rule of tier 1'))
  })
})

onEveryEngine('set_routes', (engine) => {
  const wanted = (...targets: string[]) => ({ routes: targets.map((target, seq) => ({ seq: seq + 1, target })) })

  test('replaces only the routes of the agent’s own subtree', async (t) => {
    const at = await openHost(t, engine)
    for (const target of ['team/a', 'teams', 'other', 'builtin:drop'])
      await at.as(operator).call(create, { seq: 9, target })
    assert.deepEqual(await at.as(agent('team')).call(set, wanted('team', 'team/a#observe')), {
      updated: true,
      count: 2,
    })
    assert.deepEqual(await linesOf(at), ['1  team', '2  team/a#observe', '9  teams', '9  other', '9  builtin:drop'])
    assert.deepEqual(await at.as(agent('team')).call(set, { routes: [] }), { updated: true, count: 0 })
    assert.equal((await linesOf(at)).length, 3)
  })

  test('replaces all routes for the root', async (t) => {
    const at = await openHost(t, engine)
    for (const target of ['team', 'builtin:drop']) await at.as(operator).call(create, { target })
    await at.as(agent('main')).call(set, wanted('daemon:mail', 'other'))
    assert.deepEqual(await linesOf(at), ['1  daemon:mail', '2  other'])
  })

  test('replaces the subtree of a person’s own folder', async (t) => {
    const at = await openHost(t, engine)
    await at.as(operator).call(create, { target: 'other' })
    await at.as(admin).call(set, wanted('team/a'))
    assert.deepEqual(await linesOf(at), ['0  other', '1  team/a'])
    await assert.rejects(at.as(admin).call(set, wanted('other')), isRefusal('forbidden', 'other is outside team'))
    await assert.rejects(at.as(person('github:1', 'other')).call(set, wanted()), isRefusal('forbidden', 'on other/**'))
  })

  test('needs access to the whole subtree', async (t) => {
    const at = await openHost(t, engine)
    await at.grant('github:1', 'mcp:set_routes', 'team/a', 'deny')
    await assert.rejects(at.as(admin).call(set, wanted('team')), isRefusal('forbidden', 'on team/**'))
    await at.grant('folder:team', 'mcp:set_routes', 'team/a', 'deny')
    await assert.rejects(at.as(agent('team')).call(set, wanted('team')), isRefusal('forbidden', 'on team/**'))
    await at.grant('github:3', 'admin', 'team')
    await assert.rejects(at.as(person('github:3')).call(set, wanted('team')), isRefusal('forbidden', 'on team/**'))
  })

  test('keeps the default route of the agent, whatever its form', async (t) => {
    const at = await openHost(t, engine)
    await at.as(operator).call(create, { match: 'room=1', target: 'folder:team' })
    await assert.rejects(
      at.as(agent('team')).call(set, wanted('team')),
      isRefusal('forbidden', 'your own default route'),
    )
    await at.as(agent('team')).call(set, { routes: [{ match: 'room=2', target: 'team' }] })
    assert.deepEqual(await linesOf(at), ['0 room=2 team'])
  })

  test('keeps the id of an unchanged route and sets its new windows', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(operator).call(create, { target: 'team', observe_window_messages: 5 })
    await at.as(agent('team')).call(set, { routes: [{ target: 'team', observe_window_chars: 7 }] })
    const { routes } = await at.cli.call(list, {})
    assert.deepEqual(routes, [{ id, seq: 0, match: '', target: 'team', observe_window_chars: 7 }])
  })

  test('changes nothing if one entry is invalid', async (t) => {
    const at = await openHost(t, engine)
    await at.as(agent('team')).call(set, wanted('team'))
    const many = Array.from({ length: 500 }, (_, seq) => ({ seq, target: seq === 499 ? 'builtin:none' : 'team' }))
    await assert.rejects(at.as(agent('team')).call(set, { routes: many }), isRefusal('invalid', 'routes.499.target'))
    const twice = { routes: [{ target: 'team' }, { target: 'team', observe_window_chars: 1 }] }
    await assert.rejects(at.as(agent('team')).call(set, twice), isRefusal('invalid', 'a route twice'))
    assert.deepEqual(await linesOf(at), ['1  team'])
  })
})

onEveryEngine('audit of routes', (engine) => {
  test('has one row for each change and each refusal, and none for a list', async (t) => {
    const at = await openHost(t, engine)
    let id = 0
    const calls = await auditedCalls(at, async () => {
      id = (await at.as(admin).call(create, { match: 'room=1', target: 'team' })).id
      await at.as(admin).call(update, { id, seq: 2 })
      await at.as(admin).call(list, {})
      await at
        .as(agent('other'))
        .call(remove, { id })
        .catch(() => {})
      await at.as(agent('team')).call(set, { routes: [] })
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome, surface }) => `${surface} ${action} ${key} ${outcome}`),
      [
        `rest routes.create ${id} ok`,
        `rest routes.update ${id} ok`,
        `tool routes.delete ${id} denied`,
        'tool routes.set  ok',
      ],
    )
  })

  test('a change is rolled back if its audit row cannot be written', async (t) => {
    const at = await openHost(t, engine)
    const { id } = await at.as(admin).call(create, { target: 'team' })
    await breakAudit(at)
    for (const change of [
      () => at.as(admin).call(create, { target: 'team/a' }),
      () => at.as(admin).call(update, { id, seq: 5 }),
      () => at.as(admin).call(remove, { id }),
      () => at.as(agent('main')).call(set, { routes: [] }),
    ])
      await assert.rejects(change(), /audit/)
    assert.deepEqual(await linesOf(at), ['0  team'])
  })
})
