import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { swapFolder } from '../../../test/support/entry-swapper.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import { readWorkspaceTexts } from './workspace-texts.ts'

function workspace(t: TestContext) {
  const dirs = layout(tempDir(t))
  const home = join(dirs.groups, 'team')
  mkdirSync(home, { recursive: true })
  return { home, dirs, read: (name: string) => readWorkspaceTexts(dirs, 'team', [name], 100)[0] }
}

test('reads files, empty files and links within the workspace', (t) => {
  const { home, dirs } = workspace(t)
  writeFileSync(join(home, 'a.md'), 'héllo')
  writeFileSync(join(home, 'empty'), '')
  symlinkSync('a.md', join(home, 'link'))
  const names = ['a.md', 'empty', 'missing', 'link']
  assert.deepEqual(readWorkspaceTexts(dirs, 'team', names, 100), ['héllo', '', undefined, 'héllo'])
})

test('returns undefined for other kinds of files and for large files, without blocking', (t) => {
  const { home, dirs, read } = workspace(t)
  writeFileSync(join(dirs.root, 'alien'), 'not yours')
  writeFileSync(join(home, 'large'), 'x'.repeat(101))
  writeFileSync(join(home, '.env'), 'SECRET=1')
  mkdirSync(join(home, 'folder'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  for (const [name, to] of [
    ['out', join(dirs.root, 'alien')],
    ['zero', '/dev/zero'],
    ['loop', 'loop'],
    ['keys', '.env'],
  ] as const)
    symlinkSync(to, join(home, name))
  for (const name of ['missing', 'large', 'folder', 'pipe', 'out', 'zero', 'loop', 'keys', '../../alien'])
    assert.equal(read(name), undefined, name)
  assert.deepEqual(readWorkspaceTexts(dirs, 'nobody', ['a.md'], 100), [undefined])
})

test('returns undefined if the workspace is a link', (t) => {
  const { home, dirs } = workspace(t)
  mkdirSync(join(dirs.groups, 'other'))
  writeFileSync(join(dirs.groups, 'other', 'a.md'), 'not yours')
  symlinkSync('../other', join(home, 'sub'))
  assert.deepEqual(readWorkspaceTexts(dirs, 'team/sub', ['a.md'], 100), [undefined])
})

test('never reads a file that replaces another while it is opened', async (t) => {
  const { home, dirs, read } = workspace(t)
  await using _swapping = await swapFolder(home, dirs.root)
  const seen = new Set<string | undefined>()
  for (let times = 0; times < 5000 || (seen.size < 2 && times < 200_000); times++) seen.add(read('dir/x'))
  assert.ok(!seen.has('theirs'))
  assert.ok(seen.has('mine'))
})
