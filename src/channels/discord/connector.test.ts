import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { openFakeHost, shareInSuite, startAdapter } from '../../../test/support/adapter-process.ts'
import {
  DISCORD_BOT,
  DISCORD_CHANNEL,
  DISCORD_DIRECT,
  DISCORD_GUILD,
  DISCORD_PERSON,
  DISCORD_ROLE,
  DISCORD_THREAD,
  openDiscordServer,
} from '../../../test/support/discord-server.ts'
import { freePort } from '../../../test/support/free-port.ts'
import { type CleanupScope, tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { openLog } from '../../lib/log/log.ts'
import { AdapterStore } from '../process/adapter-store.ts'
import { testConnector } from '../process/connector.contract.ts'
import { type ConnectorContext, PlatformError } from '../process/port.ts'
import { checkAccount } from './connector.ts'
import { DiscordApi } from './discord-api.ts'
import { MessageActions } from './message-actions.ts'

testConnector({ platform: 'discord', textMax: 2000, afterLostAnswer: 'sent once', open: (t) => openDiscordServer(t) })

const setUp = async (t: CleanupScope, settings: Record<string, string> = {}, inGuild = true) => {
  const [host, platform] = [await openFakeHost(t), await openDiscordServer(t, { inGuild })]
  const directory = join(tempDir(t), 'adapter')
  mkdirSync(directory)
  const config = { platform: 'discord', account: 'discord-work', directory, ...platform.account, settings }
  const restart = () => startAdapter(t, host, config)
  const adapter = await restart()
  await until(() => platform.logins.identified > 0)
  return { host, platform, adapter, restart, jid: `discord-work:${platform.chat}` }
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
type Subject = Awaited<ReturnType<typeof setUp>>
const statusOf = async (host: Subject['host']): Promise<unknown> => (await host.get('/health')).body.status
const textsOf = ({ stored }: Subject['host']) => stored.map(({ content }) => content)
const interaction = (id: string, members: object) => ({
  ...{ id: `90000000000000000${id}`, application_id: DISCORD_BOT.id, token: 'aW50ZXJhY3Rpb24', version: 1 },
  ...{ guild_id: DISCORD_GUILD, channel_id: DISCORD_CHANNEL, member: { nick: 'Mia B.', user: DISCORD_PERSON } },
  ...members,
})

suite('events of servers', () => {
  const shared = share()

  test('name the channel and the person, below the account', async () => {
    const { host, platform, jid } = await shared()
    platform.message({ id: '1180000000000000000', content: 'What is new?' })
    await until(() => host.stored.length === 1)
    assert.partialDeepStrictEqual(host.stored[0], {
      chat_jid: jid,
      sender: 'discord:user/420000000000000042',
      sender_name: 'Mia Berg',
      chat_name: '#general',
      is_group: true,
      timestamp: 1_701_404_323,
    })
    assert.deepEqual([host.stored[0]?.verb, host.stored[0]?.topic], [undefined, undefined])
  })

  test('of threads belong to the channel, with the thread as topic', async () => {
    const { host, platform, jid } = await shared()
    const { id } = platform.message({ channel_id: DISCORD_THREAD, content: 'in the thread' })
    platform.react?.(id, '🎉')
    await until(() => host.stored.length === 2)
    for (const { chat_jid, topic, chat_name } of host.stored)
      assert.deepEqual([chat_jid, topic, chat_name], [jid, DISCORD_THREAD, '#general'])
  })

  test('are mentions if they name the bot or its role, or reply to it', async () => {
    const { host, platform } = await shared()
    const own = { id: '1180000000000000001', author: DISCORD_BOT, content: 'x', mentions: [] }
    platform.message({ content: `Hi <@${DISCORD_BOT.id}>!`, mentions: [DISCORD_BOT] })
    platform.message({ content: `Hi <@&${DISCORD_ROLE}>`, mention_roles: [DISCORD_ROLE] })
    platform.message({ content: 'Hi <@&510000000000000051>', mention_roles: ['510000000000000051'] })
    platform.message({ content: `<@${DISCORD_BOT.id}> /new now`, mentions: [DISCORD_BOT] })
    platform.message({
      ...{ type: 19, content: 'really?', message_reference: { message_id: own.id }, referenced_message: own },
    })
    await until(() => host.stored.length === 5)
    assert.deepEqual(
      host.stored.map(({ verb, content }) => [verb, content]),
      [
        ['mention', 'Hi @ada_test!'],
        ['mention', 'Hi @Ada'],
        [undefined, 'Hi @team'],
        ['mention', '/new now'],
        ['mention', 'really?'],
      ],
    )
  })

  test('show people, channels, emoji and times by name', async () => {
    const { host, platform } = await shared()
    const content = `<@!${DISCORD_PERSON.id}> <#${DISCORD_CHANNEL}> <#999999999999999999> <a:party:600000000000000006> <t:0:R> </new:700000000000000007>`
    platform.message({ content, mentions: [{ ...DISCORD_PERSON, member: { nick: 'Mia B.' } }] })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, '@Mia B. #general #999999999999999999 :party: 1970-01-01T00:00:00.000Z /new')
  })

  test('show stickers, polls, previews, joins and forwarded messages as text', async () => {
    const { host, platform } = await shared()
    platform.message({ sticker_items: [{ id: '1', name: 'Wave', format_type: 1 }] })
    platform.message({
      poll: { question: { text: 'When?' }, answers: [{ answer_id: 1, poll_media: { text: 'Now' } }] },
    })
    platform.message({ embeds: [{ type: 'rich', title: 'A title', description: 'and more' }] })
    platform.message({ type: 7 })
    platform.message({
      message_reference: { type: 1, message_id: '1180000000000000001', channel_id: DISCORD_CHANNEL },
      message_snapshots: [{ message: { type: 0, content: 'news', attachments: [], embeds: [] } }],
    })
    platform.message({ type: 6, content: '' })
    platform.message({ content: 'last' })
    await until(() => host.stored.length === 6)
    assert.deepEqual(textsOf(host), [
      '[sticker Wave]',
      '[poll] When?\n- Now',
      'A title\nand more',
      'Mia Berg joined',
      'news',
      'last',
    ])
    assert.equal(host.stored[4]?.forwarded_from, '#general')
  })

  test('leave out updates that are no edits, and name all messages of a deletion', async () => {
    const { host, platform } = await shared()
    const data = platform.message({ content: 'see https://example.com' })
    platform.dispatch('MESSAGE_UPDATE', { ...data, guild_id: DISCORD_GUILD, embeds: [{ title: 'Example' }] })
    await platform.edit?.(data.id, 'edited')
    const ids = ['1180000000000000001', '1180000000000000002']
    platform.dispatch('MESSAGE_DELETE_BULK', { ids, channel_id: DISCORD_CHANNEL, guild_id: DISCORD_GUILD })
    await until(() => host.stored.length === 4)
    assert.deepEqual(
      host.stored.slice(1).map(({ edits, content, deletes }) => [edits, content, deletes]),
      [[data.id, 'edited', undefined], ...ids.map((id) => [undefined, undefined, id])],
    )
  })

  test('do not fetch files of other addresses, and say which are missing', async () => {
    const { host, platform } = await shared()
    const attachment = { id: '1', filename: 'a.txt', content_type: 'text/plain; charset=utf-8', size: 3 }
    platform.message({
      content: 'see',
      attachments: [
        { ...attachment, url: 'http://127.0.0.1:9/a.txt' },
        { ...attachment, filename: 'b.bin', size: 21 * 1024 * 1024, url: `${platform.url}/attachments/b.bin` },
      ],
    })
    await until(() => host.stored.length === 1)
    assert.equal(
      host.stored[0]?.content,
      'see\n[the file a.txt is too large to receive, or gone]\n[the file b.bin is too large to receive, or gone]',
    )
  })

  test('bring voice messages', async () => {
    const { host, platform } = await shared()
    await platform.say({ file: { name: 'voice-message.ogg', type: 'audio/ogg', bytes: new Uint8Array(10) } })
    await until(() => host.stored.length === 1)
    assert.partialDeepStrictEqual(host.stored[0]?.attachments?.[0], {
      mime: 'audio/ogg',
      filename: 'voice-message.ogg',
    })
  })

  test('are not held up by one that cannot be read', async () => {
    const { host, platform, adapter } = await shared()
    platform.dispatch('MESSAGE_CREATE', { channel_id: DISCORD_CHANNEL, guild_id: 5, author: 'x', mentions: 7 })
    platform.dispatch('MESSAGE_REACTION_ADD', { channel_id: DISCORD_CHANNEL, emoji: [] })
    platform.dispatch('GUILD_CREATE', { channels: 'none', threads: [null, { id: {} }] })
    platform.frame('no JSON')
    platform.frame('{"op":0,"t":7,"s":"x","d":null}')
    platform.message({ content: 'readable' })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.content, 'readable')
    assert.equal(adapter.child.exitCode, null)
  })

  test('of other bots count only where the setting allows it', async (t) => {
    const { host, platform } = await setUp(t, { bots: 'allow' })
    await platform.say({ text: 'of a bot', by: 'bot' })
    await until(() => host.stored.length === 1)
    assert.equal(host.stored[0]?.sender, 'discord:user/770000000000000077')
  })
})

