import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../../test/support/host.ts'
import { json, openLinkHost } from '../../../test/support/link-host.ts'
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
})
