// Role memberships: written only on the host, without cycles, and effective from the next call.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls, breakAudit } from '../../test/support/audit.ts'
import { agent, isRefusal, onEveryEngine, person, type TestHost, testHost } from '../../test/support/host.ts'
import { aclMembershipResource } from './acl-membership.ts'
import { groupsResource } from './groups.ts'

const { list, add, remove } = aclMembershipResource.verbs

async function linesOf(at: TestHost): Promise<string[]> {
  const { acl_membership } = await at.cli.call(list, { limit: 1000 })
  return acl_membership.map(({ subject, role }) => `${subject} ${role}`)
}

onEveryEngine('memberships', (engine) => {
  test('adding twice changes nothing, and removing a missing one is refused', async (t) => {
    const at = await testHost(t, engine)
    const membership = { subject: 'github:1', role: 'role:operator' }
    assert.deepEqual(await at.cli.call(add, membership), { added: true })
    assert.deepEqual(await at.cli.call(add, membership), { added: false })
    const { acl_membership } = await at.cli.call(list, {})
    assert.deepEqual(acl_membership, [{ ...membership, added_by: 'cli', added_at: '2026-01-01T00:00:00.000Z' }])
    await at.cli.call(remove, membership)
    await assert.rejects(
      at.cli.call(remove, membership),
      isRefusal('not_found', 'github:1 is not a member of role:operator'),
    )
    assert.deepEqual(await linesOf(at), [])
  })

  test('a role has a name', async (t) => {
    const at = await testHost(t, engine)
    for (const role of ['operator', 'role:', 'role: x'])
      await assert.rejects(
        at.cli.call(add, { subject: 'github:1', role }),
        isRefusal('invalid', 'role must look like role:<name>'),
      )
    assert.deepEqual(await linesOf(at), [])
  })

  test('cycles of any length are refused', async (t) => {
    const at = await testHost(t, engine)
    const join = (subject: string, role: string) => at.cli.call(add, { subject, role })
    await assert.rejects(join('role:a', 'role:a'), isRefusal('conflict', 'role:a → role:a'))
    await join('role:a', 'role:b')
    await join('role:b', 'role:c')
    await join('role:a', 'role:c')
    await assert.rejects(join('role:b', 'role:a'), isRefusal('conflict', 'role:b → role:a → role:b'))
    await assert.rejects(join('role:c', 'role:a'), isRefusal('conflict', 'role:c'))
    assert.deepEqual(await linesOf(at), ['role:a role:b', 'role:a role:c', 'role:b role:c'])
  })

  test('of two concurrent memberships that form a cycle together, one is refused', async (t) => {
    const at = await testHost(t, engine)
    const settled = await Promise.allSettled([
      at.cli.call(add, { subject: 'role:a', role: 'role:b' }),
      at.cli.call(add, { subject: 'role:b', role: 'role:a' }),
    ])
    assert.deepEqual(settled.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    assert.equal((await linesOf(at)).length, 1)
  })

  test('invalid roles and members are refused', async (t) => {
    const at = await testHost(t, engine)
    for (const membership of [
      { subject: 'github:1', role: 'operator' },
      { subject: 'github:1', role: '' },
      { subject: 'anyone', role: 'role:a' },
      { subject: 'github:*', role: 'role:a' },
      { subject: '', role: 'role:a' },
      { subject: 'github:1', role: 'role:a', added_by: 'me' },
    ])
      await assert.rejects(at.cli.call(add, membership), isRefusal('invalid'), JSON.stringify(membership))
  })

  test('only the host reads and writes memberships', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    const membership = { subject: 'github:2', role: 'role:operator' }
    for (const caller of [person('github:op'), agent('main')]) {
      await assert.rejects(at.as(caller).call(add, membership), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(remove, membership), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(list, {}), isRefusal('forbidden'))
    }
    assert.deepEqual(await linesOf(at), ['github:op role:operator'])
  })

  test('access is inherited through nested roles and ends with any membership of the chain', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('team')
    await at.grant('role:leads', 'admin', 'team')
    const seen = async () => (await at.as(person('github:1')).call(groupsResource.verbs.list, {})).groups.length
    await at.cli.call(add, { subject: 'github:1', role: 'role:staff' })
    assert.equal(await seen(), 0)
    await at.cli.call(add, { subject: 'role:staff', role: 'role:leads' })
    assert.equal(await seen(), 1)
    await at.cli.call(remove, { subject: 'github:1', role: 'role:staff' })
    assert.equal(await seen(), 0)
  })

  test('each change and each refusal has one audit row, and nothing changes without it', async (t) => {
    const at = await testHost(t, engine)
    const membership = { subject: 'github:1', role: 'role:a' }
    const calls = await auditedCalls(at, async () => {
      await at.cli.call(add, membership)
      await at
        .as(person('github:1'))
        .call(add, membership)
        .catch(() => {})
      await at.cli.call(list, {})
      await at.cli.call(remove, membership)
    })
    assert.deepEqual(
      calls.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      [
        'acl_membership.add github%3A1/role%3Aa ok',
        'acl_membership.add github%3A1/role%3Aa denied',
        'acl_membership.remove github%3A1/role%3Aa ok',
      ],
    )
    await breakAudit(at)
    await assert.rejects(at.cli.call(add, membership), /audit/)
    assert.deepEqual(await linesOf(at), [])
  })
})
