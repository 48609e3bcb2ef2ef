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
import { FullTextIndex, type FullTextQuery, type IndexedDocument } from './full-text.ts'
import { FullTextFile, INDEXED_BYTES } from './full-text-file.ts'
import { FullTextReader } from './full-text-reader.ts'

const DEADLINE_MS = 60_000
const LINUX = process.platform === 'linux'

const documentOf = (content: string | Uint8Array, key: number): IndexedDocument => ({
  key,
  content: typeof content === 'string' ? Buffer.from(content) : content,
  name: `m${key}`,
  place: 'room',
  path: 'team',
  author: 'somebody',
  at: '2026-01-01T00:00:00.000Z',
})

const filling = (contents: readonly (string | Uint8Array)[]) => ({
  from: '',
  to: 'filled',
  fresh: contents.map((content, index) => documentOf(content, index + 1)),
  changed: [],
  moved: [],
  removed: [],
})

const question = (query: string): FullTextQuery => ({ mark: 'filled', query, limit: 20, within: [], except: [] })

async function filled(t: TestContext, contents: readonly (string | Uint8Array)[]) {
  const path = join(tempDir(t), 'search.db')
  const text = new FullTextIndex(path)
  t.after(() => text.close())
  await text.fill(filling(contents))
  const find = async (query: string, deadlineMs = DEADLINE_MS) =>
    ((await text.find(question(query), deadlineMs)) ?? assert.fail('it stands elsewhere')).map(({ name }) => name)
  return { path, text, find }
}

/** Ranking a text takes about a tenth of a second for this query, and there are many such texts. */
const SLOW_TEXTS = Array.from({ length: 60 }, () => 'a/'.repeat(INDEXED_BYTES / 2))
const SLOW_QUERY = `NEAR(${Array.from({ length: 31 }, () => 'a').join(' ')}, 900)`

test('the thread that fills it ends when there is nothing to do, and another begins with the next text', async (t) => {
  const workers: Worker[] = []
  const onWorker = (worker: Worker): void => void workers.push(worker)
  process.on('worker', onWorker)
  t.after(() => process.off('worker', onWorker))
  const text = new FullTextIndex(join(tempDir(t), 'search.db'), undefined, 1)
  t.after(() => text.close())
  await text.fill(filling(['one']))
  await until(() => workers[0]?.threadId === -1)
  assert.equal(await text.mark(), 'filled')
  assert.equal(workers.length, 2)
})

