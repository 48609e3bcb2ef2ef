import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { swapFolder } from '../../test/support/swapping.ts'
import { tempDir } from '../../test/support/temp.ts'
import { layout } from './layout.ts'
import { workspaceTexts } from './workspace-texts.ts'

function workspace(t: TestContext) {
  const places = layout(tempDir(t))
  const home = join(places.groups, 'team')
  mkdirSync(home, { recursive: true })
  return { home, places, read: (name: string) => workspaceTexts(places, 'team', [name], 100)[0] }
}

test('a file is read, an empty one too, and one that a link within the workspace leads to', (t) => {
  const { home, places } = workspace(t)
  writeFileSync(join(home, 'a.md'), 'héllo')
  writeFileSync(join(home, 'empty'), '')
  symlinkSync('a.md', join(home, 'link'))
  const names = ['a.md', 'empty', 'missing', 'link']
  assert.deepEqual(workspaceTexts(places, 'team', names, 100), ['héllo', '', undefined, 'héllo'])
})

test('what is no plain file of the workspace, or is too large, is as if it were not there, and nothing waits for it', (t) => {
  const { home, places, read } = workspace(t)
  writeFileSync(join(places.root, 'alien'), 'not yours')
  writeFileSync(join(home, 'large'), 'x'.repeat(101))
  writeFileSync(join(home, '.env'), 'SECRET=1')
  mkdirSync(join(home, 'folder'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  for (const [name, to] of [
    ['out', join(places.root, 'alien')],
    ['zero', '/dev/zero'],
    ['loop', 'loop'],
    ['keys', '.env'],
  ] as const)
    symlinkSync(to, join(home, name))
  for (const name of ['missing', 'large', 'folder', 'pipe', 'out', 'zero', 'loop', 'keys', '../../alien'])
    assert.equal(read(name), undefined, name)
  assert.deepEqual(workspaceTexts(places, 'nobody', ['a.md'], 100), [undefined])
})

test('a workspace that leads elsewhere has no files', (t) => {
  const { home, places } = workspace(t)
  mkdirSync(join(places.groups, 'other'))
  writeFileSync(join(places.groups, 'other', 'a.md'), 'not yours')
  symlinkSync('../other', join(home, 'sub'))
  assert.deepEqual(workspaceTexts(places, 'team/sub', ['a.md'], 100), [undefined])
})

test('what is put in the place of a file while it is opened is never read', async (t) => {
  const { home, places, read } = workspace(t)
  await using _swapping = await swapFolder(home, places.root)
  const seen = new Set<string | undefined>()
  for (let times = 0; times < 5000 || (seen.size < 2 && times < 200_000); times++) seen.add(read('dir/x'))
  assert.ok(!seen.has('theirs'))
  assert.ok(seen.has('mine'))
})