suite('commands and buttons', () => {
  const shared = share()

  test('are registered once, and answered to the person alone when svc has them', async (t) => {
    const { host, platform, adapter, restart, jid } = await setUp(t)
    assert.deepEqual(
      platform.commands.map(({ name }) => name),
      ['new', 'stop', 'status'],
    )
    const data = { id: '1', type: 1, name: 'new', options: [{ type: 3, name: 'message', value: 'plan a trip' }] }
    host.behave(503)
    platform.dispatch('INTERACTION_CREATE', interaction('1', { type: 2, data }))
    await until(() => host.received.length > 0)
    assert.equal(platform.answers.length, 0)
    host.behave('ok')
    await until(() => platform.answers.length === 1)
    assert.partialDeepStrictEqual(host.stored[0], {
      chat_jid: jid,
      id: '900000000000000001',
      content: '/new plan a trip',
      sender: 'discord:user/420000000000000042',
      sender_name: 'Mia B.',
      verb: 'mention',
    })
    assert.partialDeepStrictEqual(platform.answers[0]?.body, { type: 4, data: { flags: 64 } })
    await adapter.stop()
    await restart()
    const registrations = platform.calls.filter(({ path }) => path.endsWith('/commands'))
    assert.equal(registrations.length, 1)
  })

  test('that are answered too late do no harm', async () => {
    const { host, platform } = await shared()
    platform.refuse('POST /interactions/', 404, { message: 'Unknown interaction', code: 10_062 })
    platform.dispatch('INTERACTION_CREATE', interaction('2', { type: 2, data: { type: 1, name: 'stop' } }))
    platform.message({ content: 'after' })
    await until(() => host.stored.length === 2)
    assert.deepEqual(textsOf(host), ['/stop', 'after'])
  })

  test('report which was pressed, and are acknowledged when svc has it', async () => {
    const { host, platform } = await shared()
    const press = { type: 3, data: { component_type: 2, custom_id: 'yes' }, message: { id: '1180000000000000001' } }
    platform.dispatch('INTERACTION_CREATE', interaction('3', press))
    await until(() => platform.answers.length === 1)
    assert.partialDeepStrictEqual(host.stored, [
      { verb: 'action', action: 'yes', reply_to: '1180000000000000001', id: '900000000000000003' },
    ])
    assert.deepEqual(platform.answers[0]?.body, { type: 6 })
  })

  test('are below a message, five in a row, until it is edited', async (t) => {
    const { platform, messages } = await openMessages(t)
    const buttons = ['yes', 'no', 'later', 'never', 'ask', 'stop'].map((id) => ({ id, label: id }))
    const out = { chat: platform.chat, nonce: 'a'.repeat(32) }
    const id = String(await messages.actions.sendText?.({ ...out, text: 'Go on?', buttons }))
    assert.deepEqual(rowLengths(platform.sent[0]?.body.components), [5, 1])
    assert.deepEqual(
      platform.sent.map((sent) => sent.buttons),
      [['yes', 'no', 'later', 'never', 'ask', 'stop']],
    )
    await messages.actions.edit?.({ chat: platform.chat, id, text: 'Done.' })
    assert.deepEqual([platform.sent[0]?.text, platform.sent[0]?.buttons], ['Done.', []])
  })
})

