// Access rows: read by whom they concern, written on the host alone.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import type { Caller } from '../core/access/caller.ts'
import { aclResource } from './acl.ts'
import { groupsResource } from './groups.ts'

const { list, grant, ungrant } = aclResource.verbs
const ROW = { principal: 'github:1', action: 'admin', scope: 'team' }

/** The rows that are not seeded, each as one line. */
async function linesOf(at: TestHost, caller: Caller, input = {}): Promise<string[]> {
  const { acl } = await at.as(caller).call(list, { limit: 1000, ...input })
  return acl
    .filter(({ granted_by }) => granted_by !== 'system')
    .map(({ principal, action, scope, effect }) => `${effect} ${principal} ${action} ${scope}`)
}

const HOST: Caller = { kind: 'host', sub: 'cli' }

onEveryEngine('access rows', (engine) => {
  test('a new instance has the two roles', async (t) => {
    const at = await testHost(t, engine)
    const { acl } = await at.cli.call(list, { limit: 1000 })
    const tools = acl.filter(({ principal }) => principal === 'role:member').map(({ action }) => action.slice(4))
    const speaking = ['reply', 'send', 'send_file', 'send_voice', 'post', 'forward', 'quote', 'repost', 'like']
    assert.deepEqual(tools, [...speaking, 'dislike', 'edit', 'delete'].toSorted())
    assert.deepEqual(
      acl.filter(({ principal }) => principal === 'role:operator').map(({ action, scope }) => `${action} ${scope}`),
      ['* **'],
    )
  })

  test('granting twice changes nothing, and taking back what is not there is refused', async (t) => {
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
    const dead: Record<string, object> = {
      principal: { principal: 'nobody' },
      action: { action: 'fly' },
      'not a path glob': { scope: 'team/[' },
      'empty segment': { scope: 'team//a' },
      params: { params: '!jid' },
      predicate: { predicate: '=x' },
    }
    for (const [sentence, wrong] of Object.entries(dead))
      await assert.rejects(at.cli.call(grant, { ...ROW, ...wrong }), isRefusal('invalid', sentence))
    for (const wrong of [{ effect: 'maybe' }, { scope: '' }, { principal: '' }, { granted_by: 'me' }])
      await assert.rejects(at.cli.call(grant, { ...ROW, ...wrong }), isRefusal('invalid'))
    assert.deepEqual(await linesOf(at, HOST), [])
  })

  test('rows are written by the host, and by no bearer, agent or service', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    for (const caller of [person('github:op'), agent('main'), { kind: 'service' as const, sub: 'github:op' }]) {
      const no = isRefusal('forbidden', 'the command line on the host')
      await assert.rejects(at.as(caller, 'rest').call(grant, ROW), no)
      await assert.rejects(at.as(caller, 'rest').call(ungrant, ROW), no)
    }
  })

  test('each sees the rows of what they administer', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team', 'team/a', 'other')
    await at.operator('github:op')
    for (const scope of ['team', 'team/**', 'team/a', 'team/*', 'other', '**', '*/a', 't*'])
      await at.grant('github:2', 'interact', scope)
    await at.grant('github:1', 'admin', 'team/**')
    const ours = ['team', 'team/*', 'team/**', 'team/a'].map((scope) => `allow github:2 interact ${scope}`)
    assert.deepEqual(await linesOf(at, person('github:1')), ['allow github:1 admin team/**', ...ours])
    assert.deepEqual(await linesOf(at, person('github:1'), { scope: 'team' }), ['allow github:2 interact team'])
    assert.deepEqual(await linesOf(at, person('github:1'), { scope: 'other' }), [])
    assert.deepEqual(await linesOf(at, person('github:2')), [])
    assert.equal((await linesOf(at, person('github:op'))).length, 9)
    assert.deepEqual(await linesOf(at, agent('team')), ['allow github:1 admin team/**', ...ours])
    await assert.rejects(linesOf(at, agent('team'), { scope: 'other' }), isRefusal('forbidden', 'on other'))
    await assert.rejects(linesOf(at, agent('team/a/b')), isRefusal('forbidden', 'tiers 0 to 1'))
  })

  test('an operator sees no rows of what is denied to them', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.operator('github:op')
    for (const scope of ['team', 'team/**', 'other', '**']) await at.grant('github:2', 'interact', scope)
    await at.grant('github:op', 'mcp:*', 'team/**', 'deny')
    const others = ['allow github:2 interact **', 'allow github:2 interact other']
    assert.deepEqual(await linesOf(at, person('github:op')), others)
    assert.deepEqual(await linesOf(at, person('github:op'), { scope: 'team' }), [])
  })

  test('an agent that is let to a folder beyond its reach sees the rows there', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team', 'other')
    await at.grant('folder:team', 'mcp:list_acl', 'other')
    await at.grant('github:2', 'interact', 'other')
    const rows = ['allow folder:team mcp:list_acl other', 'allow github:2 interact other']
    assert.deepEqual(await linesOf(at, agent('team'), { scope: 'other' }), rows)
    assert.deepEqual(await linesOf(at, agent('team')), [])
  })

  test('a grant counts from the next call on, and so does its end', async (t) => {
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

  test('one audit row for each change and each refusal, and no change without one', async (t) => {
    const at = await testHost(t, engine)
    const deeds = await auditedCalls(at, async () => {
      await at.cli.call(grant, ROW)
      // Nothing changes, so nothing is noted.
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
      deeds.map(({ action, actor, outcome, surface, ...row }) => [action, actor, outcome, surface, row.key]),
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