test('the first 65,536 bytes of a text are found, and no character is cut in two', async (t) => {
  const filler = ' '.repeat(INDEXED_BYTES - 4)
  const { find, path } = await filled(t, [
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

test('a text of one word over and over is found among others, with a snippet', async (t) => {
  const { text } = await filled(t, ['a plan', 'a/'.repeat(300_000), 'another'])
  const found = await text.find(question('a'), DEADLINE_MS)
  assert.deepEqual(found?.map(({ name }) => name).sort(), ['m1', 'm2'])
  assert.deepEqual(found?.map(({ snippet }) => snippet).sort(), [`${'«a»/'.repeat(31)}«a»…`, '«a» plan'].sort())
})

test('a query has at most 32 words', async (t) => {
  const { find } = await filled(t, ['a '.repeat(40)])
  const words = (count: number) => Array.from({ length: count }, () => 'a').join(' ')
  for (const query of [words(32), `"${words(32)}"`, `NEAR(${words(32)}, 9)`, `${words(16)} OR ${words(16)}`])
    assert.deepEqual(await find(query), ['m1'], query)
  for (const query of [words(33), `"${words(33)}"`, `NEAR(${words(33)}, 9)`, `${words(16)} OR "${words(17)}"`])
    await assert.rejects(find(query), isRefusal('invalid', 'query has more than 32 words'), query)
})

test('a search that passes its deadline is ended, and the next one is served', async (t) => {
  const { find } = await filled(t, ['needle', ...SLOW_TEXTS])
  await find('needle')
  const late = find(SLOW_QUERY, 200)
  await assert.rejects(late, isRefusal('unavailable', 'the search took too long'))
  await assert.rejects(late, ({ hint }) => hint === 'ask for fewer or rarer words')
  assert.deepEqual(await find('needle'), ['m1'])
})

test('other searches are served while one is slow, and wait no longer than their own deadline', async (t) => {
  const { find, text } = await filled(t, ['needle', ...SLOW_TEXTS])
  const slow = find(SLOW_QUERY)
  slow.catch(() => {})
  const first = await Promise.race([slow, find('needle')])
  assert.deepEqual(first, ['m1'])
  const another = find(SLOW_QUERY)
  await assert.rejects(find('needle', 50), isRefusal('unavailable', 'the search is busy with slow queries of others'))
  const ended = Promise.allSettled([slow, another, find('needle')])
  await text.close()
  for (const end of await ended)
    assert.ok(end.status === 'rejected' && end.reason.message === 'the search is closing', JSON.stringify(end))
  await assert.rejects(find('needle'), isRefusal('unavailable', 'the search is closing'))
})

/** The processes that search this file. */
function processesOf(path: string): number[] {
  const isOne = (pid: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`\u0000${path}\u0000`)
    } catch {
      return false
    }
  }
  return globSync('[0-9]*', { cwd: '/proc' }).filter(isOne).map(Number)
}

test('a search process without work that dies is replaced, and close leaves none', { skip: !LINUX }, async (t) => {
  const { find, path, text } = await filled(t, ['needle', ...SLOW_TEXTS])
  await find('needle')
  const [pid] = processesOf(path)
  process.kill(pid ?? assert.fail('there is none'), 'SIGKILL')
  await until(() => !existsSync(`/proc/${pid}`))
  assert.deepEqual(await find('needle'), ['m1'])
  find(SLOW_QUERY).catch(() => {})
  await until(() => processesOf(path).length === 1)
  await text.close()
  assert.deepEqual(processesOf(path), [])
})

test('an index of an earlier form is made anew', async (t) => {
  const path = join(tempDir(t), 'search.db')
  const before = new FullTextFile(path)
  before.fill(filling(['needle']))
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

/** A text of this piece over and over, and a query that hits it everywhere. */
const HEAVY: Record<string, readonly [piece: string, query: string]> = {
  'one word': ['a/', 'a'],
  'one word 32 times': ['a/', repeated('a', ' ', 32)],
  alternatives: ['a/', repeated('a', ' OR ', 32)],
  'a phrase': ['a/', `"${repeated('a', ' ', 32)}"`],
  'a phrase that almost fits': ['a/', `"${repeated('a', ' ', 30)} b" OR a`],
  'overlapping phrases': [
    'a/',
    Array.from({ length: 7 }, (_, count) => `"${repeated('a', ' ', count + 1)}"`).join(' OR '),
  ],
  'words near each other': ['a/', `NEAR(${repeated('a', ' ', 31)}, 900)`],
  'two words near each other': ['a b ', repeated('NEAR(a b, 900)', ' OR ', 16)],
  'two words far from each other': [`a ${'c '.repeat(40)}b `, 'NEAR(a b, 2) OR c'],
  'beginnings of words': ['ab ac ad ', repeated('a*', ' OR ', 32)],
  'nested alternatives': ['a b ', `${'(a OR '.repeat(15)}b${')'.repeat(15)}`],
}

for (const [name, [piece, query]] of Object.entries(HEAVY)) {
  test(`the time of a search grows with the length of a text at most: ${name}`, (t) => {
    const times = growth(
      INDEXED_BYTES / 32,
      (size) => {
        const path = join(tempDir(t), 'search.db')
        const file = new FullTextFile(path)
        file.fill(filling([piece.repeat(size / piece.length)]))
        file.close()
        const reader = new FullTextReader(path)
        t.after(() => reader.close())
        return reader
      },
      (reader) => {
        const finding = reader.find(question(query))
        assert.ok('found' in finding && finding.found.length === 1, JSON.stringify(finding).slice(0, 200))
      },
    )
    assert.ok(times < LINEAR, String(times))
  })
}
