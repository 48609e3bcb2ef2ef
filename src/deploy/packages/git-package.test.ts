import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chownSync, existsSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import {
  git,
  packageRepository,
  type TestRepository,
  writeFiles,
  writeHook,
} from '../../../test/support/package-files.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import { type FetchOptions, readGitPackage } from './git-package.ts'
import { readPackageDirectory } from './package-directory.ts'
import { parsePackageSource } from './package-source.ts'
import type { PackageTree } from './package-tree.ts'

function read(source: string, options: FetchOptions = {}): Promise<PackageTree> {
  const parsed = parsePackageSource(source)
  if (parsed.kind !== 'git') throw new Error(`${source} is not a repository`)
  return readGitPackage(parsed, options)
}

async function refusalOf(source: string, options: FetchOptions = {}): Promise<Refusal> {
  const found = await read(source, options).catch((error: unknown) => error)
  if (found instanceof Refusal) return found
  throw found instanceof Error ? found : new Error('accepted')
}

const leftovers = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith(`svc-package-${process.pid}-`))

/** Adds an entry to the tree that no file system would give. */
function publishTree(repository: TestRepository, lines: readonly string[]): void {
  const listing = git(repository.dir, 'ls-tree', 'HEAD')
  const tree = execFileSync('git', ['mktree', '--missing'], {
    cwd: repository.dir,
    encoding: 'utf8',
    input: `${[listing, ...lines].join('\n')}\n`,
  }).trim()
  const commit = git(repository.dir, 'commit-tree', tree, '-m', 'A strange tree')
  git(repository.dir, 'push', '--quiet', '--force', 'origin', `${commit}:refs/heads/main`)
}

