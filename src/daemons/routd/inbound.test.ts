import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { CHANNEL_SECRET, openChannelApi } from '../../../test/support/channel-api.ts'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { openInboundHost, sendAsTeam } from '../../../test/support/inbound-host.ts'
import { type InboundUnderTest, type PlatformEvent, testInboundContract } from '../../channels/channel.contract.ts'
import { openHttpChannel } from '../../channels/http/adapter.ts'
import { chats } from '../../core/chats/chats.ts'
import { recordOutbound, settleDelivery } from '../../core/delivery/outbox.ts'
import { type Envelope, envelopes } from '../../core/messages/envelopes.ts'
import { decodeContent, type Message, messages } from '../../core/messages/messages.ts'
import { DEFAULT_TURN_RULES } from '../../core/turns/turn-rules.ts'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import { channelSecretsResource } from '../../resources/channel-secrets.ts'
import { readInbound } from './inbound.ts'

const jid = 'telegram:group/1'
const MESSAGES = 'POST /v1/messages'

async function setUp(t: TestContext, engine: EngineName = 'sqlite') {
  const at = await testHost(t, engine)
  const api = await openChannelApi(t, at)
  const token = await api.register()
  const post = (over: object = {}, bearer = token, headers: Record<string, string> = {}) =>
    api.ask(MESSAGES, { chat_jid: jid, content: 'hello', sender: 'telegram:user/7', ...over }, bearer, headers)
  const all = () =>
    at.host.engine.read(async (tx) => {
      const rows: { message: Message; text: string; envelope: Envelope | undefined }[] = []
      for (const message of await messages.list(tx, { direction: 'in' })) {
        const envelope = await envelopes.find(tx, { message_seq: message.seq })
        rows.push({ message, text: decodeContent(message.content), envelope })
      }
      return rows
    })
  const last = async () => (await all()).at(-1) ?? assert.fail('no message')
  const context = { dialect: at.host.engine.dialect, clock: at.host.clock, random: at.host.random }
  /** A message of the agent with its platform id. */
  const sendReply = (platform_id: string, topic = '') =>
    at.host.engine.transaction(async (tx) => {
      const out = { jid, topic, folder: 'team', content: 'an answer', leaseMs: 1000 }
      const recorded = await recordOutbound(tx, context, DEFAULT_TURN_RULES, out)
      await settleDelivery(tx, context, DEFAULT_TURN_RULES, recorded, { state: 'sent', platform_id })
      return recorded.id
    })
  return { ...at, api, token, post, all, last, sendReply }
}

