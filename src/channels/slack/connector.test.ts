import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { openFakeHost, shareInSuite, startAdapter } from '../../../test/support/adapter-process.ts'
import { freePort } from '../../../test/support/free-port.ts'
import {
  openSlackServer,
  SLACK_CHANNEL,
  SLACK_DM,
  SLACK_GROUP,
  SLACK_PERSON,
  SLACK_TEAM,
  SLACK_TOKENS,
  type SlackServer,
} from '../../../test/support/slack-server.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { openLog } from '../../lib/log/log.ts'
import { AdapterStore } from '../process/adapter-store.ts'
import { testConnector } from '../process/connector.contract.ts'
import { PlatformError } from '../process/port.ts'
import { checkAccount, SLACK_SCOPES } from './connector.ts'
import { createSlackActions } from './slack-actions.ts'
import { openSlackApi, type SlackCall } from './slack-api.ts'
import { SlackDirectory } from './slack-directory.ts'

testConnector({ platform: 'slack', textMax: 12_000, afterLostAnswer: 'sent once', open: (t) => openSlackServer(t) })

const setUp = async (t: CleanupScope, { channel = SLACK_CHANNEL, settings = {} } = {}) => {
  const [host, platform] = [await openFakeHost(t), await openSlackServer(t, { channel })]
  const directory = join(tempDir(t), 'adapter')
  mkdirSync(directory)
  const config = { platform: 'slack', account: 'slack-work', directory, ...platform.account, settings }
  const restart = () => startAdapter(t, host, config)
  const adapter = await restart()
  await until(async () => (await host.get('/health')).body.status === 'ok')
  return { host, platform, adapter, restart, jid: `slack-work:${platform.chat}` }
}
/** One process for the tests of a suite. */
const share = (channel: string) => {
  const shared = shareInSuite((t) => setUp(t, { channel }))
  return async () => {
    const { host, platform } = await shared()
    host.clear()
    platform.clearSent()
    return shared()
  }
}
/** Without a process, for what svc does not ask for yet. */
const openActions = async (t: CleanupScope, { account }: SlackServer, given?: SlackCall) => {
  const state = new AdapterStore(tempDir(t), Date.now)
  t.after(() => state.close())
  const context = {
    ...{ ...account, account: 'slack', state, signal: new AbortController().signal, now: Date.now },
    ...{
      setHealth: () => undefined,
      guard: <A extends readonly unknown[]>(callback: (...args: A) => unknown) => callback,
    },
    log: await openLog({ to: { write: () => undefined } }),
    receive: async () => 'stored' as const,
  }
  const call = given ?? openSlackApi(context)
  const directory = new SlackDirectory({ call, state, now: Date.now })
  return createSlackActions({ context, call, directory, bot: () => undefined, onTokenFault: () => undefined })
}
const api = (event: object) => ({ type: 'event_callback', event_id: 'Ev0SAME', event })

