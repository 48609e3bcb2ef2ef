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
  const places = layout(join(tempDir(t), 'svc_demo'), AGENT)
  const home = join(places.groups, 'team')
  const outside = join(places.root, '..', 'outside')
  mkdirSync(join(home, 'sub/deep'), { recursive: true })
  mkdirSync(outside)
  writeFileSync(join(outside, 'x'), '')
  return { places, home, outside }
}

function ownersIn(path: string): Set<number> {
  const stats = lstatSync(path)
  const below = stats.isDirectory() ? readdirSync(path).map((name) => ownersIn(join(path, name))) : []
  return new Set([stats.uid, ...below.flatMap((owners) => [...owners])])
}

test('changes the owner of everything in a workspace, but not of link targets', AS_ROOT, async (t) => {
  const { places, home, outside } = world(t)
  writeFileSync(join(home, 'sub/deep/file'), '')
  linkSync(join(home, 'sub/deep/file'), join(home, 'hard'))
  symlinkSync(join(outside, 'x'), join(home, 'sub/link'))
  symlinkSync(outside, join(home, 'away'))
  symlinkSync('nowhere', join(home, 'dangling'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  // sub, deep, file, hard, link, away, dangling, pipe and the top directory.
  assert.equal(await chownWorkspaces(places), 9)
  assert.deepEqual([...ownersIn(home)], [AGENT.uid])
  assert.equal(lstatSync(join(home, 'sub/deep/file')).gid, AGENT.gid)
  assert.deepEqual([...ownersIn(outside)], [0])
  assert.equal(statSync(places.groups).uid, 0)
})

test('skips workspaces that agents own and repeats an interrupted run', AS_ROOT, async (t) => {
  const { places, home } = world(t)
  mkdirSync(join(places.groups, 'other'))
  writeFileSync(join(places.groups, 'notes.txt'), '')
  chownSync(join(places.groups, 'other'), AGENT.uid, AGENT.gid)
  lchownSync(join(home, 'sub'), AGENT.uid, AGENT.gid)
  assert.equal(await chownWorkspaces(places), 3)
  assert.equal(await chownWorkspaces(places), 0)
  assert.equal(statSync(join(places.groups, 'notes.txt')).uid, 0)
})

test('changes the owner of a world that the operator moved behind a link', AS_ROOT, async (t) => {
  const { places, outside } = world(t)
  symlinkSync(outside, join(places.groups, 'linked'))
  await chownWorkspaces(places)
  assert.deepEqual([...ownersIn(outside)], [AGENT.uid])
  assert.equal(lstatSync(join(places.groups, 'linked')).uid, 0)
})

test('reports progress every 1,000 entries', AS_ROOT, async (t) => {
  const { places, home } = world(t)
  for (let at = 0; at < 2000; at++) writeFileSync(join(home, 'sub', `${at}`), '')
  const reports: number[] = []
  assert.equal(await chownWorkspaces(places, (done) => reports.push(done)), 2003)
  assert.deepEqual(reports, [1000, 2000])
})

test('changes nothing if agents run as svc’s user or there are no workspaces', async (t) => {
  const { places, home } = world(t)
  const uid = process.getuid?.()
  assert.equal(await chownWorkspaces(layout(places.root)), 0)
  assert.deepEqual([...ownersIn(home)], [uid])
  assert.equal(await chownWorkspaces(layout(join(places.root, 'none'), AGENT)), 0)
})

test('files that the host creates in a workspace belong to the agents', AS_ROOT, async (t) => {
  const { places } = world(t)
  await setUpFolder(places, 'new/child')
  await writeWork(places, 'new/child', 'x')
  assert.deepEqual([...ownersIn(join(places.groups, 'new'))], [AGENT.uid])
  assert.deepEqual([statSync(places.groups).uid, statSync(join(places.webPub, 'new')).uid], [0, 0])
})
