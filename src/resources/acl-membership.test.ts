// Role memberships: written on the host alone, never in a circle, and counting from the next call on.
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
  test('adding twice changes nothing, and taking back what is not there is refused', async (t) => {
    const at = await testHost(t, engine)
    const edge = { subject: 'github:1', role: 'role:operator' }
    assert.deepEqual(await at.cli.call(add, edge), { added: true })
    assert.deepEqual(await at.cli.call(add, edge), { added: false })
    const { acl_membership } = await at.cli.call(list, {})
    assert.deepEqual(acl_membership, [{ ...edge, added_by: 'cli', added_at: '2026-01-01T00:00:00.000Z' }])
    await at.cli.call(remove, edge)
    await assert.rejects(at.cli.call(remove, edge), isRefusal('not_found', 'github:1 is not a member of role:operator'))
    assert.deepEqual(await linesOf(at), [])
  })

  test('a circle is refused, however long', async (t) => {
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

  test('of two edges that would close a circle together, one is refused', async (t) => {
    const at = await testHost(t, engine)
    const settled = await Promise.allSettled([
      at.cli.call(add, { subject: 'role:a', role: 'role:b' }),
      at.cli.call(add, { subject: 'role:b', role: 'role:a' }),
    ])
    assert.deepEqual(settled.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected'])
    assert.equal((await linesOf(at)).length, 1)
  })

  test('a role is a role, and a member is somebody', async (t) => {
    const at = await testHost(t, engine)
    for (const edge of [
      { subject: 'github:1', role: 'operator' },
      { subject: 'github:1', role: '' },
      { subject: 'somebody', role: 'role:a' },
      { subject: 'github:*', role: 'role:a' },
      { subject: '', role: 'role:a' },
      { subject: 'github:1', role: 'role:a', added_by: 'me' },
    ])
      await assert.rejects(at.cli.call(add, edge), isRefusal('invalid'), JSON.stringify(edge))
  })

  test('memberships are the host’s to read and to write', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.operator('github:op')
    const edge = { subject: 'github:2', role: 'role:operator' }
    for (const caller of [person('github:op'), agent('main')]) {
      await assert.rejects(at.as(caller).call(add, edge), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(remove, edge), isRefusal('forbidden'))
      await assert.rejects(at.as(caller).call(list, {}), isRefusal('forbidden'))
    }
    assert.deepEqual(await linesOf(at), ['github:op role:operator'])
  })

  test('rights come through roles of roles, and go with any link of the chain', async (t) => {
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

  test('one audit row for each change and each refusal, and no change without one', async (t) => {
    const at = await testHost(t, engine)
    const edge = { subject: 'github:1', role: 'role:a' }
    const deeds = await auditedCalls(at, async () => {
      await at.cli.call(add, edge)
      await at
        .as(person('github:1'))
        .call(add, edge)
        .catch(() => {})
      await at.cli.call(list, {})
      await at.cli.call(remove, edge)
    })
    assert.deepEqual(
      deeds.map(({ action, key, outcome }) => `${action} ${key} ${outcome}`),
      [
        'acl_membership.add github%3A1/role%3Aa ok',
        'acl_membership.add github%3A1/role%3Aa denied',
        'acl_membership.remove github%3A1/role%3Aa ok',
      ],
    )
    await breakAudit(at)
    await assert.rejects(at.cli.call(add, edge), /audit/)
    assert.deepEqual(await linesOf(at), [])
  })
})
