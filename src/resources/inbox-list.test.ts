import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import { recordOutbound } from '../core/delivery/outbox.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { type InboxState, inbox } from '../core/messages/inbox.ts'
import { timestamp } from '../lib/clock.ts'
import { inboxResource } from './inbox.ts'

const { list } = inboxResource.verbs

interface ListHost extends TestHost {
  receive(
    content: string,
    row?: { state?: InboxState; folder?: string; jid?: string; sender?: string },
  ): Promise<string>
  send(content: string, out?: { folder?: string; jid?: string; state?: string }): Promise<string>
  /** Texts of one page. */
  texts(input?: object): Promise<string[]>
}

async function open(t: TestContext, engine: EngineName): Promise<ListHost> {
  const here = await testHost(t, engine)
  const { host, clock, cli } = here
  await here.groups('main', 'team', 'team/sub', 'other')
  const writeContext = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  return {
    ...here,
    receive: (content, { state = 'answered', folder = 'main', jid = 'telegram:1', sender = 'telegram:7' } = {}) => {
      clock.advance(1000)
      return host.engine.transaction(async (tx) => {
        const { id, seq } = await recordInbound(tx, writeContext, { jid, sender, content, reach: 'all' })
        const updated_at = timestamp(clock.now())
        const place = { jid, topic: '', chat_topic: '', sender, verb: 'message' }
        await inbox.insert(tx, { message_seq: seq, id, folder: folder || undefined, ...place, state, updated_at })
        await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
        return id
      })
    },
    send: (content, { folder = 'main', jid = 'telegram:1', state = 'sent' } = {}) => {
      clock.advance(1000)
      return host.engine.transaction(async (tx) => {
        const { id } = await recordOutbound(tx, writeContext, host.rules, { jid, topic: '', folder, content })
        await run(tx, 'update outbox set state = $2 where id = $1', [id, state])
        return id
      })
    },
    texts: async (input = {}) => (await cli.call(list, input)).messages.map(({ text }) => text),
  }
}

