import assert from 'node:assert/strict'
import { existsSync, fstatSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { makeHome, openHome, openHomeSync, removeHome } from './workspace-home.ts'

function places(t: TestContext) {
  const all = layout(join(tempDir(t), 'svc_demo'))
  mkdirSync(join(all.groups, 'team/sub'), { recursive: true })
  const outside = join(all.root, '..', 'outside')
  mkdirSync(join(outside, 'sub'), { recursive: true })
  return { all, outside }
}

test('opens the workspaces of top-level and nested folders', async (t) => {
  const { all } = places(t)
  for (const folder of ['team', 'team/sub']) {
    await using home = (await openHome(all, folder)) ?? assert.fail()
    const path = join(all.groups, folder)
    assert.equal(home.path, path)
    assert.equal(fstatSync(home.fd).ino, statSync(path).ino)
  }
})

test('returns undefined for a folder without a workspace', async (t) => {
  const { all } = places(t)
  for (const folder of ['other', 'team/other', 'other/sub', 'team/sub/a/b']) {
    assert.equal(await openHome(all, folder), undefined, folder)
    assert.equal(openHomeSync(all, folder), undefined, folder)
  }
  await assert.rejects(openHome(all, '../outside'), isRefusal('invalid'))
})

test('refuses a workspace that is a link or a file, and every workspace below it', async (t) => {
  const { all, outside } = places(t)
  symlinkSync(outside, join(all.groups, 'team/link'))
  symlinkSync('nowhere', join(all.groups, 'team/dangling'))
  for (const name of ['team/file', 'world']) writeFileSync(join(all.groups, name), '')
  for (const folder of ['team/link', 'team/link/sub', 'team/dangling', 'team/file', 'world']) {
    const sentence = `the workspace of ${folder} is a symbolic link or not a directory`
    await assert.rejects(openHome(all, folder), isRefusal('conflict', sentence), folder)
    assert.equal(openHomeSync(all, folder), undefined, folder)
  }
})

test('follows an operator’s link for a top-level workspace, but not when creating a group', async (t) => {
  const { all, outside } = places(t)
  symlinkSync(outside, join(all.groups, 'moved'))
  await using home = await openHome(all, 'moved/sub')
  assert.equal(await home?.realPath(), join(outside, 'sub'))
  await (await makeHome(all, 'moved/new')).close()
  assert.deepEqual(readdirSync(outside), ['new', 'sub'])
  await assert.rejects(makeHome(all, 'moved'), isRefusal('conflict', 'something else is there'))
})

test('removes a workspace with its contents, and a link without its target', async (t) => {
  const { all, outside } = places(t)
  await removeHome(all, 'team/sub')
  assert.deepEqual(readdirSync(join(all.groups, 'team')), [])
  symlinkSync(outside, join(all.groups, 'team/sub'))
  await removeHome(all, 'team/sub')
  await removeHome(all, 'team')
  await removeHome(all, 'none')
  assert.ok(!existsSync(join(all.groups, 'team')) && existsSync(join(outside, 'sub')))
})