onEveryEngine('an inbound message of an adapter', (engine) => {
  test('is recorded with all its fields, and its chat is created', async (t) => {
    const { post, last, host } = await setUp(t, engine)
    let signals = 0
    host.signals.on(() => signals++)
    const attachments = [{ mime: 'image/png', filename: 'a.png', url: 'https://example.com/a.png' }]
    const { status, body } = await post({
      id: '900',
      sender_name: 'Mia',
      timestamp: 1_700_000_000.5,
      reply_to: '899',
      reply_to_text: 'what was asked',
      reply_to_sender: 'telegram:user/8',
      forwarded_from: 'a channel',
      topic: 'news',
      verb: 'join',
      is_group: true,
      chat_name: 'The team',
      link_context: 'read this',
      attachments,
      source: '',
    })
    const { message, text, envelope } = await last()
    assert.deepEqual([status, body], [200, { ok: true, id: '900', message_id: message.id }])
    assert.deepEqual(
      [text, message.topic, message.sender, message.link_context],
      ['hello', 'news', 'telegram:user/7', 'read this'],
    )
    const { message_seq: _, attachments: kept, ...rest } = envelope ?? assert.fail('no envelope')
    assert.deepEqual(rest, {
      jid,
      platform_id: '900',
      verb: 'join',
      source: 'teled',
      sender_name: 'Mia',
      reply_to_id: '899',
      reply_to_text: 'what was asked',
      reply_to_sender: 'telegram:user/8',
      forwarded_from: 'a channel',
      chat_name: 'The team',
      is_group: true,
      depth: 0,
      sent_at: '2023-11-14T22:13:20.500Z',
    })
    assert.deepEqual(JSON.parse(kept ?? ''), attachments)
    assert.deepEqual(await host.engine.read((tx) => chats.find(tx, { jid })), {
      jid,
      source: 'teled',
      name: 'The team',
      is_group: true,
    })
    assert.equal(signals, 1)
  })

  test('is recorded once per id or key', async (t) => {
    const { post, all } = await setUp(t, engine)
    const first = await post({ id: '1' })
    const again = await post({ id: '1', content: 'other words' })
    assert.deepEqual(again.body, { ...first.body, duplicate: true })
    const key = { 'X-Idempotency-Key': 'abc' }
    assert.equal((await post({}, undefined, key)).body.id, 'teled-abc')
    assert.equal((await post({}, undefined, key)).body.duplicate, true)
    await post({ chat_jid: 'telegram:group/2', id: '1' })
    await post()
    await post()
    assert.equal((await all()).length, 5)
  })

  test('is recorded once for concurrent requests with one id', async (t) => {
    const { post, all } = await setUp(t, engine)
    const responses = await Promise.all(Array.from({ length: 8 }, () => post({ id: '1' })))
    assert.deepEqual(
      responses.map(({ status }) => status),
      Array(8).fill(200),
    )
    assert.equal(new Set(responses.map(({ body }) => body.message_id)).size, 1)
    assert.equal((await all()).length, 1)
  })

  test('is a mention if it replies to the agent, by our id or the platform’s, in its topic', async (t) => {
    const { post, last, sendReply } = await setUp(t, engine)
    const id = await sendReply('77', 'news')
    for (const reply_to of ['77', id]) {
      await post({ reply_to })
      const { envelope, message } = await last()
      assert.deepEqual(
        [envelope?.verb, message.topic, envelope?.reply_to_text, envelope?.reply_to_sender],
        ['mention', 'news', 'an answer', 'team'],
      )
    }
    // Another chat reveals nothing of it.
    for (const reply_to of ['77', id]) {
      await post({ chat_jid: 'telegram:group/2', reply_to })
      const { envelope, message } = await last()
      assert.deepEqual([envelope?.verb, message.topic, envelope?.reply_to_text], ['message', undefined, undefined])
    }
  })

  test('is a mention in a topic where the agent has answered', async (t) => {
    const { post, last, sendReply } = await setUp(t, engine)
    await post({ topic: 'news' })
    assert.equal((await last()).envelope?.verb, 'message')
    await sendReply('77', 'news')
    for (const [over, verb] of [
      [{ topic: 'news' }, 'mention'],
      [{ topic: 'other' }, 'message'],
      [{}, 'message'],
      [{ topic: 'news', verb: 'untrusted' }, 'untrusted'],
      [{ topic: 'news', reaction: '👍', content: '' }, 'like'],
    ] as const) {
      await post(over)
      assert.equal((await last()).envelope?.verb, verb)
    }
  })

  test('takes topic, text and sender of the quoted message from the store', async (t) => {
    const { post, last } = await setUp(t, engine)
    await post({ id: '5', topic: 'news', content: 'a question' })
    await post({ reply_to: '5', sender: 'telegram:user/9' })
    const { envelope, message } = await last()
    assert.deepEqual(
      [message.topic, envelope?.reply_to_text, envelope?.reply_to_sender, envelope?.verb],
      ['news', 'a question', 'telegram:user/7', 'message'],
    )
  })

  test('is ignored if the agent sent it', async (t) => {
    const { post, all, sendReply } = await setUp(t, engine)
    await sendReply('77')
    assert.equal((await post({ id: '77' })).body.ignored, 'the agent sent it')
    assert.equal((await post({ is_from_me: true })).body.ignored, 'the agent sent it')
    assert.equal((await all()).length, 0)
  })
})

