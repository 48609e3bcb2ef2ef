import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal, onEveryEngine, testHost } from '../../test/support/host.ts'
import { holdForApproval } from '../core/access/approvals.ts'
import type { Caller } from '../core/access/caller.ts'
import { messages } from '../core/messages/messages.ts'
import { pendingActionsResource } from './pending-actions.ts'

const { list, decide } = pendingActionsResource.verbs
const withSession = (sub: string): Caller => ({ kind: 'person', sub, session: 'a-session' })

onEveryEngine('tool calls that wait for approval', (engine) => {
  test('are listed, approved once by an operator, and the agent gets a message', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    await on.operator('github:op')
    await on.grant('github:admin', 'admin', 'team')
    const hold = async (folder: string, args_hash: string): Promise<string> => {
      const call = { folder, tool: 'send', args_hash, summary: `{"text":"${args_hash}"}` }
      on.clock.advance(1)
      return (await on.host.engine.transaction((tx) => holdForApproval(tx, on.host, call))).id
    }
    const [first, second] = [await hold('main', 'a'), await hold('team', 'b')]
    const operator = on.as(withSession('github:op'), 'dash')
    const admin = on.as(withSession('github:admin'), 'dash')
    const { held } = await operator.call(list, {})
    assert.deepEqual(
      held.map(({ id, folder, tool, summary }) => [id, folder, tool, summary]),
      [
        [first, 'main', 'send', '{"text":"a"}'],
        [second, 'team', 'send', '{"text":"b"}'],
      ],
    )
    assert.deepEqual(
      (await admin.call(list, {})).held.map(({ id }) => id),
      [second],
    )
    await assert.rejects(admin.call(decide, { id: second, decision: 'approve' }), isRefusal('forbidden'))
    assert.equal((await operator.call(decide, { id: first, decision: 'approve' })).status, 'approved')
    await assert.rejects(operator.call(decide, { id: first, decision: 'reject' }), isRefusal('not_found', 'waits for'))
    await on.cli.call(decide, { id: second, decision: 'reject' })
    const after = await on.cli.call(list, {})
    assert.deepEqual(after.held, [])
    assert.deepEqual(
      after.decided.map(({ id, status, decided_by }) => [id, status, decided_by]).toSorted(),
      [
        [first, 'approved', 'github:op'],
        [second, 'rejected', 'cli'],
      ].toSorted(),
    )
    const sent = await on.host.engine.read((tx) => messages.list(tx, { sender: 'system' }))
    assert.match(Buffer.from(sent[0]?.content ?? []).toString(), /was approved\. Repeat it/)
    assert.equal(sent.length, 2)
  })

  test('expire after a day', async (t) => {
    const on = await testHost(t, engine)
    const call = { folder: 'main', tool: 'send', args_hash: 'a', summary: '{}' }
    const { id } = await on.host.engine.transaction((tx) => holdForApproval(tx, on.host, call))
    on.clock.advance(24 * 3_600_000)
    assert.deepEqual((await on.cli.call(list, {})).held, [])
    await assert.rejects(on.cli.call(decide, { id, decision: 'approve' }), isRefusal('not_found'))
  })
})
