import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import fc from 'fast-check'
import { agent, onEveryEngine, person } from '../../test/support/host.ts'
import { OTHER_ROOM, openSearchHost, ROOM, type SearchHost } from '../../test/support/search-host.ts'
import { tempDir } from '../../test/support/temp.ts'
import { until } from '../../test/support/until.ts'
import { deleteMessage, editMessage } from '../core/messages/message-changes.ts'
import { lockMessageOrder } from '../core/messages/messages.ts'
import { timestamp } from '../lib/clock.ts'

interface SearchReply {
  messages: { id: string; chat_jid: string; sender: string; timestamp: string; content: string; rank: number }[]
  count: number
  source: string
}

const CORPUS = [
  'the deployment of the server failed tonight',
  'deploy the new server before noon',
  'lunch at noon with the team',
  'the deployer is on holiday, café closed',
]

async function addCorpus(here: SearchHost): Promise<void> {
  for (const content of CORPUS) await here.receive(content)
}

/** The hits of a query, as indexes of the corpus. */
async function hits(here: SearchHost, query: string, more: object = {}, folder = 'team'): Promise<number[]> {
  const { messages } = (await (await here.open(folder)).call('find_messages', { query, ...more })) as SearchReply
  return messages.map(({ content }) => CORPUS.indexOf(content.replace(/[«»]/g, '')))
}

const sorted = (numbers: readonly number[]): number[] => [...numbers].sort((a, b) => a - b)

