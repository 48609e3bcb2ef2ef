import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lchownSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { chatDir, layout } from '../layout.ts'
import { setUpFolder } from './products.ts'
import { writeWork } from './work-file.ts'
import { WorldOwners, type WorldOwnersOptions } from './workspace-owner.ts'

const AGENTS = { uid: 60_000, gid: 60_000, count: 1000 }

async function world(t: TestContext) {
  const { host } = await testHost(t)
  const dirs = layout(host.layout?.root ?? assert.fail('it has files'), AGENTS)
  const home = join(dirs.groups, 'team')
  const outside = join(tempDir(t), 'outside')
  for (const path of [join(dirs.groups, 'main'), join(home, 'sub/deep'), outside]) mkdirSync(path, { recursive: true })
  writeFileSync(join(outside, 'x'), '')
  const open = (options: Partial<WorldOwnersOptions> = {}) =>
    new WorldOwners({ engine: host.engine, layout: dirs, ...options })
  return { dirs, home, outside, open, host }
}

function ownersIn(path: string): Set<number> {
  const stats = lstatSync(path)
  const below = stats.isDirectory() ? readdirSync(path).map((name) => ownersIn(join(path, name))) : []
  return new Set([stats.uid, ...below.flatMap((owners) => [...owners])])
}

/** As in an earlier version, in which all agents had one user. */
function giveToOneUser(...paths: string[]): void {
  execFileSync('chown', ['-hR', '60000:60000', ...paths])
}