suite('actions at the platform', () => {
  const shared = share()

  test('mention no one, and reply, pin, unpin, react, forward, quote and type', async () => {
    const { host, platform, jid } = await shared()
    const { body } = await host.post('/send', { chat_jid: jid, content: '**bold** @everyone', key: 'k1' })
    assert.deepEqual(platform.sent[0]?.body.allowed_mentions, { parse: [], replied_user: false })
    const target = { chat_jid: jid, target_id: body.id }
    assert.equal((await host.post('/pin', target)).status, 200)
    assert.ok(platform.pinned.has(String(body.id)))
    assert.equal((await host.post('/unpin', target)).status, 200)
    assert.equal(platform.pinned.size, 0)
    await host.post('/pin', target)
    assert.equal((await host.post('/unpin', { chat_jid: jid, all: true })).status, 200)
    assert.equal(platform.pinned.size, 0)
    assert.equal((await host.post('/like', { ...target, reaction: '🔥' })).status, 200)
    assert.equal((await host.post('/dislike', target)).status, 200)
    assert.deepEqual(platform.reactions.get(String(body.id)), ['🔥', '👎'])
    const odd = await host.post('/like', { ...target, reaction: 'great' })
    assert.equal(odd.status, 400)
    assert.match(String(odd.body.error), /only emoji/)
    const forward = { source_jid: jid, target_jid: jid, source_msg_id: body.id, comment: 'see this', key: 'k2' }
    assert.equal((await host.post('/forward', forward)).status, 200)
    assert.deepEqual(platform.sent[1]?.body.message_reference, {
      ...{ type: 1, channel_id: DISCORD_CHANNEL, message_id: body.id },
    })
    assert.equal(platform.sent[2]?.text, 'see this')
    assert.equal(
      (await host.post('/quote', { chat_jid: jid, source_msg_id: body.id, comment: 'well', key: 'k3' })).status,
      200,
    )
    assert.equal(platform.sent.at(-1)?.replyTo, body.id)
    assert.equal((await host.post('/typing', { chat_jid: jid, on: true, thread_id: DISCORD_THREAD })).status, 200)
    assert.equal(platform.calls.at(-1)?.path, `/channels/${DISCORD_THREAD}/typing`)
    assert.equal((await host.post('/typing', { chat_jid: jid, on: false, thread_id: DISCORD_THREAD })).status, 200)
  })

  test('find messages of threads without being told the thread', async () => {
    const { host, platform, jid } = await shared()
    const { body } = await host.post('/send', { chat_jid: jid, content: 'x', key: 't1', thread_id: DISCORD_THREAD })
    assert.equal(platform.sent[0]?.threadId, DISCORD_THREAD)
    const target = { chat_jid: jid, target_id: body.id }
    assert.equal((await host.post('/edit', { ...target, content: 'y' })).status, 200)
    assert.equal((await host.post('/like', target)).status, 200)
    assert.equal((await host.post('/delete', target)).status, 200)
    const { id } = platform.message({ channel_id: DISCORD_THREAD, content: 'of a person' })
    await until(() => host.stored.some((event) => event.id === id))
    await host.post('/send', { chat_jid: jid, content: 'an answer', key: 't2', reply_to: id })
    assert.deepEqual([platform.sent[0]?.threadId, platform.sent[0]?.replyTo], [DISCORD_THREAD, id])
  })

  test('show tables as code, and images and deep headings as what Discord has', async () => {
    const { host, platform, jid } = await shared()
    const content = 'See:\n\n| a | b |\n|---|:-:|\n| **one** | 2 |\n\n#### Deep\n![pic](https://example.com/a.png)'
    await host.post('/send', { chat_jid: jid, content, key: 'f1' })
    assert.equal(
      platform.sent[0]?.text,
      'See:\n\n```\na    b\n---  -\none  2\n```\n\n**Deep**\n[pic](https://example.com/a.png)',
    )
  })

  test('declare what the platform can do, and refuse the rest as unsupported', async () => {
    const { host, jid } = await shared()
    const { repost, post, pane, ...others } = host.capabilities
    assert.deepEqual({ repost, post, pane }, { repost: false, post: false, pane: false })
    assert.ok(Object.values(others).every(Boolean), JSON.stringify(others))
    assert.equal((await host.post('/repost', { chat_jid: jid, source_msg_id: '1', key: 'k' })).status, 501)
  })

  test('read the history by pages, before a time, oldest first', async () => {
    const { host, platform, jid } = await shared()
    for (let at = 0; at < 130; at++)
      platform.missed({ content: `m${at}`, id: String(1180000000000000000n + BigInt(at) * (1000n << 22n)) })
    const read = async (query: string) =>
      (await host.get(`/v1/history?jid=${encodeURIComponent(jid)}&${query}`)).body.messages as { content: string }[]
    const all = await read('limit=120')
    assert.deepEqual([all.length, all[0]?.content, all.at(-1)?.content], [120, 'm10', 'm129'])
    const before = await read(`limit=3&before=${new Date(1_701_404_333_000).toISOString()}`)
    assert.ok(before.length === 3 && before.every(({ content }) => Number(content.slice(1)) <= 10))
    assert.partialDeepStrictEqual(all[0], { sender: 'discord:user/420000000000000042', sender_name: 'Mia Berg' })
  })

  test('send speech as a voice message if it is Opus, else as a file', async () => {
    const { host, platform, jid } = await shared()
    const send = (bytes: Uint8Array<ArrayBuffer> | string, key: string) => {
      const form = new FormData()
      for (const [name, value] of Object.entries({ chat_jid: jid, key, filename: 'a.ogg' })) form.set(name, value)
      form.set('file', new File([bytes], 'a.ogg', { type: 'audio/ogg' }))
      return host.post('/send-voice', form)
    }
    assert.equal((await send(opusFile(), 'v1')).status, 200)
    assert.equal((await send('no audio', 'v2')).status, 200)
    const [voice, file] = platform.sent
    assert.equal(voice?.body.flags, 8192)
    assert.partialDeepStrictEqual(voice?.body.attachments, [{ id: 0, duration_secs: 1, waveform: 'gP8=' }])
    assert.equal(file?.body.flags, undefined)
  })

  test('are repeated while the platform certainly knows the nonce, and no longer', async (t) => {
    const { messages, setNow } = await openMessages(t)
    const out = { chat: 'dm/400000000000000004', nonce: 'a'.repeat(32) }
    setNow(1_000_000)
    assert.equal(await messages.repeats?.(out, { beganAt: 900_000 }), undefined)
    for (const beganAt of [800_000, 1_000_001])
      await assert.rejects(async () => messages.repeats?.(out, { beganAt }), /it may have been sent/)
  })

  test('name the server or the chat that they lack', async () => {
    const { host, platform, jid } = await shared()
    platform.refuse('/messages', 403, { message: 'Missing Permissions', code: 50_013 })
    const { status, body } = await host.post('/send', { chat_jid: jid, content: 'x', key: 'p1' })
    assert.equal(status, 400)
    assert.match(String(body.error), /Missing Permissions \(50013\)/)
    for (const chat_jid of ['discord-work:lobby', 'discord:dm/400000000000000004', 'discord-work:dm/x', 42])
      assert.equal((await host.post('/send', { chat_jid, content: 'x', key: `k${chat_jid}` })).status, 400)
    assert.equal((await host.post('/pin', { chat_jid: jid, target_id: 'abc' })).status, 400)
  })

  test('delete a message that is gone already', async () => {
    const { host, jid } = await shared()
    assert.equal((await host.post('/delete', { chat_jid: jid, target_id: '1180000000000000009' })).status, 200)
  })
})

