// Tests and replays of links, and the list of their deliveries. See docs/decisions.md#tests-and-replays-of-links.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { auditedCalls } from '../../test/support/audit.ts'
import { isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { hashToken } from '../core/links/link-token.ts'
import { recordInbound } from '../core/messages/inbound.ts'
import { appendLinkPost, type LinkPost } from '../core/messages/link-inbound.ts'
import { decodeContent, type Message, messages } from '../core/messages/messages.ts'
import { rounds, writeContextOf } from '../core/turns/rounds.ts'
import { groupsResource } from './groups.ts'
import { routeTokensResource } from './route-tokens.ts'

const { issue_chat, issue_hook, list_of, revoke, deliver_test, replay, deliveries } = routeTokensResource.verbs

async function messagesOf({ host }: TestHost): Promise<Message[]> {
  return host.engine.read((tx) => messages.list(tx, {}, [['seq', 'asc']]))
}

async function lastMessage(at: TestHost): Promise<Message> {
  const last = (await messagesOf(at)).at(-1)
  assert.ok(last)
  return last
}

/** What webd appends for a request. */
async function post({ host }: TestHost, token: string, given: Partial<LinkPost>): Promise<void> {
  const message: LinkPost = {
    id: `post-${host.clock.now()}`,
    link: Buffer.from(hashToken(token)).toString('latin1'),
    old_target: null,
    sender: 'ci',
    topic: null,
    content: Buffer.from('{}'),
    content_type: null,
    created_at: '2026-01-01T00:00:00.000Z',
    visitor: null,
    hasRound: false,
    reach: null,
    event: null,
    ...given,
  }
  assert.ok(await host.engine.transaction((tx) => appendLinkPost(tx, host.engine.dialect, message)))
}

onEveryEngine('deliveries of links', (engine) => {
  test('a test of a webhook has its source, context, target and tools, and says that it is a test', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const link = { source_label: 'ci', target_folder: 'team', context: 'Builds.', tools: 'chat' }
    const { jid } = await at.cli.call(issue_hook, link)
    const { message_id } = await at.cli.call(deliver_test, { jid })
    const { id, sender, target_folder, link_context, reach, turn_id, content, content_type } = await lastMessage(at)
    assert.deepEqual(
      [id, sender, target_folder, link_context, reach, turn_id],
      [message_id, 'ci', 'team', 'Builds.', 'chat', undefined],
    )
    const body = JSON.parse(decodeContent(content))
    assert.deepEqual([body.test, content_type], [true, 'application/json'])
    assert.match(body.message, /^This is a test of this link/)
    const [listed] = (await at.cli.call(list_of, { folder: 'team' })).tokens
    assert.deepEqual([listed?.accepted, listed?.last_used_at], [0, undefined], 'it is not a use of the link')
  })

  test('a test of a chat link comes from an anonymous visitor and waits for an answer', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    const { jid } = await at.cli.call(issue_chat, { jid_suffix: 'site' })
    const { message_id } = await at.cli.call(deliver_test, { jid })
    const { sender, reach, turn_id } = await lastMessage(at)
    assert.match(sender, /^anon:[0-9a-f]{12}$/)
    assert.deepEqual([reach, turn_id], [undefined, message_id])
    const round = await at.host.engine.read((tx) => rounds.find(tx, { id: message_id }))
    assert.equal(round?.status, 'pending')
  })

  test('a test goes through the newest link of the JID, and not through a revoked one', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    await at.cli.call(issue_chat, { context: 'old' })
    at.clock.advance(1000)
    const { jid } = await at.cli.call(issue_chat, { context: 'new' })
    await at.cli.call(deliver_test, { jid })
    assert.equal((await lastMessage(at)).link_context, 'new')
    await at.cli.call(revoke, { jid })
    await assert.rejects(at.cli.call(deliver_test, { jid }), isRefusal('not_found', `there is no token at ${jid}`))
    assert.equal((await messagesOf(at)).length, 1)
  })

  test('a replay is a new message that equals the first, after its link was revoked and minted anew', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const hook = { source_label: 'gh', target_folder: 'team' }
    const { token, jid } = await at.cli.call(issue_hook, { ...hook, context: 'first', tools: 'all' })
    const body = {
      content: Buffer.from([0xff, 0x00, 0x41]),
      content_type: 'x/y',
      event: 'push',
      topic: 'builds',
      client_context: '{"system":"x"}',
    }
    await post(at, token, body)
    const first = await lastMessage(at)
    await at.cli.call(revoke, { jid })
    await at.cli.call(issue_hook, { ...hook, context: 'second' })
    at.clock.advance(5000)
    let message_id = ''
    const audited = await auditedCalls(at, async () => {
      message_id = (await at.cli.call(replay, { id: first.id })).message_id
    })
    const again = await lastMessage(at)
    assert.equal(again.id, message_id)
    const { id: _1, seq: _2, created_at: before, ...one } = first
    const { id: _3, seq: _4, created_at: after, ...other } = again
    assert.deepEqual({ ...other, content: Buffer.from(other.content) }, { ...one, content: Buffer.from(one.content) })
    assert.notEqual(before, after)
    assert.equal(audited.length, 1)
  })

  test('a replay of a chat message waits for an answer again', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main')
    const { token } = await at.cli.call(issue_chat, {})
    await post(at, token, { sender: 'github:7', hasRound: true, reach: null })
    const { message_id } = await at.cli.call(replay, { id: (await lastMessage(at)).id })
    const { sender, turn_id, reach } = await lastMessage(at)
    assert.deepEqual([sender, turn_id, reach], ['github:7', message_id, 'chat'])
  })

  test('only messages of links to groups that still exist can be replayed', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const { token } = await at.cli.call(issue_chat, { target_folder: 'team' })
    await post(at, token, {})
    const { id } = await lastMessage(at)
    const write = (jid: string, target_folder?: string) =>
      at.host.engine.transaction((tx) =>
        recordInbound(tx, writeContextOf(at.host), { jid, sender: 'x', content: 'x', reach: 'all', target_folder }),
      )
    const platform = await write('telegram:1')
    const ofPerson = await write('web:team/u-0123456789ab', 'team')
    await assert.rejects(at.cli.call(replay, { id: 'none' }), isRefusal('not_found', 'no message with id none arrived'))
    await assert.rejects(
      at.cli.call(replay, { id: platform.id }),
      isRefusal('conflict', 'did not arrive through a link'),
    )
    await assert.rejects(
      at.cli.call(replay, { id: ofPerson.id }),
      isRefusal('conflict', 'is from the chat of a person'),
    )
    await at.cli.call(groupsResource.verbs.remove, { folder: 'team' })
    await assert.rejects(at.cli.call(replay, { id }), isRefusal('not_found', 'there is no group team'))
  })

  test('deliveries lists what arrived through the links of a JID, newest first, in pages', async (t) => {
    const at = await testHost(t, engine)
    await at.groups('main', 'team')
    const { token, jid } = await at.cli.call(issue_hook, { source_label: 'ci', target_folder: 'team', context: 'c' })
    const other = await at.cli.call(issue_hook, { source_label: 'other', target_folder: 'team' })
    await post(at, other.token, { content: Buffer.from('not listed') })
    for (const text of ['one', 'two', 'three']) {
      at.clock.advance(1000)
      await post(at, token, { content: Buffer.from(text) })
    }
    const page = await at.cli.call(deliveries, { jid, limit: 2 })
    assert.deepEqual(
      page.deliveries.map(({ text, sender, state, has_context }) => [text, sender, state, has_context]),
      [
        ['three', 'ci', 'waiting', true],
        ['two', 'ci', 'waiting', true],
      ],
    )
    const rest = await at.cli.call(deliveries, { jid, limit: 2, before: page.deliveries.at(-1)?.at })
    assert.deepEqual(
      rest.deliveries.map(({ text }) => text),
      ['one'],
    )
  })
})