test('each world belongs to a user of its own, which stays the same', needs('root'), async (t) => {
  const { dirs, home, outside, open } = await world(t)
  mkdirSync(join(dirs.groups, 'other'))
  giveToOneUser(join(dirs.groups, 'main'), home, join(dirs.groups, 'other'))
  writeFileSync(join(home, 'sub/deep/file'), '')
  linkSync(join(home, 'sub/deep/file'), join(home, 'hard'))
  symlinkSync(join(outside, 'x'), join(home, 'sub/link'))
  symlinkSync(outside, join(home, 'away'))
  symlinkSync('nowhere', join(home, 'dangling'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  // sub, deep, file, hard, link, away, dangling, pipe and the top directory; `other` alone; `main` keeps its owner.
  assert.equal(await open().changeAll(), 10)
  const owners = () => ['main', 'other', 'team'].map((name) => [...ownersIn(join(dirs.groups, name))])
  assert.deepEqual(owners(), [[60_000], [60_001], [60_002]])
  assert.equal(lstatSync(join(home, 'sub/deep/file')).gid, AGENTS.gid)
  assert.deepEqual([...ownersIn(outside)], [0])
  assert.equal(statSync(dirs.groups).uid, 0)
  assert.equal(await open().changeAll(), 0)
  assert.deepEqual(await open().userOf('team/sub'), { uid: 60_002, gid: 60_000 })
  assert.deepEqual(await open().userOf('aaa'), { uid: 60_003, gid: 60_000 })
})

test('users of other worlds cannot enter a world', needs('root'), async (t) => {
  const { home, dirs, open } = await world(t)
  await open().userOf('team')
  assert.equal(statSync(home).mode & 0o777, 0o700)
  chmodSync(home, 0o755)
  await open().userOf('team/sub')
  assert.equal(statSync(home).mode & 0o777, 0o700)
  chmodSync(home, 0o755)
  await open({ layout: layout(dirs.root, { ...AGENTS, count: 1 }) }).userOf('team')
  assert.equal(statSync(home).mode & 0o777, 0o755)
})

test('worlds share users when there are more of them, and not when the range has grown', needs('root'), async (t) => {
  const { dirs, open } = await world(t)
  for (const name of ['a', 'b', 'c', 'd']) mkdirSync(join(dirs.groups, name))
  const owners = () => ['main', 'a', 'b', 'c', 'd'].map((name) => statSync(join(dirs.groups, name)).uid)
  await open({ layout: layout(dirs.root, { ...AGENTS, count: 3 }) }).changeAll()
  assert.deepEqual(owners(), [60_000, 60_001, 60_002, 60_000, 60_001])
  await open().changeAll()
  assert.deepEqual(owners(), [60_000, 60_001, 60_002, 60_003, 60_004])
})

test('changes visitors’ chats, but not the directories above them', needs('root'), async (t) => {
  const { dirs, open } = await world(t)
  const paths = ['team', 'team/sub'].map((folder) => chatDir(dirs, { folder, jid: 'web:x', reach: 'chat' }))
  for (const path of paths) {
    mkdirSync(path, { recursive: true })
    writeFileSync(join(path, 'note'), '')
    giveToOneUser(path)
  }
  await open().changeAll()
  for (const path of paths) assert.deepEqual([...ownersIn(path), statSync(dirname(path)).uid], [60_001, 0])
})

test('repeats an interrupted change', needs('root'), async (t) => {
  const { dirs, home, open } = await world(t)
  await open().userOf('main')
  for (let at = 0; at < 3000; at++) writeFileSync(join(home, 'sub', `${at}`), '')
  giveToOneUser(home)
  const owners = open({ onProgress: () => owners.close() })
  await assert.rejects(owners.userOf('team'), { name: 'AbortError' })
  assert.deepEqual([...ownersIn(home)].sort(), [60_000, 60_001])
  assert.equal(statSync(home).uid, 60_000)
  writeFileSync(join(dirs.groups, 'notes.txt'), '')
  await open().changeAll()
  assert.deepEqual([...ownersIn(home)], [60_001])
})

test('concurrent turns of a world wait for one change', needs('root'), async (t) => {
  const { home, open } = await world(t)
  for (let at = 0; at < 2000; at++) writeFileSync(join(home, 'sub', `${at}`), '')
  const reports: number[] = []
  const owners = open({ onProgress: (_, done) => reports.push(done) })
  await Promise.all(['team', 'team/sub', 'team'].map((folder) => owners.userOf(folder)))
  assert.deepEqual(reports, [1000, 2000])
  assert.deepEqual([...ownersIn(home)], [60_000])
})

test(
  'a file that also has a name in another world is copied, and both keep their content',
  needs('root'),
  async (t) => {
    const { dirs, home, open } = await world(t)
    const [main, stolen] = [join(dirs.groups, 'main/notes'), join(home, 'stolen')]
    writeFileSync(main, 'from main', { mode: 0o640 })
    linkSync(main, stolen)
    linkSync(main, join(home, 'sub/again'))
    giveToOneUser(join(dirs.groups, 'main'), home)
    await open().changeAll()
    assert.deepEqual([statSync(main).uid, statSync(stolen).uid], [60_000, 60_001])
    assert.deepEqual([readFileSync(main, 'utf8'), readFileSync(stolen, 'utf8')], ['from main', 'from main'])
    assert.deepEqual([statSync(stolen).mode & 0o777, statSync(main).nlink], [0o640, 1])
    assert.deepEqual(readdirSync(home).sort(), ['stolen', 'sub'])
  },
)

test('a name for a file of root elsewhere changes neither its owner nor who can read it', needs('root'), async (t) => {
  const { dirs, home, outside, open } = await world(t)
  const secret = join(outside, 'shadow')
  writeFileSync(secret, 'secret', { mode: 0o600 })
  giveToOneUser(home)
  linkSync(secret, join(home, 'shadow'))
  const kept: string[] = []
  await open({ onKept: (path) => kept.push(path) }).changeAll()
  assert.deepEqual(kept, [join(home, 'shadow')])
  assert.deepEqual([statSync(secret).uid, statSync(join(home, 'shadow')).ino], [0, statSync(secret).ino])
  assert.equal(statSync(home).uid, 60_001)
  assert.ok(dirs.agents)
})

test('changes the owner of a world that the operator moved behind a link', needs('root'), async (t) => {
  const { dirs, outside, open } = await world(t)
  symlinkSync(outside, join(dirs.groups, 'linked'))
  await open().userOf('linked')
  assert.deepEqual([...ownersIn(outside)], [60_000])
  assert.equal(lstatSync(join(dirs.groups, 'linked')).uid, 0)
})

test('changes nothing if agents run as svc’s user or there are no workspaces', async (t) => {
  const { dirs, home, open } = await world(t)
  const owners = open({ layout: layout(dirs.root) })
  assert.equal(await owners.changeAll(), 0)
  assert.equal(await owners.userOf('team'), undefined)
  assert.deepEqual([...ownersIn(home)], [process.getuid?.()])
  assert.equal(await open({ layout: layout(join(dirs.root, 'none'), AGENTS) }).changeAll(), 0)
})

test('gives workspaces of root to the owner of the data directory', needs('root'), async (t) => {
  const { dirs, home, open } = await world(t)
  lchownSync(join(home, 'sub'), 1234, 1234)
  const owner = { uid: 1234, gid: 1235, count: 1 }
  assert.equal(await open({ layout: layout(dirs.root, owner) }).changeAll(), 4)
  assert.deepEqual([...ownersIn(home)], [1234])
})

test('files that the host creates belong to the owner of the world', needs('root'), async (t) => {
  const { dirs, open } = await world(t)
  const at = (...names: string[]) => join(dirs.groups, ...names)
  await setUpFolder(dirs, 'new/child')
  assert.deepEqual([[...ownersIn(at('new'))], statSync(at('new')).mode & 0o777], [[0], 0o700])
  const user = (await open().userOf('new/child')) ?? assert.fail('svc runs as root')
  assert.equal(user.uid, 60_000)
  chownSync(at('new'), 60_007, 60_000)
  await setUpFolder(dirs, 'new/second')
  await writeWork(dirs, 'new/second', 'x')
  assert.deepEqual([...ownersIn(at('new/second'))], [60_007])
  assert.deepEqual([statSync(dirs.groups).uid, statSync(join(dirs.webPub, 'new')).uid], [0, 0])
  // An instance of an ordinary user, in a command of root.
  await setUpFolder(layout(dirs.root, { uid: 1234, gid: 1234, count: 1 }), 'theirs/child')
  assert.deepEqual([...ownersIn(at('theirs'))], [1234])
})