suite('requests that Discord refuses', () => {
  test('do not hold up events, or end the process', async (t) => {
    const { host, platform, adapter } = await setUp(t)
    platform.refuse(`/channels/${DISCORD_CHANNEL}`, 400, { code: 50_035, message: 'Invalid Form Body' })
    platform.message({ content: 'in a channel that cannot be read' })
    await until(() => host.stored.length === 1)
    assert.equal(adapter.child.exitCode, null)
  })

  test('leave out the history of a channel that cannot be read', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    await platform.say({ text: 'before' })
    await until(() => host.stored.length === 1)
    await adapter.stop()
    platform.endSessions()
    platform.missed({ content: 'missed' })
    platform.refuse(`/channels/${DISCORD_CHANNEL}/messages`, 400, { code: 50_035, message: 'Invalid Form Body' })
    const { child } = await restart()
    await until(() => platform.logins.identified === 2)
    platform.message({ content: 'after' })
    await until(() => host.stored.length === 2)
    assert.deepEqual([textsOf(host), child.exitCode], [['before', 'after'], null])
  })

  test('for a while are repeated after the time that Discord says, also after many', async (t) => {
    const { account } = await openDiscordServer(t)
    const api = new DiscordApi({ ...account, signal: new AbortController().signal })
    const began = performance.now()
    await api.pauseAfter(new PlatformError('rate_limited', 'too many', { retryAfterS: 1 }), 5)
    const ms = performance.now() - began
    assert.ok(ms >= 990 && ms < 10_000, String(ms))
  })

  test('because of the token show until it is taken again', async (t) => {
    const { host, platform, jid } = await setUp(t)
    platform.refuse('/messages', 401, { code: 0, message: '401: Unauthorized' })
    const send = (key: string) => host.post('/send', { chat_jid: jid, key, content: 'hello' })
    assert.notEqual((await send('one')).status, 200)
    assert.equal(await statusOf(host), 'refused')
    assert.equal((await send('two')).status, 200)
    assert.equal(await statusOf(host), 'ok')
  })
})