suite('events of channels', () => {
  const shared = share(SLACK_CHANNEL)

  test('name the channel, the person and the thread, below the account', async () => {
    const { host, platform, jid } = await shared()
    const root = platform.write({ text: 'What is new?' })
    platform.write({
      text: 'and <@U0NOAH>? see <https://example.com|this> in <#C0GROUP> &amp; <!here>',
      thread_ts: root,
    })
    await until(() => host.stored.length === 2)
    assert.partialDeepStrictEqual(host.stored[0], {
      ...{ chat_jid: jid, id: root, sender: `slack:${SLACK_TEAM}/user/U0MIA`, sender_name: 'Mia Berg' },
      ...{ chat_name: 'the-team', is_group: true, content: 'What is new?', timestamp: Number.parseInt(root, 10) },
    })
    assert.equal(host.stored[0]?.topic, undefined)
    assert.partialDeepStrictEqual(host.stored[1], {
      ...{ topic: root, reply_to: root },
      content: 'and @Noah? see [this](https://example.com) in #mpdm-mia--noah--ada-1 & @here',
    })
  })

  test('are mentions if they name the bot, also if Slack sends them twice', async () => {
    const { host, platform } = await shared()
    const ts = platform.write({ text: '<@U0ADA> hello' })
    platform.event({ type: 'app_mention', channel: SLACK_CHANNEL, user: SLACK_PERSON, text: '<@U0ADA> hello', ts })
    platform.write({ text: '<@U0ADA> /new now' })
    platform.write({ text: 'nothing' })
    await until(() => host.stored.length === 3)
    assert.deepEqual(
      host.received.map(({ verb, content }) => [verb, content]),
      [
        ['mention', '@ada hello'],
        ['mention', '/new now'],
        [undefined, 'nothing'],
      ],
    )
  })

  test('are commands of the app, with or without its own name', async () => {
    const { host, platform, jid } = await shared()
    const command = { channel_id: SLACK_CHANNEL, channel_name: 'the-team', user_id: SLACK_PERSON, user_name: 'mia' }
    for (const [at, [name, text]] of [
      ['/svc', 'new #bills'],
      ['/stop', ''],
      ['/svc', ''],
    ].entries())
      platform.envelope('slash_commands', { ...command, command: name, text, trigger_id: `13345224609.${at}` })
    await until(() => host.stored.length === 3)
    assert.deepEqual(
      host.stored.map(({ content, verb, chat_jid }) => [content, verb, chat_jid]),
      [
        ['/new #bills', 'mention', jid],
        ['/stop', 'mention', jid],
        ['/help', 'mention', jid],
      ],
    )
  })

  test('show forwarded messages, attachments and blocks as text, and no previews of links', async () => {
    const { host, platform } = await shared()
    const shared_ = { is_share: true, author_name: 'Noah', text: 'the news', fallback: '[today] Noah: the news' }
    platform.write({ text: '', attachments: [shared_] })
    platform.write({ text: 'look', attachments: [shared_] })
    platform.write({ text: 'a link', attachments: [{ from_url: 'https://example.com', title: 'Example' }] })
    const section = {
      type: 'rich_text_section',
      elements: [
        { type: 'text', text: 'a ' },
        { type: 'emoji', name: 'tada' },
      ],
    }
    platform.write({ text: '', blocks: [{ type: 'rich_text', elements: [section] }] })
    platform.write({ text: '<@U0NOAH> has joined the channel', subtype: 'channel_join' })
    await until(() => host.stored.length === 4)
    assert.deepEqual(
      host.stored.map(({ content, forwarded_from }) => [content, forwarded_from]),
      [
        ['the news', 'Noah'],
        ['look\n[forwarded from Noah]\nthe news', undefined],
        ['a link', undefined],
        ['a :tada:', undefined],
      ],
    )
  })

  test('are no edits if only the preview of a link appears, and deletions if a thread loses its start', async () => {
    const { host, platform } = await shared()
    const ts = platform.write({ text: 'see https://example.com' })
    const message = { type: 'message', user: SLACK_PERSON, text: 'see https://example.com', ts }
    const change = { type: 'message', subtype: 'message_changed', channel: SLACK_CHANNEL, channel_type: 'channel' }
    const unfurled = { ...message, attachments: [{ from_url: 'https://example.com' }] }
    platform.event({ ...change, ts: '1800000000.000001', message: unfurled, previous_message: message })
    const tombstone = { type: 'message', subtype: 'tombstone', user: 'USLACKBOT', ts }
    platform.event({ ...change, ts: '1800000000.000002', message: tombstone, previous_message: message })
    await until(() => host.stored.length === 2)
    assert.partialDeepStrictEqual(host.stored[1], { deletes: ts, sender: `slack:${SLACK_TEAM}/user/${SLACK_PERSON}` })
  })

  test('of a press of a button name the button and its message', async () => {
    const { host, platform, jid } = await shared()
    const buttons = [
      { id: 'yes-1', label: 'Yes', style: 'primary' },
      { id: 'no-1', label: 'No' },
    ]
    const { body } = await host.post('/send', { chat_jid: jid, content: 'Shall I?', key: 'buttons', buttons })
    const ts = String(body.id)
    const id = platform.envelope('interactive', {
      ...{
        type: 'block_actions',
        user: { id: SLACK_PERSON, name: 'mia' },
        channel: { id: SLACK_CHANNEL, name: 'the-team' },
      },
      ...{ message: { ts }, container: { message_ts: ts }, trigger_id: '12321423423.333649436676' },
      actions: [{ type: 'button', action_id: 'svc_0', value: 'yes-1', action_ts: '1800000000.000009' }],
    })
    await until(() => host.stored.length === 1 && platform.confirmed.has(id))
    assert.partialDeepStrictEqual(host.stored[0], {
      ...{ chat_jid: jid, verb: 'action', action: 'yes-1', reply_to: ts, sender_name: 'mia' },
    })
  })

  test('that cannot be read hold up nothing, and are confirmed', async () => {
    const { host, platform, adapter } = await shared()
    platform.raw('no JSON')
    platform.raw('null')
    platform.raw('{"type":"events_api","payload":null}')
    const odd = [
      platform.envelope('events_api', null),
      platform.envelope('events_api', { event: 'text' }),
      platform.envelope('events_api', api({ type: 'message', channel: 5, ts: {} })),
      platform.envelope('error', 7),
      platform.envelope('slash_commands', []),
    ]
    platform.write({ text: 'readable' })
    await until(() => host.stored.length === 1 && odd.every((id) => platform.confirmed.has(id)))
    assert.equal(adapter.child.exitCode, null)
  })

  test('are confirmed only when svc has them, and a repeat joins the first delivery', async (t) => {
    const { host, platform } = await setUp(t)
    host.behave(503)
    platform.write({ text: 'slow' })
    await until(() => host.received.length > 0)
    await platform.repeat()
    assert.equal(platform.confirmed.size, 0)
    host.behave('ok')
    await until(() => platform.confirmed.size === 2)
    assert.equal(host.stored.length, 1)
  })

  test('of other bots count only where the setting allows it', async (t) => {
    const { host, platform } = await setUp(t, { settings: { bots: 'allow' } })
    await platform.say({ text: 'of a bot', by: 'bot' })
    await platform.say({ text: 'mine', by: 'self' })
    await platform.say({ text: 'of a person' })
    await until(() => host.stored.length === 2)
    assert.partialDeepStrictEqual(host.stored[0], { sender: `slack:${SLACK_TEAM}/user/U0OTHER`, sender_name: 'Other' })
  })
})

