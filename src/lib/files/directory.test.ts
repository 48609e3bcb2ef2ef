import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal, type RefusalCode } from '../refusal.ts'
import { Directory, type DirectoryOptions } from './directory.ts'
import { removeTree } from './directory-tree.ts'

const IS_ROOT = process.getuid?.() === 0

const refused = (code: RefusalCode, sentence: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, code)
  assert.match(error.message, sentence)
  return true
}

for (const byPath of [false, true]) {
  suite(`a directory whose entries are addressed by ${byPath ? 'path' : 'descriptor'}`, () => {
    async function open(t: TestContext, options: DirectoryOptions = {}) {
      const root = tempDir(t)
      const [path, outside] = [join(root, 'inside'), join(root, 'outside')]
      mkdirSync(path)
      mkdirSync(outside)
      writeFileSync(join(outside, 'x'), 'theirs')
      const directory = (await Directory.open(path, { ...(byPath ? { byPath } : {}), ...options })) ?? assert.fail()
      t.after(() => directory.close())
      return { root, path, outside, directory }
    }

    test('opens a directory, and a link to one only if allowed', async (t) => {
      const { root, path } = await open(t)
      symlinkSync('inside', join(root, 'link'))
      assert.equal(await Directory.open(join(root, 'missing'), { byPath }), undefined)
      await assert.rejects(
        Directory.open(join(root, 'link'), { byPath }),
        refused('conflict', /something else is there$/),
      )
      await using followed = await Directory.open(join(root, 'link'), { byPath, follow: true })
      assert.equal(await followed?.realPath(), path)
      writeFileSync(join(root, 'file'), '')
      await assert.rejects(
        Directory.open(join(root, 'file'), { byPath }),
        refused('conflict', /something else is there$/),
      )
    })

    test('accepts only single names', async (t) => {
      const { directory } = await open(t)
      for (const name of ['', '.', '..', 'a/b', '../outside', '/etc', 'a\0b'])
        await assert.rejects(directory.createFile(name, '', 0o644), refused('invalid', /is not a file name$/), name)
      assert.deepEqual(await directory.entries(), [])
    })

    test('makes directories and refuses names that are taken', async (t) => {
      const { path, outside, directory } = await open(t)
      await (await directory.makePath('a/b')).close()
      await (await directory.makePath('a/b/c')).close()
      assert.ok(statSync(join(path, 'a/b/c')).isDirectory())
      symlinkSync(outside, join(path, 'link'))
      symlinkSync('nowhere', join(path, 'dangling'))
      writeFileSync(join(path, 'file'), '')
      for (const name of ['link', 'dangling', 'file', 'link/x', 'a/../link'])
        await assert.rejects(directory.makePath(name), refused(name.includes('..') ? 'invalid' : 'conflict', /./), name)
      for (const name of ['link', 'dangling', 'file', 'missing', 'link/x'])
        assert.equal(await directory.openPath(name), undefined, name)
      assert.deepEqual(readdirSync(outside), ['x'])
    })

    test('creates whole files, never over an entry or through a link, and leaves no temporary file', async (t) => {
      const { path, outside, directory } = await open(t)
      symlinkSync(join(outside, 'new'), join(path, 'link'))
      assert.equal(await directory.createWholeFile('a', 'one', 0o600), true)
      assert.equal(await directory.createWholeFile('a', 'two', 0o644), false)
      assert.equal(await directory.createWholeFile('link', 'x', 0o644), false)
      assert.deepEqual([readFileSync(join(path, 'a'), 'utf8'), statSync(join(path, 'a')).mode & 0o777], ['one', 0o600])
      assert.deepEqual([readdirSync(path).sort(), readdirSync(outside)], [['a', 'link'], ['x']])
    })

    test('creates a file once, and never through a link', async (t) => {
      const { path, outside, directory } = await open(t)
      assert.equal(await directory.createFile('a', 'one', 0o600), true)
      assert.equal(await directory.createFile('a', 'two', 0o644), false)
      assert.deepEqual([readFileSync(join(path, 'a'), 'utf8'), statSync(join(path, 'a')).mode & 0o777], ['one', 0o600])
      symlinkSync(join(outside, 'new'), join(path, 'link'))
      assert.equal(await directory.createFile('link', 'x', 0o644), false)
      assert.deepEqual(readdirSync(outside), ['x'])
    })

    test('replaces a file or a link, and leaves nothing behind on failure', async (t) => {
      const { path, outside, directory } = await open(t)
      symlinkSync(join(outside, 'x'), join(path, 'a'))
      await directory.replaceFile('a', 'one', 0o640)
      await directory.replaceFile('a', 'two', 0o640)
      assert.deepEqual([readFileSync(join(path, 'a'), 'utf8'), lstatSync(join(path, 'a')).mode & 0o777], ['two', 0o640])
      assert.equal(readFileSync(join(outside, 'x'), 'utf8'), 'theirs')
      mkdirSync(join(path, 'd'))
      await assert.rejects(directory.replaceFile('d', '', 0o644), refused('invalid', /d: it is a directory$/))
      assert.deepEqual(readdirSync(path), ['a', 'd'])
    })

    test('returns the target of a link as written', async (t) => {
      const { path, directory } = await open(t)
      symlinkSync('../outside/x', join(path, 'link'))
      writeFileSync(join(path, 'a'), '')
      assert.equal(await directory.readLink('link'), '../outside/x')
      assert.deepEqual([await directory.readLink('a'), await directory.readLink('missing')], [undefined, undefined])
      await assert.rejects(directory.readLink('../outside'), refused('invalid', /is not a file name$/))
    })

    test('reads only regular files up to a size', async (t) => {
      const { path, outside, directory } = await open(t)
      writeFileSync(join(path, 'a'), '12345')
      writeFileSync(join(path, 'empty'), '')
      chmodSync(join(path, 'a'), 0o750)
      const found = await directory.readFile('a', 5)
      assert.deepEqual([String(found?.data), (found?.mode ?? 0) & 0o777], ['12345', 0o750])
      assert.equal(String((await directory.readFile('empty', 0))?.data), '')
      await assert.rejects(directory.readFile('a', 4), refused('too_large', /larger than 4 bytes$/))
      assert.equal(await directory.readFile('missing', 5), undefined)
      symlinkSync(join(outside, 'x'), join(path, 'link'))
      execFileSync('mkfifo', [join(path, 'pipe')])
      mkdirSync(join(path, 'd'))
      await assert.rejects(directory.readFile('link', 99), refused('invalid', /it is a symbolic link$/))
      for (const name of ['pipe', 'd'])
        await assert.rejects(directory.readFile(name, 99), refused('invalid', /it is not a regular file$/))
    })

    test('removes a tree without following its links', async (t) => {
      const { path, outside, directory } = await open(t)
      mkdirSync(join(path, 'tree/a/b'), { recursive: true })
      writeFileSync(join(path, 'tree/a/b/file'), '')
      symlinkSync(outside, join(path, 'tree/a/link'))
      symlinkSync(outside, join(path, 'link'))
      execFileSync('mkfifo', [join(path, 'tree/pipe')])
      for (const name of ['tree', 'link', 'missing']) await removeTree(directory, name)
      assert.deepEqual([readdirSync(path), readdirSync(outside)], [[], ['x']])
    })

    test('sets the owner of what it creates', { skip: !IS_ROOT }, async (t) => {
      const { path, directory } = await open(t, { owner: { uid: 60_001, gid: 60_002 } })
      mkdirSync(join(path, 'old'))
      await using below = await directory.makePath('old/new/newer')
      await below.createFile('a', '', 0o644)
      await directory.replaceFile('b', '', 0o644)
      const owner = (name: string): string => `${lstatSync(join(path, name)).uid}:${lstatSync(join(path, name)).gid}`
      const names = ['old', 'old/new', 'old/new/newer', 'old/new/newer/a', 'b']
      assert.deepEqual(names.map(owner), ['0:0', ...Array(4).fill('60001:60002')])
    })
  })
}

