import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { openFakeHost, shareInSuite, startAdapter } from '../../../test/support/adapter-process.ts'
import { runs } from '../../../test/support/part.ts'
import { openTelegramServer, TELEGRAM_GROUP, TELEGRAM_PERSON } from '../../../test/support/telegram-server.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { guard } from '../../lib/fault-boundary.ts'
import { openLog } from '../../lib/log/log.ts'
import { AdapterStore } from '../process/adapter-store.ts'
import { testConnector } from '../process/connector.contract.ts'
import { PlatformError } from '../process/port.ts'
import { checkAccount, openConnector } from './connector.ts'

testConnector({ platform: 'telegram', textMax: 4096, afterLostAnswer: 'unknown', open: (t) => openTelegramServer(t) })

const setUp = async (t: CleanupScope, settings: Record<string, string> = {}, inGroup = true) => {
  const [host, platform] = [await openFakeHost(t), await openTelegramServer(t, { inGroup })]
  const directory = join(tempDir(t), 'adapter')
  mkdirSync(directory)
  const config = { platform: 'telegram', account: 'telegram-work', directory, ...platform.account, settings }
  const adapter = await startAdapter(t, host, config)
  return { host, platform, adapter, jid: `telegram-work:${platform.chat}` }
}
/** One process for the tests of a suite. */
const share = () => {
  const shared = shareInSuite(setUp)
  return async () => {
    const { host, platform } = await shared()
    host.clear()
    platform.clearSent()
    return shared()
  }
}
const draftOf = (jid: string, content: string) => ({ chat_jid: jid, key: 'turn', content, done: false })
const message = (members: object) => ({
  message: { message_id: 7, date: 1_800_000_000, chat: TELEGRAM_GROUP, from: TELEGRAM_PERSON, ...members },
})

