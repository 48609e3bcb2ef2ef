import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { swapFolder } from '../../../test/support/entry-swapper.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { Refusal } from '../../lib/refusal.ts'
import { FILE_BYTES_MAX } from '../delivery/staged-files.ts'
import { layout } from '../layout.ts'
import { FileName, openWorkspaceFile, parseVoice, personaVoice, workspacePathFault } from './workspace-files.ts'

function workspace(t: TestContext) {
  const dirs = layout(tempDir(t))
  const home = join(dirs.groups, 'team')
  mkdirSync(home, { recursive: true })
  return {
    home,
    dirs,
    read: async (path: string): Promise<string> => {
      await using file = await openWorkspaceFile(dirs, 'team', path)
      return await file.readFile('utf8')
    },
    voice: () => personaVoice(dirs, 'team'),
  }
}

test('accepts only paths below /home/node/', () => {
  for (const path of ['/home/node/a', '/home/node/a/b.txt', '/home/node/.env.example', '/home/node/a b'])
    assert.equal(workspacePathFault(path), undefined, path)
  for (const path of ['', 'a', '~/a', '/home/node', '/home/nodes/a', '/home/node/', '/home/node///', '/etc/passwd'])
    assert.ok(workspacePathFault(path), path)
  for (const path of ['/home/node/a\nb', '/home/node/a\u0000b', `/home/node/${'x'.repeat(5000)}`])
    assert.ok(workspacePathFault(path), path)
})

test('rejects paths of keys in any letter case', () => {
  for (const path of ['.env', 'x/.ssh/known_hosts', '.AWS/config', 'id_rsa', 'a/credentials', '.secret/x'])
    assert.match(workspacePathFault(`/home/node/${path}`) ?? '', /keys/)
})

test('opens files, empty files and files in subdirectories', async (t) => {
  const { home, read } = workspace(t)
  mkdirSync(join(home, 'sub'))
  for (const [path, content] of [
    ['a.txt', 'hello'],
    ['empty', ''],
    ['sub/b', 'below'],
  ] as const) {
    writeFileSync(join(home, path), content)
    assert.equal(await read(`/home/node/${path}`), content)
  }
  assert.equal(await read('/home/node/sub/../a.txt'), 'hello')
  symlinkSync('a.txt', join(home, 'inside'))
  assert.equal(await read('/home/node/inside'), 'hello')
})

test('refuses paths and links that lead out of the workspace', async (t) => {
  const { home, dirs, read } = workspace(t)
  writeFileSync(join(dirs.root, '.env'), 'SECRET=1')
  mkdirSync(join(dirs.groups, 'team-2'))
  writeFileSync(join(dirs.groups, 'team-2', 'x'), 'not yours')
  symlinkSync(dirs.root, join(home, 'up'))
  symlinkSync(join(dirs.groups, 'team-2', 'x'), join(home, 'link'))
  symlinkSync('loop', join(home, 'loop'))
  mkdirSync(join(home, '.ssh'))
  writeFileSync(join(home, '.ssh', 'key'), 'k')
  symlinkSync('.ssh', join(home, 'harmless'))
  for (const path of ['../team-2/x', 'up/groups/team-2/x', 'link', 'up', 'loop', 'harmless/key'])
    await assert.rejects(read(`/home/node/${path}`), isRefusal('not_found'), path)
  await assert.rejects(read('/home/node/up/.env'), isRefusal('invalid', 'keys'))
})

test('refuses a path outside in the same way whether or not it exists', async (t) => {
  const { home, dirs, read } = workspace(t)
  mkdirSync(join(dirs.groups, 'team-2'))
  writeFileSync(join(dirs.groups, 'team-2', 'there'), 'not yours')
  writeFileSync(join(home, 'a'), 'x')
  symlinkSync('/', join(home, 'root'))
  writeFileSync(join(home, '.env'), 'KEY=1')
  const refusalOf = async (path: string): Promise<string> => {
    const error = await read(`/home/node/${path}`).catch((reason: unknown) => reason)
    assert.ok(error instanceof Refusal, path)
    return `${error.code} ${error.message.replace(`/home/node/${path} `, '<path> ')} ${error.hint}`
  }
  const seen = new Set<string>()
  for (const target of [
    '../team-2/there',
    '../team-2/missing',
    '/etc/hosts',
    '/etc/missing',
    '/root/x',
    '.env',
    'no',
    'l',
  ])
    for (const depth of ['', 'a/../', './']) {
      rmSync(join(home, 'l'), { force: true })
      symlinkSync(`${depth}${target}`, join(home, 'l'))
      seen.add(await refusalOf('l'))
    }
  for (const path of ['../team-2/there', '../team-2/missing', 'root/etc/hosts', 'root/etc/missing', 'a/b', '..', 'no'])
    seen.add(await refusalOf(path))
  assert.deepEqual([...seen], ['not_found <path> does not exist, or is not a file that you can send undefined'])
})

