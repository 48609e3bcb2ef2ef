import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRefusal } from '../../test/support/host.ts'
import { agentUser } from './agent-user.ts'

test('runs agents as a separate user when svc runs as root', () => {
  assert.deepEqual(agentUser(undefined, true), { uid: 60_000, gid: 60_000 })
  assert.deepEqual(agentUser(1, true), { uid: 1, gid: 1 })
})

test('rejects root as the user of agents', () => {
  for (const isRoot of [true, false])
    assert.throws(() => agentUser(0, isRoot), isRefusal('invalid', 'AGENT_UID must not be 0: agents never run as root'))
})

test('rejects user ids that the kernel does not support', () => {
  assert.equal(agentUser(4_294_967_293, true)?.uid, 4_294_967_293)
  assert.throws(() => agentUser(4_294_967_294, true), isRefusal('invalid', 'AGENT_UID must be below 4294967294'))
})

test("ignores AGENT_UID and uses svc's user when svc does not run as root", () => {
  for (const setting of [undefined, 60_000]) assert.equal(agentUser(setting, false), undefined)
})