suite('events of groups', () => {
  const shared = share()

  test('name the group, its topic and the person, below the account', async () => {
    const { host, platform, jid } = await shared()
    platform.update(message({ text: 'What is new?', is_topic_message: true, message_thread_id: 5 }))
    await until(() => host.stored.length === 1)
    assert.partialDeepStrictEqual(host.stored[0], {
      chat_jid: jid,
      sender: 'telegram:user/42',
      sender_name: 'Mia Berg',
      chat_name: 'The team',
      is_group: true,
      topic: '5',
      timestamp: 1_800_000_000,
    })
    assert.equal(host.stored[0]?.verb, undefined)
  })

  test('are mentions if they name the bot, command it or reply to it', async () => {
    const { host, platform } = await shared()
    const entity = (type: string, offset: number, length: number) => [{ type, offset, length }]
    const own = {
      message_id: 3,
      date: 1,
      chat: TELEGRAM_GROUP,
      from: { id: 123456789, is_bot: true, first_name: 'Ada' },
      text: 'x',
    }
    platform.update(message({ message_id: 1, text: 'Hi @Ada_Test_Bot!', entities: entity('mention', 3, 13) }))
    platform.update(message({ message_id: 2, text: 'Hi @other_person', entities: entity('mention', 3, 13) }))
    platform.update(message({ message_id: 3, text: '/new@ada_test_bot now', entities: entity('bot_command', 0, 17) }))
    platform.update(message({ message_id: 4, text: 'really?', reply_to_message: own }))
    await until(() => host.stored.length === 4)
    assert.deepEqual(
      host.stored.map(({ verb, content }) => [verb, content]),
      [
        ['mention', 'Hi @Ada_Test_Bot!'],
        [undefined, 'Hi @other_person'],
        ['mention', '/new now'],
        ['mention', 'really?'],
      ],
    )
  })

  test('show stickers, polls, places and forwarded messages as text', async () => {
    const { host, platform } = await shared()
    platform.update(message({ message_id: 1, sticker: { file_id: 's', emoji: '🎉' } }))
    platform.update(
      message({ message_id: 2, poll: { question: 'When?', options: [{ text: 'Now' }, { text: 'Later' }] } }),
    )
    platform.update(message({ message_id: 3, location: { latitude: 52.5, longitude: 13.4 } }))
    platform.update(
      message({ message_id: 4, text: 'news', forward_origin: { type: 'hidden_user', sender_user_name: 'Somebody' } }),
    )
    platform.update(message({ message_id: 5, new_chat_members: [{ id: 9, is_bot: false, first_name: 'Noah' }] }))
    await until(() => host.stored.length === 5)
    assert.deepEqual(
      host.stored.map(({ content }) => content),
      ['[sticker 🎉]', '[poll] When?\n- Now\n- Later', '[location] 52.5, 13.4', 'news', 'Noah joined'],
    )
    assert.equal(host.stored[3]?.forwarded_from, 'Somebody')
  })

  test('join the pictures of an album', async () => {
    const { host, platform } = await shared()
    host.behave(503)
    platform.say({ text: 'first' })
    await until(() => host.received.length > 0)
    for (const id of [1, 2])
      platform.update(
        message({
          message_id: id,
          media_group_id: 'album',
          photo: [
            { file_id: 'small', file_size: 1 },
            { file_id: `file-${id}`, file_size: 4 },
          ],
          ...(id === 1 ? { caption: 'two pictures' } : {}),
        }),
      )
    host.behave('ok')
    await until(() => host.stored.length === 2)
    const album = host.stored[1]
    assert.equal(album?.id, '1')
    assert.match(album?.content ?? '', /^two pictures/)
  })

  test('join an album whose pictures arrive one by one', async () => {
    const { host, platform } = await shared()
    const picture = (id: number) =>
      message({
        message_id: id,
        media_group_id: 'slow',
        photo: [{ file_id: `p${id}`, file_size: 4 }],
        caption: `${id}`,
      })
    const polls = () => platform.calls.filter(({ method }) => method === 'getUpdates').length
    platform.update(message({ text: 'before' }))
    await until(() => host.stored.length === 1 && polls() > 0)
    platform.update(picture(50))
    platform.beforeNextPoll(() => platform.update(picture(51)))
    await until(() => host.stored.length > 1)
    assert.deepEqual(
      host.stored.slice(1).map(({ id }) => id),
      ['50'],
    )
    assert.match(host.stored[1]?.content ?? '', /photo-50.*photo-51/s)
  })

  test('are not held up by an update that cannot be read', async () => {
    const { host, platform } = await shared()
    for (const odd of [
      message({ text: 'x', entities: 5 }),
      message({ text: 'x', chat: { id: 1e300, type: 'private' } }),
      { message_reaction: {} },
      { message: 'text' },
    ])
      platform.update(odd)
    platform.update(message({ message_id: 60, text: 'readable' }))
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, 'readable')
  })

  test('come without a file that always breaks off', {
    skip: runs(0, 1) === 0 && 'long part: five attempts',
  }, async (t) => {
    const { host, platform, adapter } = await setUp(t)
    const failed = platform.failFiles()
    platform.say({ text: 'see', file: { name: 'a.txt', type: 'text/plain', bytes: new Uint8Array(100) } })
    await until(() => host.stored.length === 1)
    assert.match(host.stored[0]?.content ?? '', /^see\n\[the file a\.txt /)
    assert.equal(failed.count, 5)
    assert.doesNotMatch(adapter.log(), /stand-in-token/)
  })

  test('of other bots count only where the setting allows it', async (t) => {
    const { host, platform } = await setUp(t, { bots: 'allow' })
    platform.say({ text: 'of a bot', by: 'bot' })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.sender, 'telegram:user/77')
  })

  test('without content or author are skipped', async () => {
    const { host, platform } = await shared()
    for (const odd of [
      {},
      { poll_answer: {} },
      message({}),
      { message: { ...message({}).message, from: undefined, text: 'x' } },
    ])
      platform.update(odd)
    platform.say({ text: 'readable' })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, 'readable')
  })
})

