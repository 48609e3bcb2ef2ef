import assert from 'node:assert/strict'
import { chownSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { makeDirectory, writeAtomic } from './atomic-file.ts'
import { Directory } from './directory.ts'
import { makeDirectorySync, makeFileSync } from './owner.ts'

const ownerOf = (path: string): number[] => [statSync(path).uid, statSync(path).gid]

suite('what root makes', needs('root'), () => {
  test('belongs to the owner of its directory, and so do missing parents', async (t) => {
    const top = tempDir(t)
    chownSync(top, 4321, 4322)
    const at = (...names: string[]): string => join(top, ...names)
    await makeDirectory(at('a', 'b'), 0o700)
    makeDirectorySync(at('c', 'd'), 0o700)
    makeFileSync(at('c', 'd', 'file'))
    await writeAtomic(at('a', 'b', 'file'), 'x', 0o600)
    await using made = await Directory.make(at('e', 'f'), 0o700)
    await (await made.appendFile('log', 0o600)).close()
    await made.createFile('file', 'x', 0o600)
    await (await made.makePath('g/h')).close()
    const paths = [
      ...['a', 'a/b', 'a/b/file', 'c', 'c/d', 'c/d/file'],
      ...['e', 'e/f', 'e/f/log', 'e/f/file', 'e/f/g', 'e/f/g/h'],
    ]
    for (const path of paths) assert.deepEqual(ownerOf(at(path)), [4321, 4322], path)
  })

  test('keeps its owner if it exists, and belongs to root in a directory of root', async (t) => {
    const top = tempDir(t)
    mkdirSync(join(top, 'theirs'))
    const existing = join(top, 'theirs', 'existing')
    mkdirSync(existing)
    chownSync(join(top, 'theirs'), 4321, 4322)
    await makeDirectory(existing, 0o700)
    makeDirectorySync(existing, 0o700)
    makeDirectorySync(join(top, 'ours'), 0o700)
    await writeAtomic(join(top, 'file'), 'x', 0o600)
    for (const path of [existing, join(top, 'ours'), join(top, 'file')]) assert.deepEqual(ownerOf(path), [0, 0], path)
  })
})
