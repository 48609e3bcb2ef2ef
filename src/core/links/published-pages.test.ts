import assert from 'node:assert/strict'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { runs } from '../../../test/support/part.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../layout.ts'
import {
  listPublishedFiles,
  PAGE_FILE_MAX_BYTES,
  PAGE_FILES_MAX,
  PAGE_FILES_MAX_BYTES,
  PageBytes,
  PageName,
  pagePath,
  publishFile,
  unpublishFile,
} from './published-pages.ts'

function openPages(t: TestContext) {
  const places = layout(tempDir(t))
  const owner = { folder: 'team', below: new Set(['sub']) }
  const own = join(places.webPub, 'team')
  return {
    places,
    own,
    list: async () => (await listPublishedFiles(places, owner)).files.map(({ path }) => path),
    all: () => listPublishedFiles(places, owner),
    publish: (name: string, text = 'text', slot: 'pub' | 'priv' = 'pub') =>
      publishFile(places, owner, { slot, name, data: Buffer.from(text) }),
    unpublish: (name: string, slot: 'pub' | 'priv' = 'pub') => unpublishFile(places, owner, { slot, name }),
  }
}

test('publishes, lists, replaces and removes files for everyone or for people of the folder', async (t) => {
  const { places, own, all, list, publish, unpublish } = openPages(t)
  assert.deepEqual(await all(), { files: [], isCut: false })
  assert.equal(await publish('index.html', 'one'), true)
  assert.equal(await publish('index.html', 'second'), false)
  assert.equal(await publish('docs/a b.html'), true)
  assert.equal(await publish('index.html', 'private', 'priv'), true)
  assert.equal(readFileSync(join(own, 'index.html'), 'utf8'), 'second')
  assert.equal(readFileSync(join(places.webPriv, 'team/index.html'), 'utf8'), 'private')
  assert.equal(statSync(join(own, 'index.html')).mode & 0o777, 0o644)
  assert.equal(statSync(places.webPriv).mode & 0o777, 0o700)
  const { files } = await all()
  assert.deepEqual(
    files.map(({ slot, name, path, bytes }) => [slot, name, path, bytes]),
    [
      ['pub', 'docs/a b.html', '/pub/team/docs/a%20b.html', 4],
      ['pub', 'index.html', '/pub/team/index.html', 6],
      ['priv', 'index.html', '/priv/team/index.html', 7],
    ],
  )
  await unpublish('index.html')
  await unpublish('docs/a b.html')
  assert.deepEqual(await list(), ['/priv/team/index.html'])
  // With the directory that is empty now, but not that of the folder.
  assert.deepEqual(readdirSync(own), [])
  await assert.rejects(unpublish('index.html'), isRefusal('not_found', 'team publishes no file index.html'))
})

test('keeps directories that still have files', async (t) => {
  const { own, publish, unpublish } = openPages(t)
  await publish('a/b/c.html')
  await publish('a/d.html')
  await unpublish('a/b/c.html')
  assert.deepEqual(readdirSync(join(own, 'a')), ['d.html'])
})

test('leaves the pages of folders below alone', async (t) => {
  const { own, list, publish, unpublish } = openPages(t)
  mkdirSync(join(own, 'sub'), { recursive: true })
  writeFileSync(join(own, 'sub/theirs.html'), '')
  assert.deepEqual(await list(), [])
  const isTheirs = isRefusal('conflict', 'sub is a folder below team')
  for (const name of ['sub/theirs.html', 'sub/new.html', 'sub']) await assert.rejects(publish(name), isTheirs)
  await assert.rejects(unpublish('sub/theirs.html'), isTheirs)
  assert.deepEqual(readdirSync(join(own, 'sub')), ['theirs.html'])
  await publish('docs/sub/mine.html')
  assert.deepEqual(await list(), ['/pub/team/docs/sub/mine.html'])
})

test('follows no links, and replaces neither a directory nor a link', async (t) => {
  const { own, list, publish, unpublish } = openPages(t)
  const outside = tempDir(t)
  writeFileSync(join(outside, 'file'), 'kept')
  mkdirSync(join(own, 'directory'), { recursive: true })
  writeFileSync(join(own, 'plain'), '')
  symlinkSync(outside, join(own, 'out'))
  symlinkSync(join(outside, 'file'), join(own, 'link'))
  await assert.rejects(publish('out/file'), isRefusal('conflict', 'a part of out is a file or a link, not a directory'))
  await assert.rejects(publish('plain/file'), isRefusal('conflict', 'a part of plain is a file or a link'))
  for (const name of ['directory', 'link'])
    await assert.rejects(publish(name), isRefusal('conflict', `${name} is a directory or a link`))
  for (const name of ['out/file', 'link', 'directory', 'none', 'none/deep'])
    await assert.rejects(unpublish(name), isRefusal('not_found'))
  assert.deepEqual(await list(), ['/pub/team/plain'])
  assert.equal(readFileSync(join(outside, 'file'), 'utf8'), 'kept')
  assert.deepEqual(readdirSync(outside), ['file'])
})

