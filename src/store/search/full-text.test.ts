import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import type { Worker } from 'node:worker_threads'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { FullTextIndex } from './full-text.ts'
import { FullTextFile, INDEXED_BYTES } from './full-text-file.ts'
import type { FullTextQuery, IndexedDocument } from './full-text-protocol.ts'
import { FullTextReader } from './full-text-reader.ts'

const DEADLINE_MS = 60_000
const LINUX = process.platform === 'linux'

const createDocument = (content: string | Uint8Array, key: number): IndexedDocument => ({
  key,
  content: typeof content === 'string' ? Buffer.from(content) : content,
  name: `m${key}`,
  place: 'room',
  path: 'team',
  author: 'alice',
  at: '2026-01-01T00:00:00.000Z',
})

const createUpdate = (contents: readonly (string | Uint8Array)[]) => ({
  from: '',
  to: 'filled',
  added: contents.map((content, index) => createDocument(content, index + 1)),
  changed: [],
  moved: [],
  removed: [],
})

const createQuery = (query: string): FullTextQuery => ({ mark: 'filled', query, limit: 20, within: [], except: [] })

async function openFilled(t: TestContext, contents: readonly (string | Uint8Array)[]) {
  const path = join(tempDir(t), 'search.db')
  const index = new FullTextIndex(path)
  t.after(() => index.close())
  await index.update(createUpdate(contents))
  const find = async (query: string, deadlineMs = DEADLINE_MS, requester?: string) =>
    ((await index.find(createQuery(query), deadlineMs, requester)) ?? assert.fail('the index is at another mark')).map(
      ({ name }) => name,
    )
  return { path, index, find }
}

/** The query takes about a tenth of a second for each of these documents. */
const SLOW_DOCUMENTS = Array.from({ length: 60 }, () => 'a/'.repeat(INDEXED_BYTES / 2))
const SLOW_QUERY = `NEAR(${Array.from({ length: 31 }, () => 'a').join(' ')}, 900)`

test('ends an idle writer thread and starts another for the next command', async (t) => {
  const workers: Worker[] = []
  const onWorker = (worker: Worker): void => void workers.push(worker)
  process.on('worker', onWorker)
  t.after(() => process.off('worker', onWorker))
  const index = new FullTextIndex(join(tempDir(t), 'search.db'), undefined, 1)
  t.after(() => index.close())
  await index.update(createUpdate(['one']))
  await until(() => workers[0]?.threadId === -1)
  assert.equal(await index.mark(), 'filled')
  assert.equal(workers.length, 2)
})

test('indexes the first 65,536 bytes of a document and cuts between characters', async (t) => {
  const filler = ' '.repeat(INDEXED_BYTES - 4)
  const { find, path } = await openFilled(t, [
    `${filler}last`,
    ` ${filler}last`,
    `${filler}ab😀`,
    Buffer.concat([Buffer.alloc(INDEXED_BYTES, 0x80), Buffer.from('last')]),
  ])
  assert.deepEqual(await find('last'), ['m1'])
  assert.deepEqual(await find('las'), ['m2'])
  assert.deepEqual(await find('ab'), ['m3'])
  const db = new DatabaseSync(path, { readOnly: true })
  const stored = db.prepare('select content from words where rowid = -3').get()
  db.close()
  assert.equal(stored?.content, `${filler}ab`)
})

test('finds a document that repeats one word, with a snippet', async (t) => {
  const { index } = await openFilled(t, ['a plan', 'a/'.repeat(300_000), 'another'])
  const found = await index.find(createQuery('a'), DEADLINE_MS)
  assert.deepEqual(found?.map(({ name }) => name).sort(), ['m1', 'm2'])
  assert.deepEqual(found?.map(({ snippet }) => snippet).sort(), [`${'«a»/'.repeat(31)}«a»…`, '«a» plan'].sort())
})

test('refuses queries of more than 32 words', async (t) => {
  const { find } = await openFilled(t, ['a '.repeat(40)])
  const words = (count: number) => Array.from({ length: count }, () => 'a').join(' ')
  for (const query of [words(32), `"${words(32)}"`, `NEAR(${words(32)}, 9)`, `${words(16)} OR ${words(16)}`])
    assert.deepEqual(await find(query), ['m1'], query)
  for (const query of [words(33), `"${words(33)}"`, `NEAR(${words(33)}, 9)`, `${words(16)} OR "${words(17)}"`])
    await assert.rejects(find(query), isRefusal('invalid', 'query has more than 32 words'), query)
})

test('ends a search at its deadline and serves the next one', async (t) => {
  const { find } = await openFilled(t, ['needle', ...SLOW_DOCUMENTS])
  await find('needle')
  const late = find(SLOW_QUERY, 200)
  await assert.rejects(late, isRefusal('unavailable', 'the search took too long'))
  await assert.rejects(late, ({ hint }) => hint === 'search for fewer or rarer words')
  assert.deepEqual(await find('needle'), ['m1'])
})