test('follows links that stay inside, also by the path that the agent sees', async (t) => {
  const { home, read } = workspace(t)
  mkdirSync(join(home, 'sub', 'deep'), { recursive: true })
  writeFileSync(join(home, 'sub', 'a'), 'x')
  for (const [at, target] of [
    ['relative', 'sub/a'],
    ['sub/deep/up', '../../relative'],
    ['agents', '/home/node/sub/a'],
    ['hosts', join(home, 'sub', 'a')],
    ['directory', './sub/deep/..'],
  ] as const)
    symlinkSync(target, join(home, at))
  for (const path of ['relative', 'sub/deep/up', 'agents', 'hosts', 'directory/a', 'sub//./deep/../a'])
    assert.equal(await read(`/home/node/${path}`), 'x', path)
})

test('refuses a path of too many segments and links, and accepts the longest', async (t) => {
  const { home, read } = workspace(t)
  writeFileSync(join(home, 'a'), 'x')
  assert.equal(await read(`/home/node/${'./'.repeat(128)}a`), 'x')
  await assert.rejects(read(`/home/node/${'./'.repeat(129)}a`), isRefusal('not_found'))
})

test('opens only regular files and does not block on other kinds', async (t) => {
  const { home, read } = workspace(t)
  mkdirSync(join(home, 'folder'))
  execFileSync('mkfifo', [join(home, 'pipe')])
  symlinkSync('/dev/zero', join(home, 'zero'))
  await assert.rejects(read('/home/node/folder'), isRefusal('invalid', 'not a regular file'))
  await assert.rejects(read('/home/node/pipe'), isRefusal('invalid', 'not a regular file'))
  await assert.rejects(read('/home/node/zero'), isRefusal('not_found', '/home/node/zero does not exist, or'))
  await assert.rejects(read('/home/node/missing'), isRefusal('not_found', '/home/node/missing does not exist, or'))
  await assert.rejects(read('/home/node/folder/missing/x'), isRefusal('not_found', '/home/node/'))
})

test('checks the size before reading', async (t) => {
  const { home, dirs, read } = workspace(t)
  writeFileSync(join(home, 'big'), '')
  truncateSync(join(home, 'big'), 10 * 1024 ** 3)
  await assert.rejects(read('/home/node/big'), isRefusal('too_large', '50 MiB'))
  truncateSync(join(home, 'big'), FILE_BYTES_MAX)
  await (await openWorkspaceFile(dirs, 'team', '/home/node/big')).close()
})

test('never reads a file that replaces another while it is opened', async (t) => {
  const { home, dirs, read } = workspace(t)
  await using _swapping = await swapFolder(home, dirs.root)
  const seen = new Set<string>()
  for (let n = 0; n < 6000; n++) seen.add(await read('/home/node/dir/x').catch((error) => error.code ?? 'thrown'))
  assert.ok(!seen.has('theirs'), [...seen].join(' '))
  assert.ok(!seen.has('thrown'))
})

test('accepts one line without directories as a file name', () => {
  for (const name of ['a.pdf', 'Über uns.txt', '.hidden']) assert.ok(FileName.safeParse(name).success, name)
  for (const name of ['', 'a/b', 'a\\b', 'a\nb', '.', '..', 'x'.repeat(256)])
    assert.ok(!FileName.safeParse(name).success, JSON.stringify(name))
})

test('reads the voice from the front matter of PERSONA.md', async (t) => {
  const { home, voice } = workspace(t)
  assert.equal(await voice(), undefined)
  writeFileSync(join(home, 'PERSONA.md'), '---\nsummary: x\nvoice: "nova"\n---\nvoice: body\n')
  assert.equal(await voice(), 'nova')
  writeFileSync(join(home, 'PERSONA.md'), 'x'.repeat(70_000))
  assert.equal(await voice(), undefined)
  assert.equal(parseVoice('---\nvoice: alloy # ours\n---\n'), 'alloy')
  assert.equal(parseVoice("---\r\nvoice: 'a b'\r\n---\r\n"), 'a b')
  for (const text of [
    'voice: x',
    '---\nvoice:\n---\n',
    '---\nxvoice: a\n---\n',
    `---\nvoice: ${'x'.repeat(65)}\n---\n`,
  ])
    assert.equal(parseVoice(text), undefined, text)
})

test('never throws on any path or persona', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (rest) => {
      const fault = workspacePathFault(`/home/node/${rest}`)
      assert.ok(fault !== undefined || !/[\u0000-\u001f]/.test(rest))
      const voice = parseVoice(`---\nvoice: ${rest}\n---\n`)
      assert.ok(voice === undefined || (voice !== '' && !/[\n\u0000]/.test(voice)))
    }),
  )
})

test('opens hard links', async (t) => {
  const { home, read } = workspace(t)
  writeFileSync(join(home, 'a'), 'x')
  linkSync(join(home, 'a'), join(home, 'b'))
  assert.equal(await read('/home/node/b'), 'x')
})