onEveryEngine('a change of a message', (engine) => {
  test('edits and deletes it by its platform id, once', async (t) => {
    const { post, all, token, api, host } = await setUp(t, engine)
    const { body } = await post({ id: '900' })
    const { message_id } = body
    let signals = 0
    host.signals.on(() => signals++)
    const edit = { content: 'new words', edits: '900', timestamp: 1_700_000_000.5, attachments: [] }
    assert.deepEqual((await post(edit)).body, { ok: true, id: '900', message_id })
    assert.deepEqual((await post(edit)).body, { ok: true, id: '900', message_id, duplicate: true })
    const [row] = await all()
    assert.deepEqual(
      [row?.text, row?.envelope?.edited_at, row?.message.id],
      ['new words', '2023-11-14T22:13:20.500Z', message_id],
    )
    const deletion = { chat_jid: jid, deletes: '900', id: 'event 7' }
    assert.deepEqual((await api.ask(MESSAGES, deletion, token)).body, { ok: true, id: 'event 7', message_id })
    assert.equal((await api.ask(MESSAGES, deletion, token)).body.duplicate, true)
    const [deleted, ...others] = await all()
    assert.deepEqual([deleted?.text, others, signals], ['', [], 2])
    assert.equal(deleted?.envelope?.deleted_at, timestamp(host.clock.now()))
    // The message itself again.
    assert.equal((await post({ id: '900' })).body.duplicate, true)
    assert.equal((await all())[0]?.text, '')
  })

  test('replaces the attachments if it has some', async (t) => {
    const { post, last } = await setUp(t, engine)
    const attachments = [{ url: 'https://example.com/a.png' }]
    await post({ id: '1' })
    await post({ edits: '1', content: 'with a picture', attachments })
    assert.deepEqual(JSON.parse((await last()).envelope?.attachments ?? ''), attachments)
  })

  test('of the agent’s message, by another account', async (t) => {
    const { post, host, sendReply } = await setUp(t, engine)
    const id = await sendReply('77')
    const text = async () =>
      decodeContent((await host.engine.read((tx) => messages.find(tx, { id })))?.content ?? Buffer.from('-'))
    assert.equal((await post({ edits: '77', content: 'x', is_from_me: true })).body.ignored, 'the agent did it')
    assert.equal(await text(), 'an answer')
    assert.equal((await post({ deletes: '77', content: undefined })).body.message_id, id)
    assert.equal(await text(), '')
  })

  test('of an unknown message, or of another chat, is ignored with the reason', async (t) => {
    const { post, all } = await setUp(t, engine)
    await post({ chat_jid: 'telegram:group/2', id: '5' })
    for (const change of [
      { edits: '5' },
      { deletes: '5', content: undefined },
      { reaction_removed: true, reaction: '👍', reply_to: '5', content: undefined },
    ])
      assert.deepEqual((await post(change)).body, { ok: true, id: '5', ignored: `there is no message 5 in ${jid}` })
    assert.deepEqual(
      (await all()).map(({ text }) => text),
      ['hello'],
    )
  })

  test('of a chat of another adapter is refused', async (t) => {
    const { post } = await setUp(t, engine)
    const other = { chat_jid: 'discord:1/2', sender: 'discord:3' }
    assert.equal((await post({ ...other, edits: '5' })).status, 403)
    assert.equal((await post({ edits: '5', sender: 'discord:3' })).status, 400)
  })
})