suite('a package in a git repository', needs('git'), () => {
  test('has the files and the commit of HEAD, a branch, a tag or a commit', async (t) => {
    const repository = packageRepository(t)
    const first = repository.publish()
    git(repository.dir, 'tag', '-a', 'v1', '-m', 'One')
    git(repository.dir, 'push', '--quiet', 'origin', 'v1')
    writeFileSync(join(repository.dir, 'files/config.yaml'), 'a: 2\n')
    const second = repository.publish()
    const progress: string[] = []
    const head = await read(repository.url, { onProgress: (text) => progress.push(text) })
    assert.equal(head.revision, second)
    assert.deepEqual(head.files, (await readPackageDirectory(repository.dir, 'x')).files)
    assert.equal((await read(`${repository.url}#main`)).revision, second)
    const tagged = await read(`git+${repository.url}#v1`)
    assert.deepEqual([tagged.revision, tagged.source], [first, `git+${repository.url}#v1`])
    assert.equal(tagged.files.get('files/config.yaml')?.data.toString(), 'a: 1\n')
    assert.deepEqual(leftovers(), [])
  })

  test('refuses a repository or branch that does not exist, in one sentence', async (t) => {
    const none = await refusalOf(`file://${tempDir(t)}/none`)
    assert.match(none.message, /^cannot fetch file:\/\/.*\/none: fatal: .*does not appear to be a git repository/)
    assert.doesNotMatch(none.message, /\n/)
    const repository = packageRepository(t)
    repository.publish()
    assert.match((await refusalOf(`${repository.url}#none`)).message, /couldn't find remote ref none/)
    assert.deepEqual(leftovers(), [])
  })

  test('refuses symbolic links, submodules and paths that climb out', async (t) => {
    const linked = packageRepository(t)
    symlinkSync('/etc/passwd', join(linked.dir, 'skills/summary/secret'))
    linked.publish()
    assert.match((await refusalOf(linked.url)).message, /"skills\/summary\/secret" is a symbolic link/)

    const module = packageRepository(t)
    const commit = module.publish()
    publishTree(module, [`160000 commit ${commit}\tmodule`])
    assert.match((await refusalOf(module.url)).message, /"module" is a submodule/)

    const climbing = packageRepository(t)
    climbing.publish()
    const blob = git(climbing.dir, 'hash-object', '-w', 'package.toml')
    // Written by hand, because git itself refuses such a name.
    const inner = writeObject(
      climbing.dir,
      'tree',
      Buffer.concat([Buffer.from('100644 x\0'), Buffer.from(blob, 'hex')]),
    )
    const outer = writeObject(
      climbing.dir,
      'tree',
      Buffer.concat([Buffer.from('40000 ..\0'), Buffer.from(inner, 'hex')]),
    )
    const bad = git(climbing.dir, 'commit-tree', outer, '-m', 'A climbing tree')
    git(climbing.dir, 'push', '--quiet', '--force', 'origin', `${bad}:refs/heads/main`)
    assert.match(
      (await refusalOf(climbing.url)).message,
      /hasDotdot|contains '\.\.'|index-pack|fsck|unpack|is not allowed/i,
    )
    assert.deepEqual(leftovers(), [])
  })

  test('refuses a huge file before it is read, and too many files', async (t) => {
    const huge = packageRepository(t)
    writeFileSync(join(huge.dir, 'files/huge'), Buffer.alloc(4 * 1024 * 1024 + 1))
    huge.publish()
    assert.match((await refusalOf(huge.url)).message, /"files\/huge" is larger than 4194304 bytes/)
    const many = packageRepository(t, Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`files/${at}`, ''])))
    many.publish()
    assert.match((await refusalOf(many.url)).message, /more than 500 files/)
  })

  test('stops a fetch that writes too much', async (t) => {
    const repository = packageRepository(t)
    writeFileSync(join(repository.dir, 'files/noise'), randomBytes(1024 * 1024))
    repository.publish()
    const { message } = await refusalOf(repository.url, { maxBytes: 512 * 1024 })
    assert.match(message, /the repository is larger than 524288 bytes$/)
    assert.equal((await read(repository.url, { maxBytes: 2 * 1024 * 1024 })).files.has('files/noise'), true)
    assert.deepEqual(leftovers(), [])
  })

  test('runs no hook, filter or configuration of the repository', async (t) => {
    const repository = packageRepository(t)
    const witness = join(tempDir(t), 'witness')
    const bare = repository.url.slice('file://'.length)
    writeFiles(repository.dir, {
      '.gitattributes': '* filter=evil\n',
      '.gitmodules': '[submodule "x"]\n\tpath = x\n\turl = ext::touch x\n',
    })
    repository.publish()
    for (const hook of ['post-checkout', 'post-merge', 'reference-transaction'])
      writeHook(bare, `hooks/${hook}`, witness)
    git(bare, 'config', 'filter.evil.smudge', `touch ${witness}`)
    git(bare, 'config', 'core.fsmonitor', `touch ${witness}`)
    assert.equal((await read(repository.url)).files.has('package.toml'), true)
    assert.equal(existsSync(witness), false)
  })

  test('refuses a repository of another user', needs('root'), async (t) => {
    const repository = packageRepository(t)
    repository.publish()
    chownSync(repository.url.slice('file://'.length), 65534, 65534)
    const { message, hint } = await refusalOf(repository.url)
    assert.match(message, /the repository belongs to another user$/)
    assert.match(hint ?? '', /clone it and install the directory/)
  })

  test('stops a fetch that takes too long', async (t) => {
    const repository = packageRepository(t)
    repository.publish()
    const { message, hint } = await refusalOf(repository.url, { timeoutMs: 0 })
    assert.match(message, /it takes longer than allowed/)
    assert.equal(hint, 'try again later')
    assert.deepEqual(leftovers(), [])
  })

  test('says so if git is not installed', async (t) => {
    const path = process.env.PATH
    t.after(() => {
      process.env.PATH = path
    })
    process.env.PATH = tempDir(t)
    const { message, hint } = await refusalOf('file:///x')
    assert.deepEqual([message, /copy the package to a directory/.test(hint ?? '')], ['git is not installed', true])
  })
})

/** Stores an object as it is, without git's checks, and returns its hash. */
function writeObject(cwd: string, type: string, data: Buffer): string {
  const file = join(cwd, '.git', `object-${createHash('sha1').update(data).digest('hex')}`)
  writeFileSync(file, data)
  const hash = git(cwd, 'hash-object', '-t', type, '-w', '--literally', file)
  rmSync(file)
  return hash
}
