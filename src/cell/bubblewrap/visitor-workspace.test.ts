import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { openVisitorWorkspace } from './visitor-workspace.ts'

const COPY_BYTES = 64 * 1024
const MOUNTS = 64
const ENTRIES = 256

interface Shown {
  /** In order, such as `--file PERSONA.md`. */
  readonly entries: readonly string[]
  readonly leftOut: number
}

async function shownOf(home: string, children: readonly string[] = []): Promise<Shown> {
  await using directory = await open(home)
  const workspace = await openVisitorWorkspace(directory.fd, new Set(children))
  const args = workspace.mounts('/w', () => 'fd')
  await workspace.close()
  const entries = args.flatMap((arg, at) =>
    ['--file', '--ro-bind-fd', '--symlink'].includes(arg) ? [`${arg} ${args[at + 2]?.slice('/w/'.length)}`] : [],
  )
  return { entries, leftOut: workspace.omittedCount }
}

function filled(t: TestContext, prefix: string, count: number, make: (path: string) => void): string {
  const home = tempDir(t)
  for (let at = 0; at < count; at++) make(join(home, `${prefix}${String(at).padStart(3, '0')}`))
  return home
}

const writeText = (path: string): void => writeFileSync(path, 'x', { mode: 0o644 })
const makeDirectory = (path: string): void => mkdirSync(path)

test('copies small world-readable files, mounts other files and directories, and adds links last', async (t) => {
  const home = tempDir(t)
  writeFileSync(join(home, 'at-most'), Buffer.alloc(COPY_BYTES))
  writeFileSync(join(home, 'larger'), Buffer.alloc(COPY_BYTES + 1))
  for (const name of ['at-most', 'larger']) chmodSync(join(home, name), 0o644)
  writeFileSync(join(home, 'closed'), 'x', { mode: 0o600 })
  symlinkSync('facts', join(home, 'a-link'))
  mkdirSync(join(home, 'facts'))
  assert.deepEqual(await shownOf(home), {
    entries: ['--ro-bind-fd facts', '--file at-most', '--ro-bind-fd closed', '--ro-bind-fd larger', '--symlink a-link'],
    leftOut: 0,
  })
})

test('hides the workspaces of child groups', async (t) => {
  const home = tempDir(t)
  for (const name of ['child', 'shown']) mkdirSync(join(home, name))
  assert.deepEqual((await shownOf(home, ['child'])).entries, ['--ro-bind-fd shown'])
  mkdirSync(join(home, 'shown', '.claude'))
  assert.deepEqual((await shownOf(home)).entries, ['--ro-bind-fd child'])
})

test(`shows at most ${ENTRIES} entries, instructions and facts first`, async (t) => {
  assert.equal((await shownOf(filled(t, 'A', ENTRIES, writeText))).leftOut, 0)
  const home = filled(t, 'A', ENTRIES, writeText)
  writeText(join(home, 'PERSONA.md'))
  const { entries, leftOut } = await shownOf(home)
  assert.deepEqual([entries.length, leftOut, entries[0]], [ENTRIES, 1, '--file PERSONA.md'])
})

test(`mounts at most ${MOUNTS} entries and still copies small files`, async (t) => {
  assert.equal((await shownOf(filled(t, 'a', MOUNTS, makeDirectory))).leftOut, 0)
  const home = filled(t, 'a', MOUNTS, makeDirectory)
  makeDirectory(join(home, 'public'))
  writeText(join(home, 'z'))
  const { entries, leftOut } = await shownOf(home)
  assert.deepEqual(
    [entries.length, leftOut, entries[0], entries.at(-1)],
    [MOUNTS + 1, 1, '--ro-bind-fd public', '--file z'],
  )
})

test('shows an empty workspace', async (t) => {
  assert.deepEqual(await shownOf(tempDir(t)), { entries: [], leftOut: 0 })
})