test('serves other searches during a slow one, each until its own deadline', async (t) => {
  const { find, index } = await openFilled(t, ['needle', ...SLOW_DOCUMENTS])
  const slow = find(SLOW_QUERY)
  slow.catch(() => {})
  const first = await Promise.race([slow, find('needle')])
  assert.deepEqual(first, ['m1'])
  const another = find(SLOW_QUERY)
  await assert.rejects(find('needle', 50), isRefusal('unavailable', 'the search is busy with slow queries'))
  const ended = Promise.allSettled([slow, another, find('needle')])
  await index.close()
  for (const end of await ended)
    assert.ok(end.status === 'rejected' && end.reason.message === 'the search is closing', JSON.stringify(end))
  await assert.rejects(find('needle'), isRefusal('unavailable', 'the search is closing'))
})

test('slow searches of one requester neither fail nor delay those of others', async (t) => {
  const { find, index } = await openFilled(t, ['needle', ...SLOW_DOCUMENTS])
  await find('needle')
  const slow = Array.from({ length: 10 }, () => find(SLOW_QUERY, DEADLINE_MS, 'github:1'))
  const ended = Promise.allSettled(slow)
  for (let count = 0; count < 3; count++)
    for (const requester of ['github:2', 'github:3', 'github:2'])
      assert.deepEqual(await Promise.race([...slow, find('needle', DEADLINE_MS, requester)]), ['m1'])
  // Both processes are busy: the next free one is for the requester who has waited without being served.
  const other = find(SLOW_QUERY, 300, 'github:4')
  const waiting = [find('needle', DEADLINE_MS, 'github:1'), find('needle', DEADLINE_MS, 'github:2')]
  for (const each of waiting) each.catch(() => {})
  await assert.rejects(other, isRefusal('unavailable', 'the search took too long'))
  assert.deepEqual(await Promise.race([...slow, waiting[1]]), ['m1'])
  await index.close()
  for (const end of await ended) assert.equal(end.status, 'rejected')
})

/** Finds the processes that search this file. */
function findProcesses(path: string): number[] {
  const isOne = (pid: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`\u0000${path}\u0000`)
    } catch {
      return false
    }
  }
  return globSync('[0-9]*', { cwd: '/proc' }).filter(isOne).map(Number)
}

test('replaces an idle search process that was killed, and ends all on close', { skip: !LINUX }, async (t) => {
  const { find, path, index } = await openFilled(t, ['needle', ...SLOW_DOCUMENTS])
  await find('needle')
  const [pid] = findProcesses(path)
  process.kill(pid ?? assert.fail('no search process'), 'SIGKILL')
  await until(() => !existsSync(`/proc/${pid}`))
  assert.deepEqual(await find('needle'), ['m1'])
  find(SLOW_QUERY).catch(() => {})
  await until(() => findProcesses(path).length === 1)
  await index.close()
  assert.deepEqual(findProcesses(path), [])
})

test('rebuilds an index of an earlier schema version', async (t) => {
  const path = join(tempDir(t), 'search.db')
  const before = new FullTextFile(path)
  before.update(createUpdate(['needle']))
  assert.equal(before.mark(), 'filled')
  before.close()
  const db = new DatabaseSync(path)
  db.exec('pragma user_version = 1')
  db.close()
  const after = new FullTextFile(path)
  t.after(() => after.close())
  assert.equal(after.mark(), '')
})

const repeated = (word: string, between: string, times: number): string =>
  Array.from({ length: times }, () => word).join(between)

/** A piece that a document repeats, and a query that matches everywhere in it. */
const HEAVY_QUERIES: Record<string, readonly [piece: string, query: string]> = {
  'one word': ['a/', 'a'],
  'one word 32 times': ['a/', repeated('a', ' ', 32)],
  alternatives: ['a/', repeated('a', ' OR ', 32)],
  'a phrase': ['a/', `"${repeated('a', ' ', 32)}"`],
  'a phrase that almost matches': ['a/', `"${repeated('a', ' ', 30)} b" OR a`],
  'overlapping phrases': [
    'a/',
    Array.from({ length: 7 }, (_, count) => `"${repeated('a', ' ', count + 1)}"`).join(' OR '),
  ],
  'NEAR with many words': ['a/', `NEAR(${repeated('a', ' ', 31)}, 900)`],
  'NEAR with two words': ['a b ', repeated('NEAR(a b, 900)', ' OR ', 16)],
  'NEAR with two distant words': [`a ${'c '.repeat(40)}b `, 'NEAR(a b, 2) OR c'],
  prefixes: ['ab ac ad ', repeated('a*', ' OR ', 32)],
  'nested alternatives': ['a b ', `${'(a OR '.repeat(15)}b${')'.repeat(15)}`],
}

for (const [name, [piece, query]] of Object.entries(HEAVY_QUERIES)) {
  test(`searches in time linear in the length of a document: ${name}`, (t) => {
    const times = growth(
      INDEXED_BYTES / 32,
      (size) => {
        const path = join(tempDir(t), 'search.db')
        const file = new FullTextFile(path)
        file.update(createUpdate([piece.repeat(size / piece.length)]))
        file.close()
        const reader = new FullTextReader(path)
        t.after(() => reader.close())
        return reader
      },
      (reader) => {
        const reply = reader.find(createQuery(query))
        assert.ok('hits' in reply && reply.hits.length === 1, JSON.stringify(reply).slice(0, 200))
      },
    )
    assert.ok(times < LINEAR, String(times))
  })
}