onEveryEngine('find_messages', (engine) => {
  test('supports the FTS5 query syntax', async (t) => {
    const here = await openSearchHost(t, engine)
    await addCorpus(here)
    for (const [query, found] of [
      ['server', [0, 1]],
      ['SERVER', [0, 1]],
      ['"new server"', [1]],
      ['tonight OR lunch OR holiday', [0, 2, 3]],
      ['noon NOT lunch', [1]],
      ['deploy*', [0, 1, 3]],
      ['NEAR(deploy noon, 5)', [1]],
      ['NEAR(deploy noon, 2)', []],
      ['cafe', [3]],
      ['the AND noon', [1, 2]],
      ['nowhere', []],
    ] as const)
      assert.deepEqual(sorted(await hits(here, query)), found, query)
  })

  test('returns chat, sender, time, marked snippet and rank, best first and then newest', async (t) => {
    const here = await openSearchHost(t, engine)
    const long = `${'word '.repeat(60)}needle${' more'.repeat(60)}`
    await here.receive(long)
    const older = await here.receive('needle one', { sender: 'fake:user/2' })
    const newer = await here.receive('needle two')
    const found = (await (await here.open()).call('find_messages', { query: 'needle' })) as SearchReply
    assert.deepEqual([found.count, found.source], [3, 'local-db'])
    assert.deepEqual(
      found.messages.slice(0, 2).map(({ id }) => id),
      [newer.id, older.id],
    )
    const [, second, last] = found.messages
    assert.deepEqual(Object.keys(second ?? {}).sort(), ['chat_jid', 'content', 'id', 'rank', 'sender', 'timestamp'])
    assert.deepEqual(
      [second?.chat_jid, second?.sender, second?.timestamp, second?.content],
      [ROOM, 'fake:user/2', '2026-01-01T00:00:00.002Z', '«needle» one'],
    )
    assert.match(last?.content ?? '', /^….*«needle».*…$/)
    assert.ok((last?.content ?? '').split(' ').length <= 33)
    assert.ok((found.messages[0]?.rank ?? 0) <= (last?.rank ?? 0))
  })

  test('filters by scope, sender and since before it applies the limit', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('apple a')
    await here.receive('apple b', { jid: 'web:team/sub', folder: 'team/sub', sender: 'bob' })
    await here.receive('apple c', { sender: 'bobby' })
    await here.receive('apple d', { jid: OTHER_ROOM, folder: 'other' })
    await here.receive('apple e', { jid: 'web:teams', folder: 'teams' })
    const find = async (more: object, folder = 'main') => {
      const tools = await here.open(folder)
      const { messages } = (await tools.call('find_messages', { query: 'apple', ...more })) as SearchReply
      return messages.map(({ content }) => content.at(-1)).join('')
    }
    assert.equal(await find({}), 'edcba')
    assert.equal(await find({ limit: 2 }), 'ed')
    assert.equal(await find({ scope: 'team' }), 'cba')
    assert.equal(await find({ scope: 'team/sub' }), 'b')
    assert.equal(await find({ scope: ROOM }), 'ca')
    assert.equal(await find({ sender: 'bob' }), 'b')
    assert.equal(await find({ since: '2026-01-01T00:00:00.004Z' }), 'ed')
    assert.equal(await find({ since: '2026-01-01T01:00:00.004+01:00' }), 'ed')
    assert.equal(await find({ since: '2026-01-01T00:00:00.0041Z' }), 'e')
    assert.equal(await find({}, 'team'), 'cba')
    // Rows of other folders do not count against the limit.
    assert.equal(await find({ limit: 1 }, 'team'), 'c')
    assert.equal(await find({ limit: 0 }, 'team'), 'c')
    assert.equal(await find({ limit: -1 }, 'team'), 'c')
    assert.equal(await find({ limit: 1e9 }, 'team'), 'cba')
    assert.equal(await find({}, 'other'), 'd')
  })

  test('returns at most 200 messages, 20 by default', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receiveAll(Array.from({ length: 205 }, (_, count) => `pear ${count}`))
    const tools = await here.open('main')
    const count = async (more: object) =>
      ((await tools.call('find_messages', { query: 'pear', ...more })) as SearchReply).count
    assert.deepEqual([await count({}), await count({ limit: 201 }), await count({ limit: 200 })], [20, 200, 200])
  })

  test('refuses scopes out of reach and leaves out denied folders', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('secret plan', { jid: OTHER_ROOM, folder: 'other' })
    await here.receive('secret child', { jid: 'web:team/sub', folder: 'team/sub' })
    const team = await here.open('team')
    assert.match(await team.refusal('find_messages', { query: 'secret', scope: 'other' }), /is outside team/)
    assert.match(
      await team.refusal('find_messages', { query: 'secret', scope: OTHER_ROOM }),
      /belongs to a folder outside/,
    )
    assert.equal(((await team.call('find_messages', { query: 'secret' })) as SearchReply).count, 1)
    await here.grant('folder:team', 'mcp:find_messages', 'team/sub', 'deny')
    assert.equal(((await team.call('find_messages', { query: 'secret' })) as SearchReply).count, 0)
    assert.match(
      await team.refusal('find_messages', { query: 'secret', scope: 'team/sub' }),
      /not permitted on team\/sub/,
    )
    await here.grant('folder:team', 'mcp:find_messages', 'team', 'deny')
    assert.match(await team.refusal('find_messages', { query: 'secret' }), /find_messages: not permitted/)
    // A folder of tier 3 has no such tool.
    await here.groups('team/sub/x', 'team/sub/x/y')
    assert.ok(!(await (await here.open('team/sub/x/y')).names()).includes('find_messages'))
  })

  test('returns to a person the messages of folders they administer', async (t) => {
    const here = await openSearchHost(t, engine)
    await here.receive('plum one')
    await here.receive('plum two', { jid: OTHER_ROOM, folder: 'other' })
    await here.receive('plum three', { folder: undefined })
    await here.grant('github:1', 'admin', 'other/**')
    await here.operator('github:2')
    const count = async (sub: string) => {
      const tools = await here.openAs(person(sub))
      return ((await tools.call('find_messages', { query: 'plum' })) as SearchReply).count
    }
    assert.deepEqual([await count('github:1'), await count('github:2')], [1, 3])
  })

  test('follows routing, edits and deletions', async (t) => {
    const here = await openSearchHost(t, engine)
    const { seq } = await here.receive('quince', { folder: undefined })
    assert.deepEqual([await countOf(here, 'quince'), await countOf(here, 'quince', 'main')], [0, 1])
    await here.route(seq, 'team')
    assert.equal(await countOf(here, 'quince'), 1)
    const { dialect } = here.host.engine
    const now = timestamp(here.clock.now())
    await here.host.engine.transaction(async (tx) => {
      await lockMessageOrder(tx, dialect)
      await editMessage(tx, seq, 'medlar', now)
    })
    assert.deepEqual([await countOf(here, 'quince'), await countOf(here, 'medlar')], [0, 1])
    await here.host.engine.transaction(async (tx) => {
      await lockMessageOrder(tx, dialect)
      await deleteMessage(tx, seq, now)
    })
    assert.equal(await countOf(here, 'medlar'), 0)
    // An edit before the message is indexed.
    const { seq: later } = await here.receive('sloe')
    await here.host.engine.transaction(async (tx) => {
      await lockMessageOrder(tx, dialect)
      await editMessage(tx, later, 'damson', now)
    })
    await here.say('damson too')
    await here.say('damson, almost done', { kind: 'status' })
    assert.deepEqual([await countOf(here, 'sloe'), await countOf(here, 'damson')], [0, 2])
  })

  test('rebuilds a lost, damaged or foreign index, readable only by its owner', async (t) => {
    const one = await openSearchHost(t, engine)
    await addCorpus(one)
    assert.equal(await countOf(one, 'server'), 2)
    assert.equal(statSync(one.searchPath).mode & 0o777, 0o600)
    await one.search.close()
    const reopen = () =>
      openSearchHost(t, engine, { on: { ...one, host: one.host as never }, searchPath: one.searchPath })

    const lost = await reopen()
    for (const end of ['', '-wal', '-shm']) rmSync(one.searchPath + end, { force: true })
    assert.equal(await countOf(lost, 'server'), 2)
    await lost.search.close()

    writeFileSync(one.searchPath, 'this is not a database, but it is as long as one'.repeat(100))
    const damaged = await reopen()
    assert.equal(await countOf(damaged, 'server'), 2)
    await damaged.search.close()

    const db = new DatabaseSync(one.searchPath)
    db.exec(`update progress set mark = json_set(mark, '$.id', 'of another store')`)
    db.close()
    const foreign = await reopen()
    assert.equal(await countOf(foreign, 'server'), 2)
    await foreign.search.close()

    rmSync(one.searchPath)
    const otherProgram = new DatabaseSync(one.searchPath)
    otherProgram.exec('create table other (x)')
    otherProgram.close()
    chmodSync(one.searchPath, 0o600)
    assert.equal(await countOf(await reopen(), 'server'), 2)
  })

  test('rebuilds an index that is damaged while in use', async (t) => {
    const here = await openSearchHost(t, engine)
    await addCorpus(here)
    assert.equal(await countOf(here, 'server'), 2)
    const db = new DatabaseSync(here.searchPath)
    db.enableDefensive(false)
    db.exec(`update words_data set block = x'ffffffffffff' where id > 1`)
    db.close()
    assert.equal(await countOf(here, 'server'), 2)
    await here.receive('another server')
    assert.equal(await countOf(here, 'server'), 3)
  })

  test('lets two processes fill one index', async (t) => {
    const one = await openSearchHost(t, engine)
    const two = await openSearchHost(t, engine, { on: { ...one, host: one.host as never }, searchPath: one.searchPath })
    for (let count = 0; count < 30; count++) await one.receive(`fig ${count}`)
    const counts = await Promise.all([one, two, one, two].map((here) => countOf(here, 'fig', 'team', 200)))
    assert.deepEqual(counts, [30, 30, 30, 30])
    await one.receive('fig again')
    assert.equal(await countOf(two, 'fig', 'team', 200), 31)
    assert.equal(await countOf(one, 'fig', 'team', 200), 31)
  })

  test('updates the index in the background', async (t) => {
    const here = await openSearchHost(t, engine)
    await addCorpus(here)
    here.search.follow(here.host.signals)
    const indexed = (): number => {
      try {
        const db = new DatabaseSync(here.searchPath, { readOnly: true })
        const count = db.prepare('select count(*) as n from documents').get()?.n
        db.close()
        return Number(count)
      } catch {
        return 0
      }
    }
    await until(() => indexed() === 4)
    await here.receive('one more')
    here.host.signals.emit([])
    await until(() => indexed() === 5)
  })
})

