import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { isOpenToOthers, privateDirectories, securePrivateDirectories } from './private-directories.ts'
import { setUpFolder } from './products.ts'

const modeOf = (path: string): number => statSync(path).mode & 0o777

test('removes access for other users from existing directories', async (t) => {
  const places = layout(tempDir(t))
  for (const path of [...privateDirectories(places), places.webPub]) mkdirSync(path, { recursive: true, mode: 0o755 })
  assert.equal(await isOpenToOthers(places, places.groups), true)
  await securePrivateDirectories(places)
  for (const path of privateDirectories(places)) assert.equal(modeOf(path), 0o700, path)
  assert.deepEqual([modeOf(places.webPub), modeOf(places.web)], [0o755, 0o755])
  assert.equal(await isOpenToOthers(places, places.groups), false)
})

test('keeps a stricter mode', async (t) => {
  const places = layout(tempDir(t))
  mkdirSync(places.groups)
  chmodSync(places.groups, 0o510)
  await securePrivateDirectories(places)
  assert.equal(modeOf(places.groups), 0o500)
})

test("creates only the directories of workspaces, visitors' chats and logs", async (t) => {
  const places = layout(join(tempDir(t), 'svc_demo'))
  await securePrivateDirectories(places)
  assert.deepEqual([places.groups, places.chats, places.logs].map(modeOf), [0o700, 0o700, 0o700])
  for (const path of [places.ipc, dirname(places.store), places.web]) assert.ok(!existsSync(path), path)
  assert.equal(await isOpenToOthers(places, places.webPriv), undefined)
})

test('creates workspaces that other users cannot enter', async (t) => {
  const places = layout(tempDir(t))
  await setUpFolder(places, 'main')
  assert.deepEqual([modeOf(places.groups), modeOf(places.webPriv), modeOf(places.webPub)], [0o700, 0o700, 0o755])
})

test('lets only the agents’ group enter workspaces when svc runs as root', needs('root'), async (t) => {
  const places = layout(tempDir(t), { uid: 60_001, gid: 60_002 })
  await securePrivateDirectories(places)
  for (const path of [places.groups, places.chats]) {
    const { uid, gid } = statSync(path)
    assert.deepEqual([uid, gid, modeOf(path)], [0, 60_002, 0o710])
    assert.equal(await isOpenToOthers(places, path), false)
  }
  chmodSync(places.groups, 0o711)
  assert.equal(await isOpenToOthers(places, places.groups), true)
  chmodSync(places.groups, 0o710)
  assert.equal(await isOpenToOthers(layout(places.root), places.groups), true)
})