suite('actions at the platform', () => {
  const shared = share()

  test('pin, unpin, react, forward, quote and type, in the topic', async () => {
    const { host, platform, jid } = await shared()
    const { body } = await host.post('/send', {
      chat_jid: jid,
      content: '**bold**',
      key: 'k1',
      thread_id: '5',
      reply_to: '3',
    })
    const target = { chat_jid: jid, target_id: body.id }
    assert.partialDeepStrictEqual(platform.sent[0], {
      method: 'sendRichMessage',
      threadId: '5',
      replyTo: '3',
      text: '**bold**',
    })
    assert.equal((await host.post('/pin', target)).status, 200)
    assert.ok(platform.pinned.has(String(body.id)))
    assert.equal((await host.post('/unpin', target)).status, 200)
    assert.equal((await host.post('/unpin', { chat_jid: jid, all: true })).status, 200)
    assert.equal((await host.post('/like', { ...target, reaction: '🔥' })).status, 200)
    assert.deepEqual(platform.reactions.get(String(body.id)), ['🔥'])
    assert.equal((await host.post('/dislike', target)).status, 200)
    assert.deepEqual(platform.reactions.get(String(body.id)), ['👎'])
    const forward = { source_jid: jid, target_jid: jid, source_msg_id: body.id, comment: 'see this', key: 'k2' }
    assert.equal((await host.post('/forward', forward)).status, 200)
    assert.deepEqual(
      platform.sent.slice(1).map(({ method, text }) => [method, text]),
      [
        ['forwardMessage', ''],
        ['sendRichMessage', 'see this'],
      ],
    )
    const quote = { chat_jid: jid, source_msg_id: body.id, comment: 'well', key: 'k3' }
    assert.equal((await host.post('/quote', quote)).status, 200)
    assert.equal(platform.sent.at(-1)?.replyTo, body.id)
    assert.equal((await host.post('/typing', { chat_jid: jid, on: true, thread_id: '5' })).status, 200)
    assert.deepEqual(platform.calls.at(-1), {
      method: 'sendChatAction',
      params: { chat_id: TELEGRAM_GROUP.id, action: 'typing', message_thread_id: 5 },
    })
    assert.equal((await host.post('/typing', { chat_jid: jid, on: false, thread_id: '5' })).status, 200)
  })

  test('declare what the platform can do, and refuse the rest as unsupported', async () => {
    const { host, jid } = await shared()
    const { repost, post, pane, fetch_history, ...others } = host.capabilities
    assert.deepEqual(
      { repost, post, pane, fetch_history },
      { repost: false, post: false, pane: false, fetch_history: false },
    )
    assert.ok(Object.values(others).every(Boolean), JSON.stringify(others))
    assert.equal((await host.get(`/v1/history?jid=${encodeURIComponent(jid)}&limit=5`)).status, 501)
    assert.equal((await host.post('/repost', { chat_jid: jid, source_msg_id: '1', key: 'k' })).status, 501)
  })

  test('send plain text where the server or the text has no format', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('sendRichMessage', 400, "Bad Request: can't parse entities")
    await host.post('/send', { chat_jid: jid, content: '*odd', key: 'plain 1' })
    platform.forget('sendRichMessage')
    await host.post('/send', { chat_jid: jid, content: 'old server', key: 'plain 2' })
    assert.deepEqual(
      platform.sent.map(({ method, text }) => [method, text]),
      [
        ['sendMessage', '*odd'],
        ['sendMessage', 'old server'],
      ],
    )
  })

  test('send a picture as a photo, else as a document, and speech as a voice message', async () => {
    const { host, platform, jid } = await shared()
    const send = (path: string, type: string, key: string) => {
      const form = new FormData()
      for (const [name, value] of Object.entries({ chat_jid: jid, key, filename: 'a.bin' })) form.set(name, value)
      form.set('file', new File(['bytes'], 'a.bin', { type }))
      return host.post(path, form)
    }
    await send('/send-file', 'image/png', 'file 1')
    platform.refuse('sendPhoto', 400, 'Bad Request: PHOTO_INVALID_DIMENSIONS')
    await send('/send-file', 'image/png', 'file 2')
    await send('/send-file', 'application/pdf', 'file 3')
    await send('/send-voice', 'audio/ogg', 'file 4')
    assert.deepEqual(
      platform.sent.map(({ method }) => method),
      ['sendPhoto', 'sendDocument', 'sendDocument', 'sendVoice'],
    )
  })

  test('name the new chat of a group that has become a supergroup', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('sendRichMessage', 400, 'Bad Request: group chat was upgraded', { migrate_to_chat_id: -100777 })
    const { status, body } = await host.post('/send', { chat_jid: jid, content: 'x', key: 'moved' })
    assert.equal(status, 400)
    assert.match(String(body.error), /the chat is group\/-100777 now/)
  })

  test('delete a message that is gone already', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('deleteMessage', 400, 'Bad Request: message to delete not found')
    assert.equal((await host.post('/delete', { chat_jid: jid, target_id: '5' })).status, 200)
  })

  test('stop typing in a chat that the platform cannot have', async (t) => {
    const { account } = await openTelegramServer(t)
    const stop = new AbortController()
    const faults: unknown[] = []
    const state = new AdapterStore(tempDir(t), () => 0)
    t.after(() => state.close())
    t.mock.timers.enable({ apis: ['setInterval'] })
    const connector = await openConnector({
      ...account,
      ...{ account: 'telegram', state, signal: stop.signal, now: () => 0, setHealth: () => undefined },
      log: await openLog({ to: { write: () => undefined } }),
      receive: async () => 'stored',
      guard: (callback) => guard((error) => void faults.push(error), callback),
    })
    await assert.rejects(async () => connector.actions.typing?.({ chat: 'lobby', on: true }), PlatformError)
    t.mock.timers.tick(10_000)
    stop.abort()
    await connector.close()
    assert.deepEqual(faults, [])
  })

  test('refuse chats and messages that the platform cannot have', async () => {
    const { host, jid } = await shared()
    for (const chat_jid of ['telegram-work:lobby', 'telegram:user/42', 'telegram-work:user/x', 42]) {
      const { status, body } = await host.post('/send', { chat_jid, content: 'x', key: `k${chat_jid}` })
      assert.equal(status, 400)
      assert.match(String(body.error), /no chat of/)
    }
    assert.equal((await host.post('/pin', { chat_jid: jid, target_id: 'abc' })).status, 400)
  })
})

