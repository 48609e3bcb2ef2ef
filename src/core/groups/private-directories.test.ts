import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { isOpenToOthers, privateDirectories, securePrivateDirectories } from './private-directories.ts'
import { setUpFolder } from './products.ts'

const modeOf = (path: string): number => statSync(path).mode & 0o777

test('removes access for other users from existing directories', async (t) => {
  const dirs = layout(tempDir(t))
  for (const path of [...privateDirectories(dirs), dirs.webPub]) mkdirSync(path, { recursive: true, mode: 0o755 })
  assert.equal(await isOpenToOthers(dirs, dirs.groups), true)
  await securePrivateDirectories(dirs)
  for (const path of privateDirectories(dirs)) assert.equal(modeOf(path), 0o700, path)
  assert.deepEqual([modeOf(dirs.webPub), modeOf(dirs.web)], [0o755, 0o755])
  assert.equal(await isOpenToOthers(dirs, dirs.groups), false)
})

test('keeps a stricter mode', async (t) => {
  const dirs = layout(tempDir(t))
  mkdirSync(dirs.groups)
  chmodSync(dirs.groups, 0o510)
  await securePrivateDirectories(dirs)
  assert.equal(modeOf(dirs.groups), 0o500)
})

test("creates only the directories of workspaces, visitors' chats and logs", async (t) => {
  const dirs = layout(join(tempDir(t), 'svc_demo'))
  await securePrivateDirectories(dirs)
  assert.deepEqual([dirs.groups, dirs.chats, dirs.logs].map(modeOf), [0o700, 0o700, 0o700])
  for (const path of [dirs.ipc, dirname(dirs.store), dirs.web]) assert.ok(!existsSync(path), path)
  assert.equal(await isOpenToOthers(dirs, dirs.webPriv), undefined)
})

test('creates nothing where a process may be in a container', async (t) => {
  const dirs = layout(tempDir(t))
  mkdirSync(dirs.groups, { mode: 0o755 })
  await securePrivateDirectories(dirs, true)
  assert.deepEqual([readdirSync(dirs.root), modeOf(dirs.groups)], [['groups'], 0o700])
})

test('creates workspaces that other users cannot enter', async (t) => {
  const dirs = layout(tempDir(t))
  await setUpFolder(dirs, 'main')
  assert.deepEqual([modeOf(dirs.groups), modeOf(dirs.webPriv), modeOf(dirs.webPub)], [0o700, 0o700, 0o755])
})

test('lets only the agents’ group enter workspaces when svc runs as root', needs('root'), async (t) => {
  const dirs = layout(tempDir(t), { uid: 60_001, gid: 60_002, count: 3 })
  await securePrivateDirectories(dirs)
  for (const path of [dirs.groups, dirs.chats]) {
    const { uid, gid } = statSync(path)
    assert.deepEqual([uid, gid, modeOf(path)], [0, 60_002, 0o710])
    assert.equal(await isOpenToOthers(dirs, path), false)
  }
  chmodSync(dirs.groups, 0o711)
  assert.equal(await isOpenToOthers(dirs, dirs.groups), true)
  chmodSync(dirs.groups, 0o710)
  assert.equal(await isOpenToOthers(layout(dirs.root), dirs.groups), true)
})
