// Races: an agent swaps directories of its workspace with links to an outside directory while the host works there.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { contentsOf, exchangeEntries } from '../../../test/support/entry-swapper.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import { layout } from '../layout.ts'
import { setUpFolder } from './products.ts'
import { readWork, writeWork } from './work-file.ts'
import { openWorkspaceFile } from './workspace-files.ts'
import { openHome, removeHome } from './workspace-home.ts'
import { copyPrototype } from './workspace-prototype.ts'

const TIMES = 2_500
/** Each operation has many steps, so a few runs give many chances for a race. */
const LONG_TIMES = TIMES / 4

function workspace(t: TestContext) {
  const dirs = layout(join(tempDir(t), 'svc_demo'))
  const home = join(dirs.groups, 'team')
  const outside = join(dirs.root, '..', 'outside')
  for (const dir of [join(home, 'sub/.claude/skills'), join(outside, '.claude/skills')])
    mkdirSync(dir, { recursive: true })
  writeFileSync(join(outside, 'work.md'), 'theirs')
  writeFileSync(join(outside, 'x'), 'theirs')
  /** An entry of the workspace and a link to `outside`, which are swapped. */
  const trap = (name: string): [string, string] => {
    symlinkSync(outside, join(home, `${name}-trap`))
    return [join(home, name), join(home, `${name}-trap`)]
  }
  return { home, dirs, outside, trap }
}

/** Repeats the operation, and returns how often it succeeded and was refused. */
async function repeat(operation: () => Promise<unknown>, most = TIMES) {
  const counts = { done: 0, refused: 0 }
  for (let times = 0; times < most; times++)
    await operation().then(
      () => counts.done++,
      (error) => {
        if (!(error instanceof Refusal)) throw error
        counts.refused++
      },
    )
  return counts
}

for (const name of ['sub', 'sub/.claude']) {
  test(`setting up a folder writes nothing outside while ${name} is swapped with a link`, async (t) => {
    const { dirs, outside, trap } = workspace(t)
    const before = contentsOf(outside)
    await using _exchanging = await exchangeEntries(trap(name))
    const { done, refused } = await repeat(() => setUpFolder(dirs, 'team/sub'), LONG_TIMES)
    assert.ok(done > 0 && refused > 0, `${done} done, ${refused} refused`)
    assert.deepEqual(contentsOf(outside), before)
  })
}

test('copying a prototype reads and writes nothing outside while both ends are swapped with links', async (t) => {
  const { home, dirs, outside, trap } = workspace(t)
  mkdirSync(join(home, 'prototype/dir'), { recursive: true })
  writeFileSync(join(home, 'prototype/dir/x'), 'mine')
  writeFileSync(join(home, 'prototype/y'), 'mine')
  const before = contentsOf(outside)
  const seen = new Set<string>()
  const copy = async (): Promise<void> => {
    await copyPrototype(dirs, 'team', 'team/sub')
    await using sub = await openHome(dirs, 'team/sub')
    await using dir = await sub?.openDirectory('dir')
    const found = await dir?.readFile('x', 100)
    if (found) seen.add(found.data.toString())
    await dir?.removeFile('x')
  }
  await using _exchanging = await exchangeEntries(trap('prototype/dir'), trap('sub'))
  const { done, refused } = await repeat(copy, LONG_TIMES)
  assert.ok(done > 0 && refused > 0, `${done} done, ${refused} refused`)
  assert.deepEqual([...seen], ['mine'])
  assert.deepEqual(contentsOf(outside), before)
})

test('removing a workspace removes nothing outside while a directory of it is swapped with a link', async (t) => {
  const { home, dirs, outside } = workspace(t)
  const before = contentsOf(outside)
  const [dir, link] = [join(home, 'sub/gone/dir'), join(home, 'sub/gone/link')]
  await using _exchanging = await exchangeEntries([dir, link])
  for (let times = 0; times < TIMES / 20; times++) {
    mkdirSync(join(dir, 'below'), { recursive: true })
    symlinkSync(outside, link)
    while (existsSync(join(home, 'sub/gone')))
      await removeHome(dirs, 'team/sub/gone').catch((error) => assert.ok(error instanceof Refusal, error))
  }
  assert.deepEqual(contentsOf(outside), before)
})

test('neither reads nor writes a work file outside while the workspace is swapped with a link', async (t) => {
  const { dirs, outside, trap } = workspace(t)
  const before = contentsOf(outside)
  const seen = new Set<string>()
  await using _exchanging = await exchangeEntries(trap('sub'))
  const { done, refused } = await repeat(async () => {
    await writeWork(dirs, 'team/sub', 'mine')
    seen.add((await readWork(dirs, 'team/sub')).content)
  })
  assert.ok(done > 0 && refused > 0, `${done} done, ${refused} refused`)
  assert.deepEqual([...seen], ['mine'])
  assert.deepEqual(contentsOf(outside), before)
})

test('sends no file from outside while the workspace is swapped with a link', async (t) => {
  const { home, dirs, trap } = workspace(t)
  writeFileSync(join(home, 'sub/x'), 'mine')
  const seen = new Set<string>()
  await using _exchanging = await exchangeEntries(trap('sub'))
  await repeat(async () => {
    await using file = await openWorkspaceFile(dirs, 'team/sub', '/home/node/x')
    seen.add(await file.readFile('utf8'))
  })
  assert.deepEqual([...seen], ['mine'])
  assert.equal(readFileSync(join(dirs.root, '../outside/x'), 'utf8'), 'theirs')
})