suite('a connection', () => {
  test('is resumed after a break and after a restart', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    await platform.say({ text: 'one' })
    await until(() => host.stored.length === 1)
    platform.disconnect(4000)
    await platform.say({ text: 'two' })
    await until(() => host.stored.length === 2)
    await adapter.stop()
    await platform.say({ text: 'three' })
    await restart()
    await until(() => host.stored.length === 3)
    assert.deepEqual(textsOf(host), ['one', 'two', 'three'])
    assert.deepEqual(platform.logins, { identified: 1, resumed: 2 })
    assert.equal(await statusOf(host), 'ok')
  })

  test('that cannot be resumed is filled from the history, once and in order', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    await platform.say({ text: 'before' })
    platform.message({ channel_id: DISCORD_DIRECT, content: 'direct before' })
    await until(() => host.stored.length === 2)
    await adapter.kill()
    platform.endSessions()
    const count = 230
    for (let at = 0; at < count; at++) platform.missed({ content: `missed ${at}` })
    platform.missed({ channel_id: DISCORD_THREAD, content: 'missed in a thread' })
    platform.missed({ channel_id: DISCORD_DIRECT, content: 'missed directly' })
    platform.missed({ content: 'own', author: DISCORD_BOT })
    await restart()
    await until(() => platform.logins.identified === 2)
    platform.message({ content: 'after' })
    await until(() => host.stored.length === count + 5)
    const ofChannel = host.stored.filter(({ chat_jid, topic }) => chat_jid.endsWith(DISCORD_CHANNEL) && !topic)
    assert.deepEqual(
      ofChannel.map(({ content }) => content),
      ['before', ...Array.from({ length: count }, (_, at) => `missed ${at}`), 'after'],
    )
    assert.equal(host.stored.find(({ content }) => content === 'missed in a thread')?.topic, DISCORD_THREAD)
    assert.ok(textsOf(host).includes('missed directly'))
  })

  test('that ends while messages are read from the history goes on with the next', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    await platform.say({ text: 'before' })
    await until(() => host.stored.length === 1)
    await adapter.kill()
    platform.endSessions()
    for (let at = 0; at < 120; at++) platform.missed({ content: `missed ${at}` })
    const second = await restart()
    await until(() => host.stored.length > 50)
    await second.kill()
    await restart()
    await until(() => host.stored.length === 121)
    assert.equal(new Set(textsOf(host)).size, 121)
  })

  test('that Discord ends soon after its start is opened again at longer intervals', async (t) => {
    const { platform } = await setUp(t)
    const logins = (): number => platform.logins.identified + platform.logins.resumed
    const times: number[] = []
    for (let count = 1; count <= 4; count++) {
      await until(() => logins() === count)
      times.push(Date.now())
      platform.disconnect(4000)
    }
    const [first = 0, second = 0, third = 0, fourth = 0] = times
    assert.ok(third - second > second - first && fourth - third > 2000, times.join(' '))
  })

  test('without the intent for contents is refused with what to turn on', async (t) => {
    const { host, platform, adapter, restart } = await setUp(t)
    await adapter.kill()
    platform.endSessions()
    platform.setFlags(0)
    const again = await restart()
    await until(async () => (await statusOf(host)) === 'refused')
    assert.match(String((await host.get('/health')).body.detail), /turn on "Message Content Intent"/)
    const before = platform.calls.length
    platform.setFlags(1 << 18)
    assert.equal(platform.calls.length, before)
    assert.equal(again.child.exitCode, null)
  })

  test('waits while svc takes nothing, and resumes when there is room again', async (t) => {
    const { host, platform } = await setUp(t)
    host.behave(503)
    const count = 1100
    for (let at = 0; at < count; at++) platform.message({ content: `${at}` })
    await until(() => host.received.length > 0)
    host.behave('ok')
    await until(() => host.stored.length === count)
    assert.deepEqual(
      textsOf(host),
      Array.from({ length: count }, (_, at) => `${at}`),
    )
    assert.ok(platform.logins.resumed > 0)
  })
})