onEveryEngine('the list of messages', (engine) => {
  test('lists received and sent messages, newest first, by every filter', async (t) => {
    const on = await open(t, engine)
    await on.receive('a')
    await on.receive('b', { state: 'failed', folder: 'team' })
    await on.send('c')
    await on.receive('d', { jid: 'telegram:2', sender: 'telegram:8', folder: 'team' })
    await on.send('e', { folder: 'team', jid: 'telegram:2', state: 'failed' })
    await on.receive('f', { state: 'observed', folder: '' })
    assert.deepEqual(await on.texts(), ['f', 'd', 'b', 'a'])
    assert.deepEqual(await on.texts({ direction: 'all' }), ['f', 'e', 'd', 'c', 'b', 'a'])
    assert.deepEqual(await on.texts({ direction: 'out' }), ['e', 'c'])
    assert.deepEqual(await on.texts({ folder: 'team', direction: 'all' }), ['e', 'd', 'b'])
    assert.deepEqual(await on.texts({ state: 'failed', direction: 'all' }), ['e', 'b'])
    assert.deepEqual(await on.texts({ state: 'failed', folder: 'main' }), [])
    assert.deepEqual(await on.texts({ state: 'sent', direction: 'all' }), ['c'])
    assert.deepEqual(await on.texts({ state: 'sent' }), [])
    await on.receive('g', { state: 'waiting' })
    await on.receive('h', { state: 'waiting', folder: 'team', sender: 'telegram:8' })
    assert.deepEqual(await on.texts({ state: 'waiting' }), ['h', 'g'])
    assert.deepEqual(await on.texts({ state: 'waiting', limit: 1, folder: 'main' }), ['g'])
    assert.deepEqual(await on.texts({ state: 'running' }), [])
    assert.deepEqual(await on.texts({ state: 'delegated' }), [])
    await on.host.engine.transaction((tx) => run(tx, `update inbox set state = 'answered' where state = 'waiting'`))
    assert.deepEqual(await on.texts({ chat: 'telegram:2', direction: 'all' }), ['e', 'd'])
    assert.deepEqual(await on.texts({ chat: 'telegram:1', folder: 'main' }), ['g', 'a'])
    assert.deepEqual(await on.texts({ sender: 'telegram:8', direction: 'all' }), ['h', 'd'])
    assert.deepEqual(await on.texts({ sender: 'team', direction: 'all' }), ['e'])
  })

  test('pages back in time without a gap or a repeat, and refuses a cursor of another list', async (t) => {
    const on = await open(t, engine)
    for (const at of Array.from({ length: 5 }).keys()) {
      await on.receive(`in ${at}`, { folder: at % 2 ? 'team' : 'main' })
      await on.send(`out ${at}`)
    }
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await on.cli.call(list, { direction: 'all', limit: 3, ...(after ? { after } : {}) })
      found.push(...page.messages.map(({ text }) => text))
      after = page.next
    } while (after !== undefined)
    assert.deepEqual(
      found,
      [4, 3, 2, 1, 0].flatMap((at) => [`out ${at}`, `in ${at}`]),
    )
    for (const bad of ['x', 'WyJhIl0', 'WzAuNV0'])
      await assert.rejects(on.cli.call(list, { after: bad }), isRefusal('invalid', 'not a cursor of this list'))
  })

  test('limits the time of arrival, with the start inclusive and the end exclusive', async (t) => {
    const on = await open(t, engine)
    await on.receive('a')
    await on.receive('b')
    const since = timestamp(on.clock.now())
    await on.receive('c')
    await on.send('d')
    const until = timestamp(on.clock.now())
    assert.deepEqual(await on.texts({ since }), ['c', 'b'])
    assert.deepEqual(await on.texts({ since, until, direction: 'all' }), ['c', 'b'])
    assert.deepEqual(await on.texts({ until }), ['c', 'b', 'a'])
    assert.deepEqual(await on.texts({ since: '2099-01-01T00:00:00Z' }), [])
    assert.deepEqual(await on.texts({ until: '2001-01-01T00:00:00Z' }), [])
  })

  test('shows administrators their folders only, also of removed groups', async (t) => {
    const on = await open(t, engine)
    await on.grant('github:admin', 'admin', 'team/**')
    await on.operator('github:op')
    const at = (sub: string) => on.as({ kind: 'person', sub, session: 'a-session' }, 'dash')
    await on.receive('main')
    await on.receive('team', { folder: 'team' })
    await on.receive('below', { folder: 'team/sub' })
    await on.receive('gone', { folder: 'team/gone', state: 'failed' })
    await on.receive('other', { folder: 'other', state: 'failed' })
    await on.receive('none', { folder: '', state: 'failed' })
    await on.send('sent', { folder: 'team' })
    await on.send('not theirs', { folder: 'other' })
    const texts = async (sub: string, input: object) =>
      (await at(sub).call(list, input)).messages.map(({ text }) => text)
    assert.deepEqual(await texts('github:admin', {}), ['gone', 'below', 'team'])
    assert.deepEqual(await texts('github:admin', { direction: 'all' }), ['sent', 'gone', 'below', 'team'])
    assert.deepEqual(await texts('github:admin', { state: 'failed' }), ['gone'])
    assert.deepEqual(await texts('github:admin', { chat: 'telegram:1' }), ['gone', 'below', 'team'])
    assert.deepEqual(await texts('github:op', { state: 'failed' }), ['none', 'other', 'gone'])
    await assert.rejects(
      texts('github:admin', { folder: 'other' }),
      isRefusal('forbidden', 'you do not administer this'),
    )
    await assert.rejects(texts('github:stranger', {}), isRefusal('forbidden', 'you do not administer this'))
  })

  test('examines a limited number of rows and says how far back it has looked', async (t) => {
    const on = await open(t, engine)
    await on.receive('first', { sender: 'telegram:rare', state: 'silent' })
    const last = await fill(on, 45_000)
    const page = await on.cli.call(list, { state: 'silent' })
    assert.deepEqual(page.messages, [])
    assert.ok(page.searched_back_to !== undefined && page.next !== undefined)
    const next = await on.cli.call(list, { state: 'silent', after: page.next })
    assert.deepEqual(
      [next.messages.map(({ text }) => text), next.next, next.searched_back_to],
      [['first'], undefined, undefined],
    )
    // An index finds these at once.
    assert.ok(last > 45_000)
    for (const filter of [{ state: 'failed' }, { folder: 'main' }, { chat: 'telegram:1' }])
      assert.equal((await on.cli.call(list, filter)).searched_back_to, undefined, JSON.stringify(filter))
    for (const filter of [{}, { folder: 'main' }, { chat: 'telegram:1' }, { state: 'silent' }])
      assert.deepEqual(await on.texts({ sender: 'telegram:rare', ...filter }), ['first'], JSON.stringify(filter))
    for (const filter of [{ folder: 'main' }, { chat: 'telegram:1' }])
      assert.deepEqual(await on.texts({ sender: 'telegram:9', ...filter }), [], JSON.stringify(filter))
    assert.equal((await on.texts({ sender: 'telegram:9', folder: 'other', limit: 200 })).length, 200)
  })
})

/** Adds messages of `other` in one chat; returns the last number. */
async function fill({ host }: TestHost, count: number): Promise<number> {
  const numbers = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${count})`
  return host.engine.transaction(async (tx) => {
    const now = timestamp(host.clock.now())
    await run(
      tx,
      `insert into messages (id, jid, direction, kind, sender, content, created_at)
       select * from (${numbers} select 'zz-' || (100000 + i), 'telegram:3', 'in', 'message', 'telegram:9',
         cast('x' as ${host.engine.dialect.lockTableSql('x') === undefined ? 'blob' : 'bytea'}), '${now}' from n) as made`,
    )
    await run(
      tx,
      `insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, updated_at)
       select seq, id, jid, 'other', '', '', sender, 'message', 'answered', created_at from messages where id like 'zz-%'`,
    )
    const { rows } = await run(tx, 'select max(seq) as last from messages')
    const last = Number(rows[0]?.last)
    await run(tx, 'update routing set last_seq = $1 where id = 1', [last])
    return last
  })
}