test('stays with the opened directory when another takes its name', {
  skip: process.platform !== 'linux',
}, async (t) => {
  const root = tempDir(t)
  mkdirSync(join(root, 'a'))
  await using directory = (await Directory.open(join(root, 'a'))) ?? assert.fail()
  renameSync(join(root, 'a'), join(root, 'moved'))
  mkdirSync(join(root, 'a'))
  await directory.createFile('x', '', 0o644)
  assert.deepEqual([readdirSync(join(root, 'a')), readdirSync(join(root, 'moved'))], [[], ['x']])
  assert.equal(await directory.realPath(), join(root, 'moved'))
})

test('removes a tree deeper than any path can be', { skip: process.platform !== 'linux' }, async (t) => {
  const root = tempDir(t)
  await using directory = (await Directory.open(root)) ?? assert.fail()
  let at = await directory.makePath('deep')
  for (let depth = 0; depth < 2500; depth++) {
    await using above = at
    at = await above.makePath('d')
  }
  await at.close()
  await removeTree(directory, 'deep')
  assert.deepEqual(readdirSync(root), [])
})

test('notices that its parent directory was replaced', async (t) => {
  const root = tempDir(t)
  mkdirSync(join(root, 'a/b'), { recursive: true })
  mkdirSync(join(root, 'c'))
  await using above = (await Directory.open(join(root, 'a'))) ?? assert.fail()
  await using below = (await above.openDirectory('b')) ?? assert.fail()
  await (await below.openParent(await above.stat())).close()
  renameSync(join(root, 'a/b'), join(root, 'c/b'))
  await assert.rejects(below.openParent(await above.stat()), refused('conflict', /b was moved while it was in use$/))
})