suite('a process that stops', () => {
  test('ends also while it waits for svc to take events', async (t) => {
    const { host, platform, adapter } = await setUp(t)
    host.behave(503)
    for (let at = 0; at < 1100; at++) platform.message({ content: `${at}` })
    // By the third attempt the adapter has read all of them, and left the connection.
    await until(() => host.received.length >= 3)
    assert.equal(await adapter.stop(), 0)
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
    const platform = await openDiscordServer(t)
    const check = () => checkAccount(access(platform.url, platform.account.secrets.token ?? ''))
    assert.deepEqual(await check(), {
      name: 'ada_test (Ada)',
      inviteUrl:
        'https://discord.com/oauth2/authorize?client_id=123456789012345678&scope=bot+applications.commands&permissions=2322443435887680',
      steps: [],
    })
    platform.setFlags(0)
    assert.match(String((await check()).steps), /Turn on "Message Content Intent"/)
  })

  test('with another token is refused without naming it', async (t) => {
    const { url } = await openDiscordServer(t)
    await assert.rejects(checkAccount(access(url, 'wrong-token')), (error) => {
      assert.ok(error instanceof PlatformError)
      assert.equal(error.kind, 'refused')
      assert.doesNotMatch(error.message, /wrong-token/)
      return true
    })
    await assert.rejects(
      checkAccount(access(`http://127.0.0.1:${await freePort()}`, 'x')),
      (error) => error instanceof PlatformError && error.kind === 'unavailable',
    )
  })
})

