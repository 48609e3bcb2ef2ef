import assert from 'node:assert/strict'
import { existsSync, fstatSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { makeHome, openHome, openHomeSync, removeHome } from './workspace-home.ts'

function createLayout(t: TestContext) {
  const dirs = layout(join(tempDir(t), 'svc_demo'))
  mkdirSync(join(dirs.groups, 'team/sub'), { recursive: true })
  const outside = join(dirs.root, '..', 'outside')
  mkdirSync(join(outside, 'sub'), { recursive: true })
  return { dirs, outside }
}

test('opens the workspaces of top-level and nested folders', async (t) => {
  const { dirs } = createLayout(t)
  for (const folder of ['team', 'team/sub']) {
    await using home = (await openHome(dirs, folder)) ?? assert.fail()
    const path = join(dirs.groups, folder)
    assert.equal(home.path, path)
    assert.equal(fstatSync(home.fd).ino, statSync(path).ino)
  }
})

test('returns undefined for a folder without a workspace', async (t) => {
  const { dirs } = createLayout(t)
  for (const folder of ['other', 'team/other', 'other/sub', 'team/sub/a/b']) {
    assert.equal(await openHome(dirs, folder), undefined, folder)
    assert.equal(openHomeSync(dirs, folder), undefined, folder)
  }
  await assert.rejects(openHome(dirs, '../outside'), isRefusal('invalid'))
})

test('refuses a workspace that is a link or a file, and every workspace below it', async (t) => {
  const { dirs, outside } = createLayout(t)
  symlinkSync(outside, join(dirs.groups, 'team/link'))
  symlinkSync('nowhere', join(dirs.groups, 'team/dangling'))
  for (const name of ['team/file', 'world']) writeFileSync(join(dirs.groups, name), '')
  for (const folder of ['team/link', 'team/link/sub', 'team/dangling', 'team/file', 'world']) {
    const sentence = `the workspace of ${folder} is a symbolic link or not a directory`
    await assert.rejects(openHome(dirs, folder), isRefusal('conflict', sentence), folder)
    assert.equal(openHomeSync(dirs, folder), undefined, folder)
  }
})

test('follows an operator’s link for a top-level workspace, but not when creating a group', async (t) => {
  const { dirs, outside } = createLayout(t)
  symlinkSync(outside, join(dirs.groups, 'moved'))
  await using home = await openHome(dirs, 'moved/sub')
  assert.equal(await home?.realPath(), join(outside, 'sub'))
  await (await makeHome(dirs, 'moved/new')).close()
  assert.deepEqual(readdirSync(outside), ['new', 'sub'])
  await assert.rejects(makeHome(dirs, 'moved'), isRefusal('conflict', 'something else is there'))
})

test('removes a workspace with its contents, and a link without its target', async (t) => {
  const { dirs, outside } = createLayout(t)
  await removeHome(dirs, 'team/sub')
  assert.deepEqual(readdirSync(join(dirs.groups, 'team')), [])
  symlinkSync(outside, join(dirs.groups, 'team/sub'))
  await removeHome(dirs, 'team/sub')
  await removeHome(dirs, 'team')
  await removeHome(dirs, 'none')
  assert.ok(!existsSync(join(dirs.groups, 'team')) && existsSync(join(outside, 'sub')))
})
