// Access rows: readable by the admins of their folders, written only on the host.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { aclResource } from './acl.ts'
import { groupsResource } from './groups.ts'

const { list, grant, ungrant } = aclResource.verbs
const ROW = { principal: 'github:1', action: 'admin', scope: 'team' }

/** The rows except seeded ones, each as one line. */
async function linesOf(at: TestHost, caller: Caller, input = {}): Promise<string[]> {
  const { acl } = await at.as(caller).call(list, { limit: 1000, ...input })
  return acl
    .filter(({ granted_by }) => granted_by !== 'system')
    .map(({ principal, action, scope, effect }) => `${effect} ${principal} ${action} ${scope}`)
}

const HOST: Caller = { kind: 'host', sub: 'cli' }

onEveryEngine('access rows', (engine) => {
  test('a new instance has the roles member and operator', async (t) => {
    const at = await testHost(t, engine)
    const { acl } = await at.cli.call(list, { limit: 1000 })
    const tools = acl.filter(({ principal }) => principal === 'role:member').map(({ action }) => action.slice(4))
    const sending = ['reply', 'send', 'send_file', 'send_voice', 'post', 'forward', 'quote', 'repost', 'like']
    assert.deepEqual(tools, [...sending, 'dislike', 'edit', 'delete'].toSorted())
    assert.deepEqual(
      acl.filter(({ principal }) => principal === 'role:operator').map(({ action, scope }) => `${action} ${scope}`),
      ['* **'],
    )
  })

  test('granting twice changes nothing, and removing a missing grant is refused', async (t) => {
    const at = await testHost(t, engine)
    assert.deepEqual(await at.cli.call(grant, ROW), { added: true })
    assert.deepEqual(await at.cli.call(grant, ROW), { added: false })
    assert.deepEqual(await at.cli.call(grant, { ...ROW, effect: 'deny' }), { added: true })
    assert.deepEqual(await linesOf(at, HOST), ['allow github:1 admin team', 'deny github:1 admin team'])
    await at.cli.call(ungrant, ROW)
    await assert.rejects(at.cli.call(ungrant, ROW), isRefusal('not_found', 'github:1 has no grant of admin on team'))
    await assert.rejects(at.cli.call(ungrant, { ...ROW, effect: 'deny', params: 'a=b' }), isRefusal('not_found'))
    assert.deepEqual(await linesOf(at, HOST), ['deny github:1 admin team'])
  })

  test('a row that could never match is refused', async (t) => {
    const at = await testHost(t, engine)
    const unmatchable: Record<string, object> = {
      principal: { principal: 'nobody' },
      action: { action: 'fly' },
      'not a path glob': { scope: 'team/[' },
      'empty segment': { scope: 'team//a' },
      params: { params: '!jid' },
      predicate: { predicate: '=x' },
    }
    for (const [sentence, wrong] of Object.entries(unmatchable))
      await assert.rejects(at.cli.call(grant, { ...ROW, ...wrong }), isRefusal('invalid', sentence))
    for (const wrong of [{ effect: 'maybe' }, { scope: '' }, { principal: '' }, { granted_by: 'me' }])
      await assert.rejects(at.cli.call(grant, { ...ROW, ...wrong }), isRefusal('invalid'))
    assert.deepEqual(await linesOf(at, HOST), [])
  })

  test('only the host writes rows, not people, agents or services', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    for (const caller of [person('github:op'), agent('main'), { kind: 'service' as const, sub: 'github:op' }]) {
      const refusal = isRefusal('forbidden', 'the command line on the host')
      await assert.rejects(at.as(caller, 'rest').call(grant, ROW), refusal)
      await assert.rejects(at.as(caller, 'rest').call(ungrant, ROW), refusal)
    }
  })

  test('callers see the rows of folders that they administer', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a', 'other')
    await at.operator('github:op')
    for (const scope of ['team', 'team/**', 'team/a', 'team/*', 'other', '**', '*/a', 't*'])
      await at.grant('github:2', 'interact', scope)
    await at.grant('github:1', 'admin', 'team/**')
    const visible = ['team', 'team/*', 'team/**', 'team/a'].map((scope) => `allow github:2 interact ${scope}`)
    assert.deepEqual(await linesOf(at, person('github:1')), ['allow github:1 admin team/**', ...visible])
    assert.deepEqual(await linesOf(at, person('github:1'), { scope: 'team' }), ['allow github:2 interact team'])
    assert.deepEqual(await linesOf(at, person('github:1'), { scope: 'other' }), [])
    assert.deepEqual(await linesOf(at, person('github:2')), [])
    assert.equal((await linesOf(at, person('github:op'))).length, 9)
    assert.deepEqual(await linesOf(at, agent('team')), ['allow github:1 admin team/**', ...visible])
    await assert.rejects(linesOf(at, agent('team'), { scope: 'other' }), isRefusal('forbidden', 'on other'))
    await assert.rejects(linesOf(at, agent('team/a/b')), isRefusal('forbidden', 'tiers 0 to 1'))
  })

  test('an operator does not see rows of denied folders', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.operator('github:op')
    for (const scope of ['team', 'team/**', 'other', '**']) await at.grant('github:2', 'interact', scope)
    await at.grant('github:op', 'mcp:*', 'team/**', 'deny')
    const others = ['allow github:2 interact **', 'allow github:2 interact other']
    assert.deepEqual(await linesOf(at, person('github:op')), others)
    assert.deepEqual(await linesOf(at, person('github:op'), { scope: 'team' }), [])
  })

  test('an agent with a grant on a folder outside its subtree sees the rows there', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.grant('folder:team', 'mcp:list_acl', 'other')
    await at.grant('github:2', 'interact', 'other')
    const rows = ['allow folder:team mcp:list_acl other', 'allow github:2 interact other']
    assert.deepEqual(await linesOf(at, agent('team'), { scope: 'other' }), rows)
    assert.deepEqual(await linesOf(at, agent('team')), [])
  })

  test('grants and their removal apply from the next call', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    const seen = async () => (await at.as(person('github:1')).call(groupsResource.verbs.list, {})).groups.length
    assert.equal(await seen(), 0)
    await at.cli.call(grant, ROW)
    assert.equal(await seen(), 1)
    await at.cli.call(grant, { ...ROW, action: '*', effect: 'deny' })
    assert.equal(await seen(), 0)
    await at.cli.call(ungrant, { ...ROW, action: '*', effect: 'deny' })
    assert.equal(await seen(), 1)
    await at.cli.call(ungrant, ROW)
    assert.equal(await seen(), 0)
  })

  test('each change and each refusal has one audit row, and nothing changes without it', async (t) => {
    const at = await testHost(t, engine)
    const calls = await auditedCalls(at, async () => {
      await at.cli.call(grant, ROW)
      // No change, so no audit row.
      await at.cli.call(grant, ROW)
      await at
        .as(person('github:1'))
        .call(grant, ROW)
        .catch(() => {})
      await at.cli.call(list, {})
      await at.cli.call(ungrant, ROW)
    })
    const key = 'github%3A1/admin/team///allow'
    assert.deepEqual(
      calls.map(({ action, actor, outcome, surface, ...row }) => [action, actor, outcome, surface, row.key]),
      [
        ['acl.grant', 'cli', 'ok', 'cli', key],
        ['acl.grant', 'github:1', 'denied', 'rest', key],
        ['acl.ungrant', 'cli', 'ok', 'cli', key],
      ],
    )
    await breakAudit(at)
    await assert.rejects(at.cli.call(grant, ROW), /audit/)
    assert.deepEqual(await linesOf(at, HOST), [])
  })
})
