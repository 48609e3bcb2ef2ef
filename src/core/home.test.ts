import assert from 'node:assert/strict'
import { existsSync, fstatSync, mkdirSync, readdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { refused } from '../../test/support/host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { makeHome, openHome, openHomeSync, removeHome } from './home.ts'
import { layout } from './layout.ts'

function places(t: TestContext) {
  const all = layout(join(tempDir(t), 'svc_demo'))
  mkdirSync(join(all.groups, 'team/sub'), { recursive: true })
  const outside = join(all.root, '..', 'outside')
  mkdirSync(join(outside, 'sub'), { recursive: true })
  return { all, outside }
}

test('a workspace is opened by a descriptor, that of a nested folder too', async (t) => {
  const { all } = places(t)
  for (const folder of ['team', 'team/sub']) {
    await using home = (await openHome(all, folder)) ?? assert.fail()
    const path = join(all.groups, folder)
    assert.equal(home.path, path)
    assert.equal(fstatSync(home.fd).ino, statSync(path).ino)
  }
})

test('a folder without a workspace has none to open', async (t) => {
  const { all } = places(t)
  for (const folder of ['other', 'team/other', 'other/sub', 'team/sub/a/b']) {
    assert.equal(await openHome(all, folder), undefined, folder)
    assert.equal(openHomeSync(all, folder), undefined, folder)
  }
  await assert.rejects(openHome(all, '../outside'), refused('invalid'))
})

test('a link or a file in the place of a workspace is refused, and so is all below it', async (t) => {
  const { all, outside } = places(t)
  symlinkSync(outside, join(all.groups, 'team/link'))
  symlinkSync('nowhere', join(all.groups, 'team/dangling'))
  for (const name of ['team/file', 'world']) writeFileSync(join(all.groups, name), '')
  for (const folder of ['team/link', 'team/link/sub', 'team/dangling', 'team/file', 'world']) {
    const sentence = `the workspace of ${folder} leads elsewhere`
    await assert.rejects(openHome(all, folder), refused('conflict', sentence), folder)
    assert.equal(openHomeSync(all, folder), undefined, folder)
  }
})

test('a top-level workspace may be a link that the operator made, but a new group does not use one', async (t) => {
  const { all, outside } = places(t)
  symlinkSync(outside, join(all.groups, 'moved'))
  await using home = await openHome(all, 'moved/sub')
  assert.equal(await home?.realPath(), join(outside, 'sub'))
  await (await makeHome(all, 'moved/new')).close()
  assert.deepEqual(readdirSync(outside), ['new', 'sub'])
  await assert.rejects(makeHome(all, 'moved'), refused('conflict', 'something else is there'))
})

test('a workspace is removed with what is below it, and a link in its place without what it leads to', async (t) => {
  const { all, outside } = places(t)
  await removeHome(all, 'team/sub')
  assert.deepEqual(readdirSync(join(all.groups, 'team')), [])
  symlinkSync(outside, join(all.groups, 'team/sub'))
  await removeHome(all, 'team/sub')
  await removeHome(all, 'team')
  await removeHome(all, 'none')
  assert.ok(!existsSync(join(all.groups, 'team')) && existsSync(join(outside, 'sub')))
})
