import assert from 'node:assert/strict'
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { isRefusal } from '../../test/support/host.ts'
import { needs } from '../../test/support/needs.ts'
import { tempDir } from '../../test/support/temp.ts'
import { agentUsers, userOfWorld } from './agent-user.ts'

const read = (AGENT_UID?: number, AGENT_UIDS = 1000, isRoot = true) =>
  agentUsers({ AGENT_UID, AGENT_UIDS }, undefined, isRoot)

test('agents run as 1,000 users from 60000 on, or as those that are configured, when svc runs as root', () => {
  assert.deepEqual(read(), { uid: 60_000, gid: 60_000, count: 1000 })
  assert.deepEqual(read(1, 2), { uid: 1, gid: 1, count: 2 })
})

test('refuses user 0, the users that the kernel reserves, and a range without users', () => {
  for (const isRoot of [true, false]) {
    assert.throws(() => read(0, 1, isRoot), isRefusal('invalid', 'AGENT_UID must not be 0: agents never run as root'))
    assert.throws(() => read(1, 0, isRoot), isRefusal('invalid', 'AGENT_UIDS must be at least 1'))
  }
  assert.deepEqual(read(4_294_967_293), { uid: 4_294_967_293, gid: 4_294_967_293, count: 1 })
  assert.throws(() => read(4_294_967_294), isRefusal('invalid', 'AGENT_UID must be below 4294967294'))
})

test('no range contains the user nobody', () => {
  assert.equal(read(65_000, 534)?.count, 534)
  assert.equal(read(65_000, 535)?.count, 534)
  assert.equal(read(65_533)?.count, 1)
  assert.equal(read(70_000)?.count, 1000)
})

test('each world has a user until the range is used up, and then they share', () => {
  const users = { uid: 60_000, gid: 60_000, count: 3 }
  const uids = [0, 1, 2, 3, 4].map((ordinal) => userOfWorld(users, ordinal).uid)
  assert.deepEqual(uids, [60_000, 60_001, 60_002, 60_000, 60_001])
  assert.equal(userOfWorld(users, 2).gid, 60_000)
})

test("ignores the settings and uses svc's user when svc does not run as root", () => {
  for (const setting of [undefined, 60_000]) assert.equal(read(setting, 1000, false), undefined)
})

test('agents are the owner of the data directory or of its workspaces, if that is not root', needs('root'), (t) => {
  const root = tempDir(t)
  const find = () => agentUsers({ AGENT_UIDS: 1000 }, root)
  const range = { uid: 60_000, gid: 60_000, count: 1000 }
  assert.deepEqual(find(), range)
  assert.deepEqual(agentUsers({ AGENT_UIDS: 1000 }, join(root, 'missing')), range)
  mkdirSync(join(root, 'groups'))
  assert.deepEqual(find(), range)
  chownSync(join(root, 'groups'), 1234, 1235)
  assert.deepEqual(find(), { uid: 1234, gid: 1235, count: 1 })
  chownSync(root, 4321, 4322)
  assert.deepEqual(find(), { uid: 4321, gid: 4322, count: 1 })
})