test('lists no hidden files, because the front door does not show them', async (t) => {
  const { own, list } = openPages(t)
  mkdirSync(join(own, '.git'), { recursive: true })
  for (const name of ['.env', '.git/config', 'shown']) writeFileSync(join(own, name), '')
  assert.deepEqual(await list(), ['/pub/team/shown'])
})

test('refuses more files than are listed, and more bytes than a folder may have', async (t) => {
  const { own, all, publish } = openPages(t)
  mkdirSync(own, { recursive: true })
  for (let n = 0; n < PAGE_FILES_MAX - 1; n++) writeFileSync(join(own, `f${n}`), '')
  await publish('last')
  await assert.rejects(publish('more'), isRefusal('storage_full', 'team publishes 500 files already'))
  assert.ok(!existsSync(join(own, 'more')))
  assert.equal(await publish('last', 'replaced'), false)
  assert.deepEqual([(await all()).isCut, (await all()).files.length], [false, PAGE_FILES_MAX])
  truncateSync(join(own, 'f0'), PAGE_FILES_MAX_BYTES - 4)
  assert.equal(await publish('last', 'four'), false)
  await assert.rejects(publish('last', 'fives'), isRefusal('storage_full', 'more than 268435456 bytes'))
  writeFileSync(join(own, 'by hand'), '')
  assert.equal((await all()).isCut, true)
  await assert.rejects(publish('last', ''), isRefusal('storage_full'))
})

test('accepts names that the front door shows', () => {
  const long = 'a'.repeat(255)
  for (const name of ['index.html', 'a/b/c', 'ü b.txt', 'a..b', long, Array(12).fill('a').join('/'), 'x%y?#'])
    assert.equal(PageName.safeParse(name).success, true, name)
  for (const [name, fault] of [
    ['', 'must not be empty'],
    [`${long}a`, 'must not have a part of more than 255 bytes'],
    [`${'a/'.repeat(250)}a`, 'is longer than 500 characters'],
    [Array(13).fill('a').join('/'), 'must have at most 12 parts'],
    ['../x', 'must not have a part that begins with "."'],
    ['a/.env', 'must not have a part that begins with "."'],
    ['/a', 'must be names with one "/" between them'],
    ['a/', 'must be names with one "/" between them'],
    ['a//b', 'must be names with one "/" between them'],
    ['a\\b', 'must not contain control characters or "\\"'],
    ['a\nb', 'must not contain control characters or "\\"'],
    ['a\ud800', 'must not contain control characters or "\\"'],
  ] as const)
    assert.equal(PageName.safeParse(name).error?.issues[0]?.message, fault, name)
})

test('a file of any accepted name is listed under the URL of its name', async (t) => {
  const name = fc
    .string({ unit: 'binary', maxLength: 60 })
    .filter((text) => PageName.safeParse(text).success && !text.startsWith('sub'))
  await fc.assert(
    fc.asyncProperty(name, async (text) => {
      const { list, publish, unpublish } = openPages(t)
      await publish(text)
      const [path = ''] = await list()
      assert.equal(path, pagePath('team', 'pub', text))
      assert.equal(new URL(path, 'http://localhost').pathname, path)
      assert.equal(path.split('/').slice(3).map(decodeURIComponent).join('/'), text)
      await unpublish(text)
      assert.deepEqual(await list(), [])
    }),
    { numRuns: runs(50, 500) },
  )
})

test('takes at most 8 MiB in base64', () => {
  const most = Buffer.alloc(PAGE_FILE_MAX_BYTES)
  for (const text of ['', 'AA==', 'AAA=', most.toString('base64')]) assert.ok(PageBytes.safeParse(text).success)
  for (const text of [
    'A',
    'AA',
    'AA=A',
    'AA==AA==',
    '====',
    'A===',
    '!!!!',
    Buffer.concat([most, Buffer.of(1)]).toString('base64'),
  ])
    assert.ok(!PageBytes.safeParse(text).success, text.slice(0, 20))
})