suite('chats of several people', () => {
  test('are groups, also where Slack does not say so', async (t) => {
    const { host, platform, jid } = await setUp(t, { channel: SLACK_GROUP })
    assert.match(jid, /\/group\/C0GROUP$/)
    const ts = platform.write({ text: 'hello' })
    platform.react?.(ts, '👍')
    await until(() => host.stored.length === 2)
    assert.deepEqual(
      host.stored.map(({ chat_jid, is_group }) => [chat_jid, is_group]),
      [
        [jid, true],
        [jid, true],
      ],
    )
  })
})

suite('after a gap', () => {
  test('channels and threads are read from the history, in order and once', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    const root = platform.write({ text: 'root' })
    platform.write({ text: 'answer', thread_ts: root })
    await until(() => host.stored.length === 2)
    assert.equal(await adapter.stop(), 0)
    const isQuiet = { isQuiet: true }
    for (const text of ['one', 'two']) platform.write({ text }, isQuiet)
    platform.write({ text: 'of a bot', bot_id: 'B0OTHER' }, isQuiet)
    platform.write({ text: 'mine', user: 'U0ADA', bot_id: 'B0ADA' }, isQuiet)
    platform.write({ text: 'three', thread_ts: root }, isQuiet)
    const other = platform.write({ text: 'four' }, isQuiet)
    platform.write({ text: 'in a new thread', thread_ts: other }, isQuiet)
    await restart()
    await until(() => host.stored.length === 7)
    const texts = host.received.map(({ content }) => content)
    assert.deepEqual(
      texts.filter((text) => ['one', 'two', 'four'].includes(text ?? '')),
      ['one', 'two', 'four'],
    )
    assert.equal(new Set(texts).size, texts.length)
    assert.deepEqual(
      host.stored.filter(({ topic }) => topic === root).map(({ content }) => content),
      ['answer', 'three'],
    )
    assert.equal(host.stored.find(({ content }) => content === 'in a new thread')?.topic, other)
  })

  test('of the connection the history is read before the next message, and limits are waited out', async (t) => {
    const { host, platform } = await setUp(t)
    platform.write({ text: 'before' })
    await until(() => host.stored.length === 1)
    platform.cut(true)
    await until(async () => (await host.get('/health')).body.status === 'connecting')
    platform.write({ text: 'missed' }, { isQuiet: true })
    platform.refuse('conversations.history', 'ratelimited', { seconds: 1 })
    platform.cut(false)
    await until(() => platform.connections() === 1)
    platform.write({ text: 'after' })
    await until(() => host.stored.length === 3)
    assert.deepEqual(
      host.stored.map(({ content }) => content),
      ['before', 'missed', 'after'],
    )
    await until(async () => (await host.get('/health')).body.status === 'ok')
  })

  test('a connection that Slack replaces is kept until the next one is open', async (t) => {
    const { host, platform } = await setUp(t)
    const histories = () => platform.calls.filter(({ method }) => method === 'conversations.history').length
    platform.write({ text: 'before' })
    await until(() => host.stored.length === 1)
    const before = histories()
    platform.announceEnd('refresh_requested')
    await until(() => platform.connections() === 2)
    platform.write({ text: 'after' })
    await until(() => host.stored.length === 2)
    assert.equal(histories(), before)
  })
})