/** The actions without a process. */
async function openMessages(t: CleanupScope) {
  const platform = await openDiscordServer(t)
  const state = new AdapterStore(tempDir(t), () => 0)
  t.after(() => state.close())
  let now = 0
  const context: ConnectorContext = {
    ...platform.account,
    ...{ account: 'discord', state, signal: new AbortController().signal, now: () => now },
    log: await openLog({ to: { write: () => undefined } }),
    receive: async () => 'stored',
    setHealth: () => undefined,
    guard: (callback) => callback,
  }
  const messages = new MessageActions({ context, api: new DiscordApi(context), started: () => undefined })
  t.after(() => messages.close())
  return { platform, messages, setNow: (ms: number) => (now = ms) }
}

function rowLengths(rows: unknown): unknown[] {
  return Array.isArray(rows) ? rows.map(({ components }) => components.length) : []
}

/** One second: two headers, and two packets of which the second is twice as large. */
function opusFile(): Uint8Array<ArrayBuffer> {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0, 'latin1')
  head.writeUInt16LE(312, 10)
  const packets = [head, Buffer.from('OpusTags'), Buffer.alloc(50), Buffer.alloc(100)]
  const pages = packets.map((packet, at) => {
    const header = Buffer.alloc(28)
    header.write('OggS', 0, 'latin1')
    header.writeBigInt64LE(at === 3 ? 48_312n : 0n, 6)
    header[26] = 1
    header[27] = packet.length
    return Buffer.concat([header, packet])
  })
  return new Uint8Array(Buffer.concat(pages))
}
