import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { openVisitorWorkspace } from './visitor-workspace.ts'

const COPY_BYTES = 64 * 1024
const MOUNTS = 64
const ENTRIES = 256
const NAMES = 1024
const OPENED = 512

interface Shown {
  /** In order, such as `--file PERSONA.md`. */
  readonly entries: readonly string[]
  readonly leftOut: number
}

async function shownOf(home: string, children: readonly string[] = [], writable?: readonly string[]): Promise<Shown> {
  await using directory = await open(home)
  const workspace = await openVisitorWorkspace(directory.fd, {
    children: new Set(children),
    isVisitor: writable === undefined,
    writable: new Set(writable),
  })
  const args = workspace.mounts('/w', () => 'fd')
  await workspace.close()
  const entries = args.flatMap((arg, at) =>
    ['--file', '--ro-bind-fd', '--bind-fd', '--symlink'].includes(arg)
      ? [`${arg} ${args[at + 2]?.slice('/w/'.length)}`]
      : [],
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

test('at reach work shows all but sessions and child groups, and mounts work paths writable', async (t) => {
  const home = tempDir(t)
  for (const name of ['.claude', '.svc', '.git', 'diary', 'data', 'child', 'gone', 'gone/.claude', 'data/.claude'])
    makeDirectory(join(home, name))
  for (const name of ['.env', 'work.md', '.claude/settings.json', '.claude/history.jsonl']) writeText(join(home, name))
  symlinkSync('/etc', join(home, 'out'))
  const { entries } = await shownOf(home, ['child'], ['data', 'out', 'work.md', 'missing'])
  assert.deepEqual(entries.toSorted(), [
    '--bind-fd data',
    '--file .claude/settings.json',
    '--file .env',
    '--file work.md',
    '--ro-bind-fd .git',
    '--ro-bind-fd diary',
    '--symlink out',
  ])
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

/** Counts requests to the file system and opened files while `work` runs. */
async function countWork<T>(work: () => Promise<T>): Promise<{ result: T; requests: number; opened: number }> {
  let [requests, opened] = [0, 0]
  const hook = createHook({
    init: (_id, type) => {
      if (type === 'FSREQPROMISE' || type === 'FSREQCALLBACK') requests++
      if (type === 'FILEHANDLE') opened++
    },
  }).enable()
  try {
    return { result: await work(), requests, opened }
  } finally {
    hook.disable()
  }
}

const writePrivate = (path: string): void => writeFileSync(path, 'x', { mode: 0o600 })

test('the work for a workspace does not grow with its number of entries', async (t) => {
  const measured = []
  for (const count of [NAMES + 100, 2 * NAMES]) {
    const home = filled(t, 'a', count, writePrivate)
    mkdirSync(join(home, '.claude'))
    writeText(join(home, '.claude', 'CLAUDE.md'))
    for (const name of ['facts', 'public']) mkdirSync(join(home, name))
    writeText(join(home, 'PERSONA.md'))
    const { result, requests, opened } = await countWork(() => shownOf(home))
    assert.deepEqual(result.entries.slice(0, 4), [
      '--file .claude/CLAUDE.md',
      '--file PERSONA.md',
      '--ro-bind-fd facts',
      '--ro-bind-fd public',
    ])
    assert.equal(result.entries.length, MOUNTS + 2)
    // The workspace itself and its `.claude` are opened too.
    assert.ok(opened > OPENED / 2 && opened <= OPENED + 3, `${opened} files were opened`)
    measured.push([requests, opened])
  }
  assert.deepEqual(measured[0], measured[1])
})

test(`reads at most ${NAMES} names and reports that there are more`, async (t) => {
  // Hidden names are read too, and do not count as left out.
  const home = filled(t, '.a', NAMES - 1, writeText)
  writeText(join(home, 'z'))
  assert.deepEqual(await shownOf(home), { entries: ['--file z'], leftOut: 0 })
  writeText(join(home, '.last'))
  assert.equal((await shownOf(home)).leftOut, 1)
})

test(`opens at most ${OPENED} entries`, async (t) => {
  // Five names are opened before the others, whether they exist or not.
  const others = OPENED - 5
  const home = filled(t, 'a', others, writePrivate)
  assert.deepEqual((await shownOf(home)).leftOut, others - MOUNTS)
  writeText(join(home, 'z'))
  assert.ok(!(await shownOf(home)).entries.includes('--file z'))
  const smaller = filled(t, 'a', others - 1, writePrivate)
  writeText(join(smaller, 'z'))
  assert.ok((await shownOf(smaller)).entries.includes('--file z'))
})