onEveryEngine('events of an adapter', (engine) => {
  testInboundContract(async (t): Promise<InboundUnderTest> => {
    const on = await openInboundHost(t, engine, jid)
    const api = await openChannelApi(t, on)
    const adapter = await fakeAdapter(t)
    const token = await api.register({ url: adapter.url })
    const channel = openHttpChannel({
      ...{ name: 'teled', platform: 'telegram', url: adapter.url, token },
      ...{ addresses: { isPublicAllowed: false }, capabilities: EVERY_CAPABILITY },
    })
    let [count, last] = [0, {}]
    const post = async (body: object): Promise<void> => {
      last = body
      assert.equal((await api.ask(MESSAGES, { chat_jid: jid, ...body }, token)).status, 200)
    }
    const deliver = async (event: PlatformEvent): Promise<string> => {
      const id = `m${++count}`
      const from = {
        sender: `telegram:user/${event.person}`,
        sender_name: event.person,
        timestamp: 1_700_000_000 + count,
      }
      if (event.kind === 'message') {
        const { text: content, thread: topic, replyTo: reply_to, isOwn: is_from_me, isBot } = event
        await post({ ...from, id, content, topic, reply_to, is_from_me, verb: isBot ? 'untrusted' : undefined })
      } else if (event.kind === 'edit') await post({ ...from, edits: event.id, content: event.text })
      else if (event.kind === 'delete') await post({ ...from, deletes: event.id })
      else if (event.kind === 'press')
        await post({ ...from, id, verb: 'action', action: event.button, reply_to: event.id })
      else {
        const reaction_removed = event.kind === 'reaction removed'
        await post({ ...from, id, reaction: event.emoji, reply_to: event.id, reaction_removed })
      }
      return id
    }
    return {
      ...{ jid, deliver, hasOtherAccounts: true, answerAll: on.answerAll, stored: on.stored },
      redeliver: () => post(last),
      send: (content, topic = '', buttons) => sendAsTeam(on.host, channel, { jid, content, topic, buttons }),
    }
  })
})

suite('an invalid change is refused without a change', () => {
  const unlike = { content: undefined, reaction_removed: true, reaction: '👍', reply_to: '1' }
  const cases: Record<string, [over: object, sentence: RegExp]> = {
    'an edit without content': [{ edits: '1', content: '' }, /^edits needs content as well \(missing_field\)$/],
    'an edit with a NUL': [{ edits: '1', content: 'a\u0000b' }, /must not contain a NUL character/],
    'an edit and a deletion': [
      { edits: '1', deletes: '1' },
      /^edits and deletes exclude each other: send one of them \(bad_request\)$/,
    ],
    'an edit and a reaction': [{ edits: '1', reaction: '👍' }, /^edits and reaction exclude each other/],
    'an edit and a removed reaction': [
      { ...unlike, reaction: undefined, edits: '1', content: 'x' },
      /^edits and reaction_removed exclude/,
    ],
    'a deletion with content': [{ deletes: '1' }, /^deletes and content exclude each other/],
    'a deletion with attachments': [
      { deletes: '1', content: undefined, attachments: [{ mime: 'image/png' }] },
      /^deletes and attachments exclude/,
    ],
    'a deletion of a reaction': [{ ...unlike, deletes: '1' }, /^deletes and reaction exclude/],
    'a removed reaction without the reaction': [
      { ...unlike, reaction: '' },
      /^reaction_removed needs reaction as well/,
    ],
    'a removed reaction without a message': [
      { ...unlike, reply_to: undefined },
      /^reaction_removed needs reply_to as well/,
    ],
    'a removed reaction without a sender': [{ ...unlike, sender: undefined }, /^reaction_removed needs sender as well/],
    'a removed reaction with content': [{ ...unlike, content: 'x' }, /^reaction_removed and content exclude/],
    'an edit with the id of the message': [
      { edits: '1', id: '1' },
      /^id must not be the id of the message that edits is about/,
    ],
    'a removed reaction with the id of the message': [{ ...unlike, id: '1' }, /^id must not be the id of the message/],
    'an edit with an empty id': [{ edits: 5 }, /^edits must be text/],
    'a removal that is not a boolean': [
      { ...unlike, reaction_removed: 'yes' },
      /^reaction_removed must be true or false/,
    ],
  }
  for (const [what, [over, sentence]] of Object.entries(cases))
    test(what, async (t) => {
      const { post, all } = await setUp(t)
      await post({ id: '1' })
      const before = await all()
      const answer = await post(over)
      assert.match(answer.detail, sentence)
      assert.equal(answer.status, 400)
      assert.deepEqual(await all(), before)
    })

  test('but members that say no are accepted', async (t) => {
    const { post, last } = await setUp(t)
    await post({ id: '1', edits: '', deletes: null, reaction_removed: false })
    await post({ edits: '1', content: 'new words', deletes: '', reaction: null, reaction_removed: false })
    assert.equal((await last()).text, 'new words')
    await post({ deletes: '1', content: '', attachments: [] })
    assert.equal((await last()).text, '')
  })
})

