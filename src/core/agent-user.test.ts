import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refused } from '../../test/support/host.ts'
import { agentUser } from './agent-user.ts'

test('agents of a svc that runs as root have a user of their own', () => {
  assert.deepEqual(agentUser(undefined, true), { uid: 60_000, gid: 60_000 })
  assert.deepEqual(agentUser(1, true), { uid: 1, gid: 1 })
})

test('agents never run as root', () => {
  for (const isRoot of [true, false])
    assert.throws(() => agentUser(0, isRoot), refused('invalid', 'AGENT_UID must not be 0: agents never run as root'))
})

test('the number is one that the kernel has', () => {
  assert.equal(agentUser(4_294_967_293, true)?.uid, 4_294_967_293)
  assert.throws(() => agentUser(4_294_967_294, true), refused('invalid', 'AGENT_UID must be below 4294967294'))
})

test("agents of another svc run as svc's own user, whatever the setting says", () => {
  for (const setting of [undefined, 60_000]) assert.equal(agentUser(setting, false), undefined)
})