suite('the account', () => {
  const access = (url: string, token: string) => ({
    settings: {},
    secrets: { token },
    apiUrl: url,
    signal: new AbortController().signal,
  })

  test('is checked by its token, and shows name, invite link and remaining steps', async (t) => {
    const { url, account } = await openTelegramServer(t)
    assert.deepEqual(await checkAccount(access(url, account.secrets.token ?? '')), {
      name: '@ada_test_bot (Ada)',
      inviteUrl: 'https://t.me/ada_test_bot?startgroup=true',
      steps: [
        'In groups the bot sees only mentions, replies and commands. To let it read everything: /setprivacy, Disable, at @BotFather',
      ],
    })
  })

  test('with another token is refused without naming it', async (t) => {
    const { url } = await openTelegramServer(t)
    await assert.rejects(checkAccount(access(url, '1:wrong')), (error) => {
      assert.ok(error instanceof PlatformError)
      assert.equal(error.kind, 'refused')
      assert.doesNotMatch(error.message, /1:wrong/)
      return true
    })
    await assert.rejects(
      checkAccount(access('http://127.0.0.1:9', '1:x')),
      (error) => error instanceof PlatformError && error.kind === 'unavailable',
    )
  })
})

suite('drafts', () => {
  test('are not shown if the account says so', async (t) => {
    const { host } = await setUp(t, { drafts: 'off' })
    assert.equal(host.capabilities.draft, false)
  })

  test('pause when the platform has had too many, and the answer does not wait', async (t) => {
    const { host, platform, jid } = await setUp(t)
    platform.refuse('sendRichMessage', 429, 'Too Many Requests', { retry_after: 3600 })
    await host.post('/draft', draftOf(jid, 'so'))
    await until(() => platform.calls.some(({ method }) => method === 'sendRichMessage'))
    await host.post('/draft', draftOf(jid, 'so far'))
    const { status } = await host.post('/send', { chat_jid: jid, key: 'k', turn_id: 'turn', content: 'done' })
    assert.equal(status, 200)
    assert.deepEqual(
      platform.sent.map(({ text }) => text),
      ['done'],
    )
    assert.equal(platform.calls.filter(({ method }) => method === 'editMessageText').length, 0)
  })
})

suite('buttons', () => {
  test('are answered at the platform when svc has the press', async (t) => {
    const { host, platform, jid } = await setUp(t)
    const buttons = [{ id: 'yes', label: 'Yes', style: 'danger' }]
    const { body } = await host.post('/send', { chat_jid: jid, key: 'k', content: 'Shall I?', buttons })
    const callsOf = (name: string) => platform.calls.filter(({ method }) => method === name)
    assert.deepEqual(callsOf('sendRichMessage')[0]?.params.reply_markup, {
      inline_keyboard: [[{ text: 'Yes', callback_data: 'yes', style: 'danger' }]],
    })
    host.behave(503)
    platform.press?.(String(body.id), 'yes')
    await until(() => host.received.length > 0)
    assert.equal(callsOf('answerCallbackQuery').length, 0)
    host.behave('ok')
    await until(() => callsOf('answerCallbackQuery').length === 1)
    assert.equal(host.stored[0]?.action, 'yes')
  })

  test('of messages without a chat are ignored', async (t) => {
    const { host, platform } = await setUp(t)
    platform.update({ callback_query: { id: '5', from: TELEGRAM_PERSON, chat_instance: '-7', data: 'yes' } })
    platform.update(message({ text: 'next' }))
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, 'next')
  })
})
