// The verbs that explain rights, with all tools.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agentTools } from '../src/daemons/agents/agent-tools.ts'
import { accessVerbs } from '../src/faces/access-verbs.ts'
import { aclResource } from '../src/resources/acl.ts'
import { aclMembershipResource } from '../src/resources/acl-membership.ts'
import { identitiesResource } from '../src/resources/identities.ts'
import { isRefusal, onEveryEngine, testHost } from './support/host.ts'

const { explain, who } = accessVerbs(agentTools().tools.values())
const withSession = (sub: string) => ({ kind: 'person', sub, session: 's' }) as const

onEveryEngine('the explanation of rights', (engine) => {
  test('names for each action and tool the row or rule that decided', async (t) => {
    const on = await testHost(t, engine)
    const { cli } = on
    await on.groups('main', 'team', 'team/a')
    await on.grant('github:1', 'admin', 'team/**')
    await on.grant('github:1', 'mcp:send', 'team/a', 'deny')
    const { actions, tools, roles, is_operator } = await cli.call(explain, { principal: 'github:1', folder: 'team/a' })
    assert.deepEqual([roles, is_operator], [[], false])
    assert.deepEqual(actions, [
      { action: 'admin', allow: true, reason: 'allowed by acl: github:1 admin on team/**' },
      { action: 'interact', allow: true, reason: 'allowed by acl: github:1 admin on team/**' },
    ])
    const tool = (name: string) => tools.find((each) => each.tool === name)
    assert.deepEqual(tool('send'), {
      tool: 'send',
      allow: false,
      held: false,
      reason: 'denied by acl: github:1 mcp:send on team/a',
    })
    assert.equal(tool('reply')?.allow, true)
    const other = await cli.call(explain, { principal: 'github:2', folder: 'team' })
    assert.ok(other.tools.every(({ allow }) => !allow))
    assert.equal(other.actions[0]?.reason, 'no row allows admin on team')
  })

  test('of an agent has its tools with the rules of its tier and those that need approval', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team', 'team/a')
    await on.grant('folder:team', 'hold:mcp:send', '**')
    const { actions, tools } = await on.cli.call(explain, { principal: 'folder:team', folder: 'team/a' })
    assert.deepEqual(actions, [])
    const tool = (name: string) => tools.find((each) => each.tool === name)
    assert.deepEqual([tool('send')?.allow, tool('send')?.held, tool('reply')?.held], [true, true, false])
    assert.equal(tool('onboarding.list')?.reason, 'no rule of tier 1 and no row allows onboarding.list on team/a')
    const outside = await on.cli.call(explain, { principal: 'folder:team', folder: 'main' })
    const history = outside.tools.find((each) => each.tool === 'inspect_messages')
    assert.equal(history?.reason, 'main is out of the reach of team, and no row allows inspect_messages there')
  })

  test('of a role has what its members get', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    const { tools } = await on.cli.call(explain, { principal: 'role:member', folder: 'team' })
    assert.equal(tools.find((each) => each.tool === 'reply')?.reason, 'allowed by acl: role:member mcp:reply on **')
    await assert.rejects(
      on.cli.call(explain, { principal: 'member', folder: 'team' }),
      isRefusal('invalid', 'principal must look like'),
    )
  })

  test('administrators ask about their folders, people about themselves', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team', 'other')
    await on.grant('github:1', 'admin', 'team/**')
    const admin = on.as(withSession('github:1'), 'dash')
    await admin.call(explain, { principal: 'github:9', folder: 'team' })
    await admin.call(who, { folder: 'team' })
    await assert.rejects(admin.call(explain, { principal: 'github:9', folder: 'other' }), isRefusal('forbidden'))
    await assert.rejects(admin.call(who, { folder: 'other' }), isRefusal('forbidden'))
    // The same for a folder that does not exist.
    const own = async (folder: string) => (await admin.call(explain, { principal: 'github:1', folder })).actions[0]
    assert.deepEqual([(await own('other'))?.allow, (await own('none'))?.allow], [false, false])
  })
})

onEveryEngine('the people of a folder', (engine) => {
  test('are those whom a row or a role allows, with the reason, without those who are denied', async (t) => {
    const on = await testHost(t, engine)
    const { cli } = on
    await on.groups('main', 'team', 'team/a', 'other')
    await on.operator('local:op')
    await on.grant('github:1', 'admin', 'team/**')
    await on.grant('github:2', 'interact', 'team/a')
    await on.grant('github:3', 'interact', 'team')
    await on.grant('github:4', 'admin', 'team/*')
    await on.grant('github:4', 'admin', 'team/a', 'deny')
    await on.grant('github:5', 'interact', 't*/a')
    await on.grant('oidc:x/*', 'interact', 'team/**')
    await on.grant('role:staff', 'interact', 'team/**')
    await cli.call(aclMembershipResource.verbs.add, { subject: 'role:night', role: 'role:staff' })
    await cli.call(aclMembershipResource.verbs.add, { subject: 'telegram:6', role: 'role:night' })
    await cli.call(identitiesResource.verbs.link, { sub: 'github:2', name: 'Bob' })
    const { people } = await cli.call(who, { folder: 'team/a' })
    assert.deepEqual(
      people.map(({ principal, may, is_operator, name }) => [principal, may, is_operator, name]),
      [
        ['github:1', 'administer', false, undefined],
        ['github:2', 'use', false, 'Bob'],
        ['github:5', 'use', false, undefined],
        ['local:op', 'administer', true, undefined],
        ['oidc:x/*', 'use', false, undefined],
        ['telegram:6', 'use', false, undefined],
      ],
    )
    assert.equal(people[5]?.reason, 'allowed by acl: role:staff interact on team/**')
    const first = await cli.call(who, { folder: 'team/a', limit: 4 })
    const rest = await cli.call(who, { folder: 'team/a', limit: 4, after: first.next })
    assert.deepEqual([...first.people, ...rest.people], people)
    assert.equal(rest.next, undefined)
  })
})

onEveryEngine('removing a right', (engine) => {
  test('warns about the last operator and the last administrator of a folder', async (t) => {
    const on = await testHost(t, engine)
    const { cli } = on
    await on.groups('main', 'team')
    await on.operator('local:op')
    await on.grant('github:1', 'admin', 'team/**')
    const ungrant = async (principal: string, action: string, scope: string) =>
      (await cli.call(aclResource.verbs.ungrant_effects, { principal, action, scope })).warnings
    const remove = async (subject: string) =>
      (await cli.call(aclMembershipResource.verbs.remove_effects, { subject, role: 'role:operator' })).warnings
    assert.match((await remove('local:op')).join(), /last operator/)
    assert.match((await ungrant('role:operator', '*', '**')).join(), /last operator/)
    assert.match((await ungrant('github:1', 'admin', 'team/**')).join(), /last administrator of team:/)
    await on.operator('local:second')
    await on.grant('github:2', 'admin', 'team')
    assert.deepEqual(await remove('local:op'), [])
    assert.deepEqual(await ungrant('github:1', 'admin', 'team/**'), [])
    assert.deepEqual(await ungrant('github:2', 'interact', 'team'), [])
  })
})
