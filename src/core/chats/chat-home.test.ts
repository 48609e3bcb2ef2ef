import assert from 'node:assert/strict'
import { chownSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { chatDir, layout } from '../layout.ts'
import { makeChatHome, openChatHome } from './chat-home.ts'

const PLACE = { folder: 'team', jid: 'web:team', reach: 'chat' } as const

const modeOf = (path: string): number => statSync(path).mode & 0o777

test('creates the home of a chat on demand, closed to other users', async (t) => {
  const places = layout(tempDir(t))
  assert.equal(await openChatHome(places, PLACE), undefined)
  await using created = await makeChatHome(places, PLACE)
  await created.createFile('note', 'x', 0o600)
  const path = chatDir(places, PLACE)
  assert.deepEqual([path, dirname(path), places.chats].map(modeOf), [0o700, 0o700, 0o700])
  for (const open of [makeChatHome, openChatHome]) {
    await using again = await open(places, PLACE)
    assert.deepEqual(
      (await again?.entries())?.map(({ name }) => name),
      ['note'],
    )
  }
})

test('refuses a symbolic link in its place', async (t) => {
  const places = layout(tempDir(t))
  const [path, outside] = [chatDir(places, PLACE), tempDir(t)]
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(outside, path)
  for (const open of [makeChatHome, openChatHome])
    await assert.rejects(open(places, PLACE), isRefusal('conflict', 'something else is there'))
  assert.deepEqual(readdirSync(outside), [])
})

test('gives a home, also an existing one, to the user of agents if svc runs as root', needs('root'), async (t) => {
  const root = tempDir(t)
  const path = chatDir(layout(root), PLACE)
  await (await makeChatHome(layout(root), PLACE)).close()
  writeFileSync(join(path, 'note'), 'x')
  const places = layout(root, { uid: 60_000, gid: 60_002, count: 2 })
  await (await makeChatHome(places, PLACE)).close()
  assert.equal(statSync(path).uid, 0)
  // The owner of the folder's world.
  mkdirSync(join(places.groups, 'team'), { recursive: true })
  chownSync(join(places.groups, 'team'), 60_001, 60_002)
  await (await makeChatHome(places, PLACE)).close()
  assert.deepEqual(
    [path, join(path, 'note'), dirname(path)].map((each) => statSync(each).uid),
    [60_001, 60_001, 0],
  )
  // The user of agents can enter the parent directory, but not list it.
  assert.deepEqual([modeOf(path), modeOf(dirname(path))], [0o700, 0o711])
})