suite('actions at Slack', () => {
  const shared = share(SLACK_CHANNEL)

  test('answer in threads, react, pin, forward, quote and delete', async () => {
    const { host, platform, jid } = await shared()
    const root = platform.write({ text: 'What *is* new, <@U0NOAH>?' })
    const post = { chat_jid: jid, content: '**bold** <!channel>', key: 'k1', reply_to: root, agent_name: 'Ada' }
    const { body } = await host.post('/send', post)
    const ts = String(body.id)
    assert.partialDeepStrictEqual(platform.messages.at(-1), {
      ...{ ts, thread_ts: root, text: '**bold** <\u200b!channel>', username: 'Ada' },
    })
    const target = { chat_jid: jid, target_id: ts }
    for (const [path, members] of [
      ['/like', { ...target, reaction: '🔥' }],
      ['/like', { ...target, reaction: '🔥' }],
      ['/like', { ...target, reaction: ':party_parrot:' }],
      ['/dislike', target],
      ['/pin', target],
      ['/pin', target],
    ] as const)
      assert.equal((await host.post(path, members)).status, 200, path)
    assert.deepEqual(platform.reactions.get(ts), ['fire', 'party_parrot', '-1'])
    assert.deepEqual([...platform.pinned], [ts])
    assert.equal((await host.post('/unpin', { chat_jid: jid, all: true })).status, 200)
    assert.equal(platform.pinned.size, 0)
    assert.equal((await host.post('/unpin', target)).status, 200)
    const forward = { source_jid: jid, target_jid: jid, source_msg_id: root, comment: 'see this', key: 'k2' }
    assert.equal((await host.post('/forward', forward)).status, 200)
    const [forwarded, comment] = platform.sent.slice(-2)
    assert.match(
      forwarded?.text ?? '',
      /^> \*\*Mia Berg\*\*: What \*is\* new, @Noah\?\n> \[the message\]\(https:.*\/p\d+\)$/,
    )
    assert.equal(comment?.text, 'see this')
    const quote = { chat_jid: jid, source_msg_id: ts, comment: 'well', key: 'k3' }
    assert.equal((await host.post('/quote', quote)).status, 200)
    assert.match(platform.sent.at(-1)?.text ?? '', /^> \*\*Ada\*\*: .*\n\nwell$/s)
    assert.equal((await host.post('/delete', target)).status, 200)
    assert.equal((await host.post('/delete', target)).status, 200)
    assert.equal((await host.post('/like', { ...target, reaction: 'no reaction' })).status, 400)
  })

  test('declare what the platform can do, and refuse the rest as unsupported', async () => {
    const { host, jid } = await shared()
    const { repost, post, ...others } = host.capabilities
    assert.deepEqual({ repost, post }, { repost: false, post: false })
    assert.ok(Object.values(others).every(Boolean), JSON.stringify(others))
    assert.equal((await host.post('/repost', { chat_jid: jid, source_msg_id: '1', key: 'k' })).status, 501)
  })

  test('send plain text where the server or the text has no format, and without a name that is not allowed', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('chat.postMessage', 'invalid_blocks')
    await host.post('/send', { chat_jid: jid, content: '*odd* <b> & co', key: 'plain 1' })
    platform.refuse('chat.postMessage', 'missing_scope', { needed: 'chat:write.customize' })
    await host.post('/send', { chat_jid: jid, content: 'named', key: 'plain 2', agent_name: 'Ada' })
    assert.deepEqual(
      platform.sent.map(({ text }) => text),
      ['*odd* &lt;b&gt; &amp; co', 'named'],
    )
    assert.equal(platform.messages.at(-1)?.username, undefined)
  })

  test('show buttons, and remove them when the message is changed', async (t) => {
    const platform = await openSlackServer(t)
    const { actions } = await openActions(t, platform)
    const buttons = [{ id: 'ok', label: 'OK', style: 'primary' as const }]
    const part = { chat: platform.chat, text: 'Ready?', nonce: '1', buttons }
    const id = (await actions.sendText?.(part)) ?? ''
    assert.match(JSON.stringify(platform.messages[0]?.blocks), /"markdown","text":"Ready\?".*"value":"ok"/)
    await actions.edit?.({ chat: platform.chat, id, text: 'Done' })
    assert.deepEqual([platform.sent[0]?.text, platform.messages[0]?.blocks], ['Done', undefined])
    platform.refuse('chat.postMessage', 'invalid_blocks')
    await actions.sendText?.(part)
    assert.match(JSON.stringify(platform.messages[1]?.attachments), /"value":"ok"/)
  })

  test('send a file once if the answer to its last step is lost', async () => {
    const { host, platform, jid } = await shared()
    const send = () => {
      const form = new FormData()
      for (const [name, value] of Object.entries({ chat_jid: jid, key: 'a file', filename: 'a.bin' }))
        form.set(name, value)
      form.set('file', new File(['bytes'], 'a.bin', { type: 'audio/ogg' }))
      return host.post('/send-voice', form)
    }
    platform.failNext('lost after')
    assert.equal((await send()).status, 504)
    const again = await send()
    assert.deepEqual([again.status, again.body.id, platform.sent.length], [200, platform.sent[0]?.id, 1])
  })

  test('show captions as they are, without markup', async () => {
    const { host, platform, jid } = await shared()
    const form = new FormData()
    for (const [name, value] of Object.entries({
      chat_jid: jid,
      key: 'marked',
      filename: 'a.txt',
      caption: 'a<b> <!here>',
    }))
      form.set(name, value)
    form.set('file', new File(['bytes'], 'a.txt'))
    assert.equal((await host.post('/send-file', form)).status, 200)
    const { params } = platform.calls.findLast(({ method }) => method === 'files.completeUploadExternal') ?? {}
    assert.equal(params?.initial_comment, 'a&lt;b&gt; &lt;!here&gt;')
  })

  test('read no history for ever', async (t) => {
    const platform = await openSlackServer(t)
    let pages = 0
    const call = async () => {
      pages++
      return { messages: [], response_metadata: { next_cursor: 'again' } }
    }
    const { actions } = await openActions(t, platform, call)
    assert.deepEqual(await actions.history?.({ chat: platform.chat, limit: 10 }), { messages: [] })
    assert.ok(pages < 100, String(pages))
  })

  test('read the history with answers in threads, before a time, and say who wrote', async () => {
    const { host, platform, jid } = await shared()
    const root = platform.write({ text: 'one' }, { isQuiet: true })
    platform.write({ text: 'an answer', thread_ts: root }, { isQuiet: true })
    platform.write({ text: 'mine', user: 'U0ADA', bot_id: 'B0ADA' }, { isQuiet: true })
    const read = (more = '') => host.get(`/v1/history?jid=${encodeURIComponent(jid)}&limit=5${more}`)
    const { body } = await read()
    const messages = body.messages as { content: string; topic?: string; is_from_me?: boolean; sender_name: string }[]
    assert.deepEqual(
      messages.map(({ content, topic, is_from_me, sender_name }) => [content, topic, is_from_me, sender_name]),
      [
        ['one', undefined, undefined, 'Mia Berg'],
        ['an answer', root, undefined, 'Mia Berg'],
        ['mine', undefined, true, 'ada'],
      ],
    )
    assert.deepEqual((await read('&before=2020-01-01T00:00:00Z')).body.messages, [])
  })

  test('refuse chats and messages that the platform cannot have', async () => {
    const { host, jid } = await shared()
    for (const chat_jid of [
      'slack-work:lobby',
      'slack-work:T0OTHER/channel/C0TEAM',
      'slack-work:T0TEST/user/U0MIA',
      42,
    ]) {
      const { status, body } = await host.post('/send', { chat_jid, content: 'x', key: `k${chat_jid}` })
      assert.equal(status, 400)
      assert.match(String(body.error), /no chat of/)
    }
    assert.equal((await host.post('/pin', { chat_jid: jid, target_id: 'abc' })).status, 400)
  })

  test('say which right is missing, and how to enter a channel', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('pins.add', 'missing_scope', { needed: 'pins:write', provided: 'chat:write' })
    const pin = await host.post('/pin', { chat_jid: jid, target_id: '1800000000.000001' })
    assert.match(String(pin.body.error), /scope pins:write/)
    platform.refuse('chat.postMessage', 'not_in_channel', {}, 1)
    const sent = await host.post('/send', { chat_jid: jid, content: 'x', key: 'outside' })
    assert.deepEqual([sent.status, /\/invite/.test(String(sent.body.error))], [400, true])
  })
})

