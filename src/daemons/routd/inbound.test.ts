import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { CHANNEL_SECRET, openChannelApi } from '../../../test/support/channel-api.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { chats } from '../../core/chats/chats.ts'
import { recordOutbound, settleDelivery } from '../../core/delivery/outbox.ts'
import { type Envelope, envelopes } from '../../core/messages/envelopes.ts'
import { decodeContent, type Message, messages } from '../../core/messages/messages.ts'
import { DEFAULT_TURN_RULES } from '../../core/turns/turn-rules.ts'
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
  const cases: Record<string, [over: object, status: number, sentence: RegExp]> = {
    'without a chat': [{ chat_jid: undefined }, 400, /chat_jid is required \(missing_field\)/],
    'without content': [{ content: undefined }, 400, /content is required \(missing_field\)/],
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
    'other',
  ]
  const body = fc.dictionary(fc.constantFrom(...names), member)
  fc.assert(
    fc.property(body, (raw) => {
      try {
        const read = readInbound(raw)
        assert.equal(typeof read.chat_jid, 'string')
      } catch (error) {
        assert.ok(error instanceof Refusal, String(error))
        assert.match(error.message, /\((bad_request|missing_field)\)$/)
      }
    }),
  )
})
