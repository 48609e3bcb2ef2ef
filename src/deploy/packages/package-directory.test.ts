import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { packageDir, writeFiles } from '../../../test/support/package-files.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readPackageDirectory } from './package-directory.ts'

async function refusalOf(dir: string): Promise<string> {
  const found = await readPackageDirectory(dir, 'the source').catch((error: unknown) => error)
  if (found instanceof Refusal) return found.message
  if (found instanceof Error) throw found
  return 'accepted'
}

suite('a package in a directory', () => {
  test('has its files without documents and hidden entries, and a revision of their content', async (t) => {
    const dir = packageDir(t)
    writeFiles(dir, { '.git/config': 'x', LICENSE: 'x', 'skills/summary/run': '#!/bin/sh\n' })
    chmodSync(join(dir, 'skills/summary/run'), 0o755)
    const { files, revision } = await readPackageDirectory(dir, 'x')
    assert.deepEqual([...files.keys()].sort(), [
      'files/config.yaml',
      'package.toml',
      'services.yml',
      'skills/summary/SKILL.md',
      'skills/summary/more/example.md',
      'skills/summary/run',
    ])
    assert.equal(files.get('skills/summary/run')?.isExecutable, true)
    assert.match(revision, /^[0-9a-f]{40}$/)
    const revisionOf = async (): Promise<string> => (await readPackageDirectory(dir, 'x')).revision
    writeFileSync(join(dir, 'README.md'), 'another document')
    assert.equal(await revisionOf(), revision)
    chmodSync(join(dir, 'skills/summary/run'), 0o644)
    const notExecutable = await revisionOf()
    assert.notEqual(notExecutable, revision)
    writeFileSync(join(dir, 'files/config.yaml'), 'a: 2\n')
    assert.notEqual(await revisionOf(), notExecutable)
  })

  test('refuses a missing directory and a file', async (t) => {
    const dir = packageDir(t)
    assert.match(await refusalOf(join(dir, 'none')), /^there is no directory/)
    assert.match(await refusalOf(join(dir, 'package.toml')), /something else is there|not a directory/)
  })

  test('refuses symbolic links and devices without reading them', async (t) => {
    const linked = packageDir(t)
    symlinkSync('/etc/passwd', join(linked, 'skills/summary/secret'))
    assert.match(
      await refusalOf(linked),
      /^cannot use the package at the source: "skills\/summary\/secret" is a symbolic link/,
    )
    const directory = packageDir(t)
    symlinkSync('/etc', join(directory, 'skills/etc'))
    assert.match(await refusalOf(directory), /"skills\/etc" is a symbolic link/)
    const pipe = packageDir(t)
    execFileSync('mkfifo', [join(pipe, 'skills/summary/pipe')])
    assert.match(await refusalOf(pipe), /"skills\/summary\/pipe" is not a regular file/)
  })

  test('refuses names that are hidden or strange', async (t) => {
    for (const name of ['.env', 'a b', 'ünder', '-x', 'x\ny', `${'x'.repeat(101)}`])
      assert.match(await refusalOf(packageDir(t, { [`skills/summary/${name}`]: '' })), /is not allowed; a name is/)
    assert.equal(await refusalOf(packageDir(t, { [`skills/summary/${'x'.repeat(100)}`]: '' })), 'accepted')
  })

  test('has at most 500 files, 4 MiB in one and 16 MiB in all', async (t) => {
    const many = (count: number) =>
      packageDir(t, Object.fromEntries(Array.from({ length: count }, (_, at) => [`files/${at}`, ''])))
    assert.equal(await refusalOf(many(500)), 'accepted')
    assert.match(await refusalOf(many(501)), /it has more than 500 files/)
    const sized = (...sizes: number[]): string => {
      const dir = tempDir(t)
      for (const [at, size] of sizes.entries()) {
        writeFileSync(join(dir, String(at)), '')
        truncateSync(join(dir, String(at)), size)
      }
      return dir
    }
    const max = 4 * 1024 * 1024
    assert.equal(await refusalOf(sized(max, max, max, max)), 'accepted')
    assert.match(await refusalOf(sized(max + 1)), /larger than 4194304 bytes/)
    assert.match(await refusalOf(sized(max, max, max, max, 1)), /more than 16777216 bytes/)
  })

  test('is at most 12 levels deep', async (t) => {
    const nested = (levels: number) => packageDir(t, { [`${'d/'.repeat(levels - 1)}f`]: '' })
    assert.equal(await refusalOf(nested(12)), 'accepted')
    assert.match(await refusalOf(nested(13)), /nested deeper than 12 levels/)
    const deep = tempDir(t)
    mkdirSync(join(deep, 'd/'.repeat(60)), { recursive: true })
    assert.match(await refusalOf(deep), /is not a regular file|nested deeper/)
  })
})