const openPane = async (platform: SlackServer, pane: object): Promise<void> => {
  const event = { type: 'assistant_thread_started', assistant_thread: pane, event_ts: '1800000000.000004' }
  const envelope = platform.event(event)
  await until(() => platform.confirmed.has(envelope))
}

suite('the assistant pane', () => {
  const shared = share(SLACK_DM)

  test('is no event, and takes prompts, a title and the status where it was opened last, also after a restart', async (t) => {
    const { host, platform, adapter, restart, jid } = await setUp(t, { channel: SLACK_DM })
    const closed = await host.post('/v1/pane/title', { jid, title: 'Bills' })
    assert.deepEqual([closed.status, closed.body.hint], [501, 'send text instead: send(chatJid, text)'])
    assert.equal((await host.post('/typing', { chat_jid: jid, on: true })).status, 200)
    const pane = { user_id: SLACK_PERSON, context: {}, channel_id: SLACK_DM, thread_ts: '1800000000.000003' }
    await openPane(platform, pane)
    assert.equal(host.received.length, 0)
    await adapter.stop()
    await restart()
    const prompts = [{ title: 'News', message: 'What is new?' }]
    assert.equal((await host.post('/v1/pane/prompts', { jid, prompts })).status, 200)
    assert.equal((await host.post('/v1/pane/title', { jid, title: 'Bills' })).status, 200)
    assert.equal((await host.post('/typing', { chat_jid: jid, on: true, thread_id: '1800000000.000005' })).status, 200)
    const thread = { channel_id: SLACK_DM, thread_ts: pane.thread_ts }
    assert.deepEqual(
      platform.calls.filter(({ method }) => method.startsWith('assistant.')).map(({ params }) => params),
      [
        { ...thread, prompts },
        { ...thread, title: 'Bills' },
        { ...thread, thread_ts: '1800000000.000005', status: 'is typing…' },
      ],
    )
  })

  test('counts as closed if Slack does not know its thread', async () => {
    const { host, platform, jid } = await shared()
    const pane = { user_id: SLACK_PERSON, channel_id: SLACK_DM, thread_ts: '1800000000.000003' }
    await openPane(platform, pane)
    platform.refuse('assistant.threads.setTitle', 'thread_not_found')
    assert.equal((await host.post('/v1/pane/title', { jid, title: 'Bills' })).status, 501)
  })
})

