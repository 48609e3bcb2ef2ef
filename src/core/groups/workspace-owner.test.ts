import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chownSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { setUpFolder } from './products.ts'
import { writeWork } from './work-file.ts'
import { chownWorkspaces } from './workspace-owner.ts'

const AS_ROOT = { skip: process.getuid?.() === 0 ? false : 'only root can change owners' }
const AGENT = { uid: 60_000, gid: 60_000 }

function world(t: TestContext) {
  const dirs = layout(join(tempDir(t), 'svc_demo'), AGENT)
  const home = join(dirs.groups, 'team')
  const outside = join(dirs.root, '..', 'outside')
  mkdirSync(join(home, 'sub/deep'), { recursive: true })
  mkdirSync(outside)
  writeFileSync(join(outside, 'x'), '')
  return { dirs, home, outside }
}

function ownersIn(path: string): Set<number> {
  const stats = lstatSync(path)
  const below = stats.isDirectory() ? readdirSync(path).map((name) => ownersIn(join(path, name))) : []
  return new Set([stats.uid, ...below.flatMap((owners) => [...owners])])
}

test('changes the owner of everything in a workspace, but not of link targets', AS_ROOT, async (t) => {
  const { dirs, home, outside } = world(t)
  writeFileSync(join(home, 'sub/deep/file'), '')
  linkSync(join(home, 'sub/deep/file'), join(home, 'hard'))
  symlinkSync(join(outside, 'x'), join(home, 'sub/link'))
  symlinkSync(outside, join(home, 'away'))
  symlinkSync('nowhere', join(home, 'dangling'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  // sub, deep, file, hard, link, away, dangling, pipe and the top directory.
  assert.equal(await chownWorkspaces(dirs), 9)
  assert.deepEqual([...ownersIn(home)], [AGENT.uid])
  assert.equal(lstatSync(join(home, 'sub/deep/file')).gid, AGENT.gid)
  assert.deepEqual([...ownersIn(outside)], [0])
  assert.equal(statSync(dirs.groups).uid, 0)
})

test('skips workspaces that agents own and repeats an interrupted run', AS_ROOT, async (t) => {
  const { dirs, home } = world(t)
  mkdirSync(join(dirs.groups, 'other'))
  writeFileSync(join(dirs.groups, 'notes.txt'), '')
  chownSync(join(dirs.groups, 'other'), AGENT.uid, AGENT.gid)
  lchownSync(join(home, 'sub'), AGENT.uid, AGENT.gid)
  assert.equal(await chownWorkspaces(dirs), 3)
  assert.equal(await chownWorkspaces(dirs), 0)
  assert.equal(statSync(join(dirs.groups, 'notes.txt')).uid, 0)
})

test('changes the owner of a world that the operator moved behind a link', AS_ROOT, async (t) => {
  const { dirs, outside } = world(t)
  symlinkSync(outside, join(dirs.groups, 'linked'))
  await chownWorkspaces(dirs)
  assert.deepEqual([...ownersIn(outside)], [AGENT.uid])
  assert.equal(lstatSync(join(dirs.groups, 'linked')).uid, 0)
})

test('reports progress every 1,000 entries', AS_ROOT, async (t) => {
  const { dirs, home } = world(t)
  for (let at = 0; at < 2000; at++) writeFileSync(join(home, 'sub', `${at}`), '')
  const reports: number[] = []
  assert.equal(await chownWorkspaces(dirs, (done) => reports.push(done)), 2003)
  assert.deepEqual(reports, [1000, 2000])
})

test('changes nothing if agents run as svc’s user or there are no workspaces', async (t) => {
  const { dirs, home } = world(t)
  const uid = process.getuid?.()
  assert.equal(await chownWorkspaces(layout(dirs.root)), 0)
  assert.deepEqual([...ownersIn(home)], [uid])
  assert.equal(await chownWorkspaces(layout(join(dirs.root, 'none'), AGENT)), 0)
})

test('files that the host creates in a workspace belong to the agents', AS_ROOT, async (t) => {
  const { dirs } = world(t)
  await setUpFolder(dirs, 'new/child')
  await writeWork(dirs, 'new/child', 'x')
  assert.deepEqual([...ownersIn(join(dirs.groups, 'new'))], [AGENT.uid])
  assert.deepEqual([statSync(dirs.groups).uid, statSync(join(dirs.webPub, 'new')).uid], [0, 0])
})
