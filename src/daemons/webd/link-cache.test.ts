import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type TestHost, testHost } from '../../../test/support/host.ts'
import { addLink } from '../../../test/support/rows.ts'
import { linkStats } from '../../core/links/link-stats.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { refuse } from '../../lib/refusal.ts'
import { type CachedLink, LinkCache } from './link-cache.ts'

async function open(
  t: TestContext,
): Promise<TestHost & { book: LinkCache; find(key: string): Promise<CachedLink | undefined> }> {
  const on = await testHost(t)
  await on.groups('main')
  const book = new LinkCache(on.host, {
    rates: { web: { count: 60, windowMs: 60_000 }, hook: { count: 600, windowMs: 60_000 } },
    quotas: { chat: 0, folder: 0 },
  })
  t.after(() => book.close())
  return { ...on, book, find: (key) => book.find(key) }
}

async function statsOf({ host }: TestHost, key: string) {
  return host.engine.read((tx) => linkStats.find(tx, { token_hash: Buffer.from(key, 'latin1') }))
}

test('finds existing links, many in one read', async (t) => {
  const { find, book, ...on } = await open(t)
  const keys = await Promise.all([1, 2, 3].map((at) => addLink(on, `web:main/${at}`)))
  const { read } = on.host.engine
  let reads = 0
  const counted: typeof read = (work) => {
    reads++
    return read.call(on.host.engine, work) as ReturnType<typeof work>
  }
  Object.assign(on.host.engine, { read: counted })
  const found = await Promise.all([...keys, 'x'.repeat(32)].map(find))
  assert.equal(reads, 1)
  assert.deepEqual(
    found.map((link) => link?.jid),
    ['web:main/1', 'web:main/2', 'web:main/3', undefined],
  )
  assert.equal(book.cached(keys[0] ?? ''), found[0])
  await on.host.engine.transaction((tx) => routeTokens.remove(tx, { jid: 'web:main/1' }))
  assert.equal(await find(keys[0] ?? ''), undefined)
  assert.equal(book.cached(keys[0] ?? ''), undefined)
})

test('does not cache unknown tokens', async (t) => {
  const { find, book } = await open(t)
  for (let time = 0; time < 50; time++) {
    const key = String(time).padEnd(32, 'x')
    assert.equal(await find(key), undefined)
    assert.equal(book.cached(key), undefined)
  }
})

test('writes counts periodically and once; a failed flush loses none', async (t) => {
  const { find, book, ...on } = await open(t)
  const key = await addLink(on, 'web:main')
  const link = (await find(key)) ?? assert.fail()
  book.countAccepted(link)
  book.countRefused(link, 'rate_limited')
  book.countRefused(link, 'rate_limited')
  assert.equal(await statsOf(on, key), undefined)
  const { transaction } = on.host.engine
  Object.assign(on.host.engine, { transaction: async () => refuse('unavailable', 'busy') })
  await assert.rejects(book.flush())
  Object.assign(on.host.engine, { transaction })
  book.countAccepted(link)
  await book.flush()
  await book.flush()
  const stats = await statsOf(on, key)
  assert.deepEqual([stats?.accepted, stats?.refused], [2, { rate_limited: 2 }])
})

test('evicts idle links when their bucket is full, and not before', async (t) => {
  const { find, book, clock, ...on } = await open(t)
  const key = await addLink({ ...on, clock }, 'web:main')
  const link = (await find(key)) ?? assert.fail()
  for (let time = 0; time < 60; time++) link.bucket.take(clock.now())
  book.countAccepted(link)
  await book.flush()
  assert.equal(book.cached(key), link)
  clock.advance(119_000)
  await book.flush()
  assert.equal(book.cached(key), link)
  clock.advance(2000)
  await book.flush()
  assert.equal(book.cached(key), undefined)
})

test('the sender of a hook is its source, or the last segment of the JID for legacy rows', async (t) => {
  const { find, ...on } = await open(t)
  const cases = [
    ['hook:main/ci/night', { target_folder: 'main', source_label: 'ci' }, 'ci'],
    ['hook:main/git', {}, 'git'],
    ['web:main', {}, undefined],
  ] as const
  for (const [jid, row, source] of cases) assert.equal((await find(await addLink(on, jid, row)))?.source, source, jid)
})