suite('files of people', () => {
  test('are not asked for at other hosts, and a missing right is said in the message', async (t) => {
    const { host, platform } = await setUp(t)
    const file = { id: 'F0AWAY', name: 'a.txt', mimetype: 'text/plain', size: 3, mode: 'hosted' }
    const other = await openSlackServer(t)
    platform.write({ text: 'see', files: [{ ...file, url_private: `${other.url}/files/F0AWAY` }] })
    platform.write({ text: 'see', files: [{ ...file, id: 'F0GONE', url_private: `${platform.url}/files/F0GONE` }] })
    await until(() => host.stored.length === 2)
    assert.deepEqual(
      host.stored.map(({ content }) => content),
      [
        'see\n[the file a.txt is too large to receive, or gone]',
        'see\n[the file a.txt is too large to receive, or gone]',
      ],
    )
    assert.deepEqual(other.downloads, [])
  })
})

suite('the account', () => {
  const access = (url: string, secrets: Record<string, string> = SLACK_TOKENS) => ({
    ...{ settings: {}, secrets, apiUrl: url, signal: new AbortController().signal },
  })
  const refused = (pattern: RegExp) => (error: unknown) => {
    assert.ok(error instanceof PlatformError)
    assert.equal(error.kind, 'refused')
    assert.match(error.message, pattern)
    assert.doesNotMatch(error.message, /stand-in/)
    return true
  }

  test('is checked by both tokens, and shows name, link and remaining steps', async (t) => {
    const platform = await openSlackServer(t)
    const { url } = platform
    const found = {
      name: '@ada (The workspace)',
      inviteUrl: 'https://slack.com/app_redirect?app=A0TESTAPP&team=T0TEST',
      steps: ['The bot reads channels that it is a member of: write /invite @ada there'],
    }
    assert.deepEqual(await checkAccount(access(url)), found)
    platform.scopes = SLACK_SCOPES.filter((scope) => !['pins:write', 'commands'].includes(scope))
    const [step] = (await checkAccount(access(url))).steps ?? []
    assert.match(step ?? '', /Add commands, pins:write at "OAuth & Permissions"/)
  })

  test('with another token is refused without naming it', async (t) => {
    const { url } = await openSlackServer(t)
    const { app_token, bot_token } = SLACK_TOKENS
    await assert.rejects(
      checkAccount(access(url, { app_token, bot_token: 'xoxb-stand-in' })),
      refused(/token of the bot/),
    )
    const other = 'xapp-1-A0TESTAPP-99-stand-in-other'
    await assert.rejects(checkAccount(access(url, { app_token: other, bot_token })), refused(/app-level token/))
    const foreign = 'xapp-1-A0OTHERAPP-99-stand-in'
    await assert.rejects(checkAccount(access(url, { app_token: foreign, bot_token })), refused(/different apps/))
    await assert.rejects(
      checkAccount(access(`http://127.0.0.1:${await freePort()}`)),
      (error) => error instanceof PlatformError && error.kind === 'unavailable',
    )
  })

  test('whose Socket Mode is switched off is refused', async (t) => {
    const { host, platform } = await setUp(t)
    platform.announceEnd('link_disabled')
    await until(async () => (await host.get('/health')).body.status === 'refused')
    assert.match(String((await host.get('/health')).body.detail), /Socket Mode/)
  })
})
