import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { test } from 'node:test'
import { onEveryEngine } from '../../../test/support/host.ts'
import { json, openLinkHost } from '../../../test/support/link-host.ts'
import { until } from '../../../test/support/until.ts'
import { AGENT_LIMITS } from '../../core/access/agent-limits.ts'
import { beginTopicRemoval, mustFindConversation } from '../../core/chats/topic-removal.ts'
import { visitorPart } from '../../core/links/visitor-chats.ts'
import { recordInbound } from '../../core/messages/inbound.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { audit } from '../../registry/audit.ts'

const ALL = ['webd', 'routd', 'gated', 'runed']

onEveryEngine('topics of a link', (engine) => {
  test('are listed, found, renamed and deleted', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ALL })
    const link = await s.mintChat()
    const admin = { Authorization: `Bearer ${await s.bearer({ sub: 'local:ada', folder: 'main' })}` }
    await s.grant('local:ada', 'admin', 'main')
    const list = async (query = '', headers = {}) => {
      const { body, status, text } = await s.to(`GET ${link.chat}topics${query}`, { headers })
      assert.equal(status, 200, text)
      return body as { topics: { topic: string; title: string; latest?: string; may_edit: boolean }[]; next?: string }
    }
    assert.deepEqual((await list()).topics, [])
    for (const [text, topic] of [
      ['/say the zebra', 'red'],
      ['\n A question \u{1f600}\nsecond line /say x', 'blue'],
      [`/say ${'y'.repeat(100)}`, 'green'],
    ] as const)
      await s.ended(link, await s.speak(link, text, topic))
    const { topics } = await list()
    assert.deepEqual(
      topics.map(({ topic, title, may_edit }) => [topic, title, may_edit]),
      [
        ['green', `/say ${'y'.repeat(43)}`, false],
        ['blue', 'A question \u{1f600}', false],
        ['red', '/say the zebra', false],
      ],
    )
    const first = await list('?limit=2')
    assert.deepEqual((await list(`?limit=2&before=${first.next}`)).topics, topics.slice(2))
    assert.deepEqual(
      (await list('?q=QUESTION')).topics.map(({ topic }) => topic),
      ['blue'],
    )
    assert.deepEqual(
      (await list('', admin)).topics.map(({ may_edit }) => may_edit),
      [true, true, true],
    )

    const path = `${link.chat}topics/red`
    const denied = await s.to(`PATCH ${path}`, json({ title: 'x' }))
    assert.deepEqual(
      [denied.status, denied.body.detail],
      [403, 'only administrators of the folder may change topics of this link'],
    )
    assert.equal((await s.to(`DELETE ${path}`)).status, 403)
    assert.equal((await s.to(`PATCH ${path}`, json({ title: ' ' }, admin))).status, 400)
    assert.equal((await s.to(`PATCH ${link.chat}topics/none`, json({ title: 'x' }, admin))).status, 404)
    assert.equal((await s.to(`PATCH ${link.chat}topics/%ff`, json({ title: 'x' }, admin))).status, 400)
    assert.equal((await s.to(`PATCH ${path}`, json({ title: 'Zebras' }, admin))).status, 200)
    assert.equal((await list('?q=zebras')).topics[0]?.topic, 'red')

    // A branch belongs to the entry of its topic.
    const [question] = (await s.rounds()).filter(({ topic }) => topic === 'red')
    const branch = await s.to(`POST ${link.chat}`, json({ content: '/say b', topic: 'red 2', branch_of: question?.id }))
    await s.ended(link, String(branch.body.turn_id))
    const [newest] = (await list()).topics
    assert.deepEqual([newest?.topic, newest?.title, newest?.latest], ['red', 'Zebras', 'red 2'])
    const { body } = await s.to(`GET ${link.chat}topics/red%202/branches`)
    assert.deepEqual(
      (body.branches as { topic: string; parent?: string; fork_seq?: number }[]).map((each) => [
        each.topic,
        each.parent,
        each.fork_seq,
      ]),
      [
        ['red', undefined, undefined],
        ['red 2', 'red', 1],
      ],
    )

    const running = await s.speak(link, '/say a\n/wait 60s', 'red')
    assert.equal((await s.to(`DELETE ${path}`, { headers: admin })).status, 409)
    await s.to(`POST ${link.chat}${running}/stop`)
    await s.ended(link, running)
    const gone = await s.to(`DELETE ${path}`, { headers: admin })
    assert.equal(gone.status, 204, gone.text)
    assert.deepEqual(
      (await list()).topics.map(({ topic }) => topic),
      ['green', 'blue'],
    )
    assert.deepEqual(
      (await s.messages()).filter(({ topic }) => topic?.startsWith('red')),
      [],
    )
    assert.equal((await s.to(`DELETE ${path}`, { headers: admin })).status, 404)
    // Event numbers go on.
    const turn = await s.speak(link, '/say after', 'blue')
    await s.ended(link, turn)
    const rows = await s.host.engine.read((tx) => audit.list(tx, { resource: 'topics' }))
    assert.deepEqual(rows.map(({ action, actor }) => `${action} ${actor}`).sort(), [
      'topics.delete local:ada',
      'topics.rename local:ada',
    ])
  })

  test('are renamed and deleted by visitors who are apart, each with a rate of their own', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ALL })
    Object.assign(s.host, { limits: { ...AGENT_LIMITS, toolCallsPerSecond: 1 } })
    const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
    const as = (key: string) => ({ 'X-Visitor': key.repeat(42).concat('A') })
    for (const key of ['A', 'B']) {
      const posted = await s.to(`POST ${link.chat}`, json({ content: '/say x', topic: 'red' }, as(key)))
      const path = `GET ${link.chat}${posted.body.turn_id}`
      await until(async () => (await s.to(path, { headers: as(key) })).body.status !== 'pending')
    }
    const path = `${link.chat}topics/red`
    const statuses: number[] = []
    for (let at = 0; at < 12; at++) statuses.push((await s.to(`DELETE ${path}x`, { headers: as('A') })).status)
    assert.deepEqual(new Set(statuses), new Set([404, 429]))
    assert.equal((await s.to(`DELETE ${path}`, { headers: as('A') })).status, 429)
    assert.equal((await s.to(`PATCH ${path}`, json({ title: 'x' }, as('A')))).status, 429)
    assert.equal((await s.to(`PATCH ${path}`, json({ title: 'x' }, as('B')))).status, 200)
    assert.equal((await s.to(`DELETE ${path}`, { headers: as('B') })).status, 204)
    const left = await s.messages()
    assert.deepEqual(
      left.map(({ topic, jid }) => [topic, jid.endsWith(visitorPart(as('A')['X-Visitor']))]),
      [
        ['red', true],
        ['red', true],
      ],
    )
  })

  test('a deletion that has stopped is finished by the next one', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ALL })
    const link = await s.mintChat()
    await s.grant('local:ada', 'admin', 'main')
    const headers = { Authorization: `Bearer ${await s.bearer({ sub: 'local:ada', folder: 'main' })}` }
    await s.ended(link, await s.speak(link, '/say x', 'red'))
    const chat = { jid: link.jid, folder: 'main' }
    await s.host.engine.transaction(async (tx) => {
      const conversation = await mustFindConversation(tx, chat, 'red')
      await beginTopicRemoval(tx, s.host.engine.dialect, { ...chat, conversation, now: s.clock.now() })
    })
    assert.deepEqual((await s.to(`GET ${link.chat}topics`)).body.topics, [])
    assert.ok((await s.messages()).length > 0)
    assert.equal((await s.to(`DELETE ${link.chat}topics/red`)).status, 403)
    assert.equal((await s.to(`DELETE ${link.chat}topics/red`, { headers })).status, 204)
    assert.deepEqual(await s.messages(), [])
    assert.equal((await s.to(`DELETE ${link.chat}topics/red`, { headers })).status, 404)
  })

  test('show no prompts of tasks, and only what belongs to the folder of the link', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ['webd'] })
    const link = await s.mintChat()
    const record = (content: string, target_folder: string, sender = 'timed', topic = 'red') =>
      s.host.engine.transaction((tx) =>
        recordInbound(tx, writeContextOf(s.host), {
          ...{ jid: link.jid, sender, content, reach: 'chat', topic, target_folder },
        }),
      )
    const titles = async (query = '') =>
      ((await s.to(`GET ${link.chat}topics${query}`)).body.topics as { topic: string; title: string }[]).map(
        ({ topic, title }) => `${topic}: ${title}`,
      )
    await record('a hidden aardvark', 'main')
    await record('from elsewhere zebra', 'other', 'anon:1', 'blue')
    assert.deepEqual(await titles(), ['red: '])
    for (const [text, topic] of [
      ['/say the question', 'red'],
      ['/say mine', 'blue'],
    ] as const)
      await s.speak(link, text, topic)
    await until(async () => (await titles()).length === 2)
    assert.deepEqual(await titles(), ['blue: /say mine', 'red: /say the question'])
    assert.deepEqual(await titles('?q=aardvark'), [])
    assert.deepEqual(await titles('?q=zebra'), [])
    assert.deepEqual(await titles('?q=question'), ['red: /say the question'])
    await record('later', 'other', 'anon:1', 'blue')
    assert.deepEqual((await s.to(`GET ${link.chat}topics/blue/branches`)).body, { branches: [] })
    assert.equal(((await s.to(`GET ${link.chat}topics/red/branches`)).body.branches as unknown[]).length, 1)
  })

  test('a search is one of the link, and short', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: ALL })
    const link = await s.mintChat({ jid_suffix: 'site', visitors: 'apart' })
    const index = s.host.search ?? assert.fail('it has no index')
    const search = t.mock.method(index, 'search')
    const headers = { 'X-Visitor': 'A'.repeat(43) }
    const find = async (q: string, visitor: Record<string, string> = headers) =>
      (await s.to(`GET ${link.chat}topics?q=${encodeURIComponent(q)}`, { headers: visitor })).status
    const posted = await s.to(`POST ${link.chat}`, json({ content: '/say x', topic: 'red' }, headers))
    await until(
      async () => (await s.to(`GET ${link.chat}${posted.body.turn_id}`, { headers })).body.status !== 'pending',
    )
    assert.deepEqual([await find('ab'), await find('abc', {}), await find('word '.repeat(13))], [200, 200, 400])
    assert.equal(search.mock.callCount(), 0)
    assert.equal(await find('a word'), 200)
    assert.deepEqual(
      search.mock.calls.map(({ arguments: [{ query, requester }] }) => [query, requester]),
      [['"a" "word"*', link.jid]],
    )
  })
})

test('a topic is not renamed before the link is checked, and its body is not read', { timeout: 20_000 }, async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  for (const [path, status] of [
    [`/chat/${'x'.repeat(43)}/topics/red`, 401],
    [`${link.chat}topics/red`, 403],
  ] as const) {
    const patch = request(`${s.url('webd')}${path}`, { method: 'PATCH', headers: { 'Content-Length': '20' } })
    t.after(() => patch.destroy())
    patch.on('error', () => {})
    patch.flushHeaders()
    const [answer] = await once(patch, 'response')
    assert.equal(answer.statusCode, status)
  }
})