test('maps every reaction to a like or a dislike', async (t) => {
  const { post, last } = await setUp(t)
  for (const [reaction, verb] of [
    ['👍', 'like'],
    ['🎉', 'like'],
    ['👎', 'dislike'],
    ['👎🏽', 'dislike'],
    [':-1:', 'dislike'],
    ['thumbsdown', 'dislike'],
    ['💩', 'dislike'],
    ['+1', 'like'],
  ]) {
    await post({ content: undefined, reaction, reply_to: '1' })
    assert.deepEqual([(await last()).text, (await last()).envelope?.verb], [reaction, verb])
  }
})

suite('an invalid message is refused without a change', () => {
  const press = { content: undefined, verb: 'action', action: 'yes', reply_to: '5' }
  const cases: Record<string, [over: object, status: number, sentence: RegExp]> = {
    'without a chat': [{ chat_jid: undefined }, 400, /chat_jid is required \(missing_field\)/],
    'without content': [{ content: undefined }, 400, /content is required \(missing_field\)/],
    'with a button and another verb': [{ ...press, verb: 'mention' }, 400, /action needs verb action \(bad_request\)/],
    'with a button and no verb': [{ ...press, verb: undefined }, 400, /action needs verb action/],
    'with the verb of a button alone': [{ verb: 'action' }, 400, /verb action needs action as well \(missing_field\)/],
    'with a button of no message': [{ ...press, reply_to: '' }, 400, /verb action needs reply_to as well/],
    'with a button that nobody has pressed': [{ ...press, sender: '' }, 400, /verb action needs sender as well/],
    'with a button and a text': [{ ...press, content: 'yes' }, 400, /verb action excludes content/],
    'with a button and a reaction': [{ ...press, reaction: '👍' }, 400, /verb action excludes content/],
    'with a button and an edit': [{ ...press, edits: '5' }, 400, /verb action excludes content/],
    'with a button that is too long': [{ ...press, action: 'x'.repeat(41) }, 400, /action must be the id of a button/],
    'with a button that is no id': [{ ...press, action: 'a b' }, 400, /action must be the id of a button/],
    'with a button that is a number': [{ ...press, action: 5 }, 400, /action must be text/],
    'with content that is not text': [{ content: 5 }, 400, /content must be text \(bad_request\)/],
    'with a NUL': [{ content: 'a\u0000b' }, 400, /must not contain a NUL character/],
    'with an invalid chat': [{ chat_jid: 'telegram' }, 400, /must look like platform:room/],
    'with an unknown field': [{ chatjid: 'x' }, 400, /unknown field "chatjid" \(bad_request\)/],
    'of a chat of another adapter': [{ chat_jid: 'discord:1/2', sender: 'discord:3' }, 403, /jid_prefix_mismatch/],
    'of a link': [{ chat_jid: 'web:main', sender: 'web:x' }, 403, /jid_prefix_mismatch/],
    'from a sender of another platform': [{ sender: 'discord:3' }, 400, /sender_scheme_mismatch/],
    'of an account’s chat': [
      { chat_jid: 'github:1/2', sender: 'github:1', content: '/root who are you?' },
      403,
      /^the platform github is reserved for accounts \(jid_prefix_mismatch\)$/,
    ],
    'from an account': [
      { sender: 'github:1' },
      400,
      /^a sender in a telegram chat cannot have the namespace github \(sender_scheme/,
    ],
    'from an agent': [{ sender: 'folder:main' }, 400, /sender_scheme_mismatch/],
    'from the system': [
      { sender: 'system' },
      400,
      /^the sender "system" is reserved for svc \(sender_scheme_mismatch\)$/,
    ],
    'from a task': [{ sender: 'timed' }, 400, /is reserved for svc/],
    'with the verb root': [{ verb: 'root' }, 400, /^verb must not be root, which is reserved/],
    'with the verb delegate': [{ verb: 'delegate' }, 400, /^verb must not be delegate/],
    'with an invalid verb': [{ verb: 'Do It' }, 400, /verb must be a word/],
    'with an invalid attachment': [{ attachments: [{ url: 'file:///etc/passwd' }] }, 400, /http or https URL/],
    'with an invalid time': [{ timestamp: 'now' }, 400, /timestamp must be a number/],
  }
  for (const [what, [over, status, sentence]] of Object.entries(cases))
    test(what, async (t) => {
      const { post, all, host } = await setUp(t)
      const answer = await post(over)
      assert.match(answer.detail, sentence)
      assert.equal(answer.status, status)
      assert.deepEqual([await all(), await host.engine.read((tx) => chats.list(tx))], [[], []])
    })

  test('with an id and another key', async (t) => {
    const { post } = await setUp(t)
    const answer = await post({ id: '1' }, undefined, { 'X-Idempotency-Key': '2' })
    assert.match(answer.detail, /ambiguous_idempotency/)
    assert.equal((await post({ id: '1' }, undefined, { 'X-Idempotency-Key': '1' })).status, 200)
    assert.match((await post({}, undefined, { 'X-Idempotency-Key': 'a b' })).detail, /bad_request/)
  })

  test('that is not JSON, or without credentials', async (t) => {
    const { api, all } = await setUp(t)
    assert.equal((await api.ask(MESSAGES, '{"chat_jid":')).status, 400)
    assert.equal((await api.ask(MESSAGES, '[]')).status, 400)
    assert.equal((await api.ask(MESSAGES, { chat_jid: jid, content: 'x' }, '')).status, 401)
    assert.deepEqual(await all(), [])
  })
})

onEveryEngine('messages of another adapter’s platform', (engine) => {
  test('are refused for any source that the caller names', async (t) => {
    const { post, all, cli, api, token } = await setUp(t, engine)
    const { secret } = await cli.call(channelSecretsResource.verbs.add, { name: 'bridge', platforms: ['discord'] })
    const registered = { name: 'discd', url: 'http://127.0.0.1:9', jid_prefixes: ['discord:'], capabilities: {} }
    await api.ask('POST /v1/channels/register', registered, secret)
    const discord = { chat_jid: 'discord:1/2', sender: 'discord:7' }
    const outcomes = async (over: object) => {
      const answers = [CHANNEL_SECRET, token, secret].map(async (bearer) => (await post(over, bearer)).status)
      return Promise.all(answers)
    }
    assert.deepEqual(await outcomes(discord), [403, 403, 200])
    assert.deepEqual(await outcomes({ ...discord, source: 'discd' }), [403, 403, 200])
    assert.deepEqual(await outcomes({}), [200, 200, 403])
    assert.deepEqual(await outcomes({ source: 'teled' }), [200, 200, 403])
    // A chat without an adapter is open to the shared secret, but not with senders of another platform.
    assert.deepEqual(await outcomes({ chat_jid: 'slack:1', sender: 'slack:7' }), [200, 403, 403])
    for (const sender of ['discord:7', 'github:1']) {
      assert.deepEqual(await outcomes({ chat_jid: 'slack:1', sender }), [400, 400, 400])
      assert.deepEqual(await outcomes({ chat_jid: 'github:1/2', sender: 'github:1' }), [403, 403, 403])
    }
    const reason = 'the platform discord is bound to a separate secret (jid_prefix_mismatch)'
    assert.equal((await post(discord, CHANNEL_SECRET)).detail, reason)
    assert.equal((await post({ ...discord, source: 'teled' }, secret)).status, 400)
    assert.equal((await all()).length, 7)
  })
})

onEveryEngine('an adapter of an account of a platform', (engine) => {
  /** The outcome for a person of the platform, and the same for one of the account. */
  const setUpAccount = async (t: TestContext) => {
    const { post, last, cli, api } = await setUp(t, engine)
    const { add, remove } = channelSecretsResource.verbs
    const work = { name: 'work', url: 'http://127.0.0.1:9', jid_prefixes: ['telegram-work:'], capabilities: {} }
    const registerWork = async (secret = CHANNEL_SECRET): Promise<string> =>
      String((await api.ask('POST /v1/channels/register', work, secret)).body.token)
    const outcome = async (bearer: string, over: object = {}) => {
      const from = async (sender: string) => post({ chat_jid: 'telegram-work:user/7', sender, ...over }, bearer)
      return [(await from('telegram:user/7')).status, (await from('telegram-work:user/7')).status]
    }
    const addSecret = async (name: string, platforms: string[]) => (await cli.call(add, { name, platforms })).secret
    const removeSecret = (name: string) => cli.call(remove, { name })
    return { post, last, registerWork, outcome, addSecret, removeSecret }
  }

  test('speaks for people of the platform if its secret also names the platform', async (t) => {
    const { post, last, registerWork, outcome, addSecret } = await setUpAccount(t)
    const secret = await addSecret('bridge', ['telegram', 'telegram-work'])
    const token = await registerWork(secret)
    assert.deepEqual(
      [await outcome(token), await outcome(secret)],
      [
        [200, 200],
        [200, 200],
      ],
    )
    await post({ chat_jid: 'telegram-work:user/7' }, token)
    assert.deepEqual((await last()).message.sender, 'telegram:user/7')
    for (const sender of ['telegram-home:user/7', 'slack:7'])
      assert.equal((await post({ chat_jid: 'telegram-work:user/7', sender }, token)).status, 400, sender)
    // Its prefix is still the one of the account.
    assert.match((await post({}, token)).detail, /jid_prefix_mismatch/)
  })

  test('does not if its secret names only the account', async (t) => {
    const { post, registerWork, outcome, addSecret } = await setUpAccount(t)
    const secret = await addSecret('bridge', ['telegram-work'])
    const token = await registerWork(secret)
    assert.deepEqual(await outcome(token), [400, 200])
    const { detail, body } = await post({ chat_jid: 'telegram-work:user/7' }, token)
    assert.equal(detail, 'a sender in a telegram-work chat cannot have the namespace telegram (sender_scheme_mismatch)')
    assert.equal(body.hint, 'the secret of the adapter must also name telegram; or send telegram-work:… as the sender')
  })

  test('does not while the platform belongs to another secret, also one that is added later', async (t) => {
    const { registerWork, outcome, addSecret, removeSecret } = await setUpAccount(t)
    // Both are covered by the shared secret.
    const token = await registerWork()
    assert.deepEqual(await outcome(token), [200, 200])
    await addSecret('bridge', ['telegram'])
    assert.deepEqual(
      [await outcome(token), await outcome(CHANNEL_SECRET)],
      [
        [400, 200],
        [400, 200],
      ],
    )
    await removeSecret('bridge')
    assert.deepEqual(await outcome(token), [200, 200])
  })
})

test('a caller with the secret may name an adapter or none', async (t) => {
  const { post, last } = await setUp(t)
  const secret = 'the channel secret'
  assert.equal((await post({ chat_jid: 'discord:1/2', sender: 'anon:x' }, secret)).status, 200)
  assert.equal((await last()).envelope?.source, undefined)
  assert.equal((await post({ source: 'teled' }, secret)).status, 200)
  assert.equal((await last()).envelope?.source, 'teled')
  assert.match((await post({ source: 'nobody' }, secret)).detail, /is not a registered adapter/)
  assert.match((await post({ source: 'teled', chat_jid: 'discord:1/2', sender: 'mia' }, secret)).detail, /jid_prefix/)
})

test('any body is accepted or refused with a reason', () => {
  const member = fc.oneof(
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(fc.string()),
    fc.object(),
  )
  const names = [
    'chat_jid',
    'content',
    'id',
    'sender',
    'topic',
    'verb',
    'reaction',
    'attachments',
    'timestamp',
    'reply_to',
    'edits',
    'deletes',
    'reaction_removed',
    'other',
  ]
  const body = fc.dictionary(fc.constantFrom(...names), member)
  fc.assert(
    fc.property(body, (raw) => {
      try {
        const read = readInbound(raw)
        assert.equal(typeof read.chat_jid, 'string')
        assert.ok(read.edits === undefined || (read.content !== undefined && read.deletes === undefined))
        assert.ok(read.deletes === undefined || read.content === undefined)
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error))
        assert.match(error.message, /\((bad_request|missing_field)\)$/)
      }
    }),
  )
})