async function countOf(here: SearchHost, query: string, folder = 'team', limit = 20): Promise<number> {
  return ((await (await here.open(folder)).call('find_messages', { query, limit })) as SearchReply).count
}

test('refuses an invalid query with the error of the engine', async (t) => {
  const here = await openSearchHost(t, 'sqlite')
  await addCorpus(here)
  const tools = await here.open()
  for (const [query, expected] of [
    ['"', 'find_messages: unterminated string'],
    ['NEAR(', 'find_messages: fts5: syntax error near ""'],
    ['a NOT', 'find_messages: fts5: syntax error near ""'],
    ['*', 'find_messages: fts5: syntax error near "*"'],
    [' *reads', 'find_messages: fts5: syntax error near "*"'],
    ['col:x', 'find_messages: no such column: col\nhint: put words with punctuation in quotes: "col:x"'],
    ['author:x', 'find_messages: no such column: author\nhint: put words with punctuation in quotes: "author:x"'],
    ['rank:x', 'find_messages: no such column: rank\nhint: put words with punctuation in quotes: "rank:x"'],
    ['see foo-bar now', 'find_messages: no such column: bar\nhint: put words with punctuation in quotes: "foo-bar"'],
    [`'; drop table documents`, `find_messages: fts5: syntax error near "'"`],
    ['', 'query must not be empty'],
    ['  ', 'query must not be empty'],
    ['x'.repeat(65_536), 'query is longer than 2000 characters'],
    ['a\u0000b', 'query must not contain a NUL character'],
    ['a '.repeat(33), 'find_messages: query has more than 32 words'],
  ] as const)
    assert.equal(await tools.refusal('find_messages', { query }), expected)
  for (const [args, expected] of [
    [{}, 'query is required'],
    [{ query: 7 }, 'query must be text'],
    [{ query: 'a', limit: '10' }, 'limit must be a number'],
    [{ query: 'a', scope: '../x' }, /^scope must be names/],
    [{ query: 'a', scope: ':x' }, 'scope must look like platform:room'],
    [{ query: 'a', sender: '' }, 'sender must not be empty'],
    [{ query: 'a', since: 'yesterday' }, /^since must be an RFC 3339 time/],
    [{ query: 'a', since: '2026-01-01T00:00:00' }, /^since must be an RFC 3339 time/],
    [{ query: 'a', more: 1 }, 'unknown field "more"'],
  ] as const) {
    const text = await tools.refusal('find_messages', args)
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  assert.deepEqual(sorted(await hits(here, 'server')), [0, 1])
})

test('answers any text with hits or a refusal', async (t) => {
  const here = await openSearchHost(t, 'sqlite')
  await addCorpus(here)
  const part = fc.constantFrom(
    'server',
    'noon',
    '"',
    '(',
    ')',
    'NEAR',
    'OR',
    'NOT',
    'AND',
    '*',
    '^',
    ':',
    '-',
    '+',
    '{',
    ',',
    '9',
  )
  const query = fc.oneof(
    fc.array(part).map((parts) => parts.join(' ')),
    fc.string({ unit: 'binary' }),
  )
  const { client } = await here.open()
  await fc.assert(
    fc.asyncProperty(query, async (text) => {
      const { content } = await client.callTool({ name: 'find_messages', arguments: { query: text } })
      assert.equal(content.length, 1)
      const [part] = content
      assert.ok(part?.type === 'text' && part.text !== 'internal error', text)
    }),
    { numRuns: 300 },
  )
})

test('stops a slow search and serves the next one', async (t) => {
  const here = await openSearchHost(t, 'sqlite', { deadlineMs: 1000 })
  for (let count = 0; count < 60; count++) await here.receive('a/'.repeat(32_768))
  const tools = await here.open()
  await until(
    async () => (await tools.call('find_messages', { query: 'nothing' }).catch(() => undefined)) !== undefined,
  )
  assert.equal(
    await tools.refusal('find_messages', { query: `NEAR(${'a '.repeat(31)}, 900)` }),
    'find_messages: the search took too long\nhint: search for fewer or rarer words',
  )
  await until(async () => (await tools.call('find_messages', { query: 'b' }).catch(() => undefined)) !== undefined)
})

test('reports an unusable index without its path, and recovers', async (t) => {
  const errors: unknown[] = []
  const searchPath = join(tempDir(t), 'search.db')
  mkdirSync(searchPath)
  const here = await openSearchHost(t, 'sqlite', { searchPath, onBackgroundError: (error) => errors.push(error) })
  await addCorpus(here)
  const tools = await here.open()
  assert.equal(
    await tools.refusal('find_messages', { query: 'server' }),
    'find_messages: the search index cannot be used',
  )
  assert.match(String(errors[0]), /search\.db/)
  rmdirSync(searchPath)
  assert.equal(await countOf(here, 'server'), 2)
})

test('is not a tool without an index', async (t) => {
  const here = await openSearchHost(t, 'sqlite')
  const { search: _, ...host } = here.host
  const tools = await here.openAs(agent('team'), host)
  assert.ok(!(await tools.names()).includes('find_messages'))
  await assert.rejects(tools.call('find_messages', { query: 'a' }), /unknown tool: find_messages/)
})
