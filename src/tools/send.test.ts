import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { finishTurn, startTurn } from '../../test/support/turns.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { entryId, postInRoom } from '../core/delivery/sandbox-rooms.ts'
import { findLiveEngagement } from '../core/routing/engagements.ts'
import { sendTools } from './send.ts'

onEveryEngine('send and reply', (engine) => {
  test('deliver a message once, with its key, and record it as sent', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    assert.equal(await tools.call('send', { chatJid: ROOM, text: 'hello' }), 'ok')
    const [message, ...more] = await here.said()
    assert.equal(more.length, 0)
    assert.deepEqual(
      [message?.state, message?.platform_id, message?.folder, message?.content, message?.attempts],
      ['sent', 'fake-1', 'team', 'hello', 1],
    )
    assert.deepEqual(
      here.fake.calls.map(({ action, given }) => [action, given.jid, given.content, given.key]),
      [['send', ROOM, 'hello', message?.id]],
    )
  })

  test('put a reply into the thread of the turn, but not a new message', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const turn = await startTurn(t, here, {
      folder: 'team',
      jid: ROOM,
      topic: 't7',
      envelope: { platform_id: 'p-1' },
    })
    const tools = await here.tools()
    await tools.call('send', { chatJid: ROOM, text: 'one' })
    await tools.call('reply', { chatJid: ROOM, text: 'two' })
    await tools.call('reply', { chatJid: ROOM, text: 'three' })
    await tools.call('reply', { chatJid: ROOM, text: 'four', replyToId: 'p-1' })
    await tools.call('reply', { chatJid: ROOM, text: 'five', replyToId: turn.id })
    await tools.call('reply', { chatJid: ROOM, text: 'six', replyToId: 'known-there-only' })
    assert.deepEqual(
      here.fake.calls.map(({ given }) => [given.content, given.replyTo, given.threadId, given.turnId]),
      [
        ['one', undefined, undefined, turn.id],
        ['two', 'p-1', 't7', turn.id],
        ['three', 'fake-2', 't7', turn.id],
        ['four', 'p-1', 't7', turn.id],
        ['five', 'p-1', 't7', turn.id],
        ['six', 'known-there-only', 't7', turn.id],
      ],
    )
    assert.deepEqual(
      (await here.said()).map(({ topic }) => topic),
      ['', 't7', 't7', 't7', 't7', 't7'],
    )
  })

  test('put a reply in another chat outside the thread of the turn', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await startTurn(t, here, { folder: 'team', jid: 'web:team', topic: 't7' })
    await (await here.tools()).call('reply', { chatJid: ROOM, text: 'over here' })
    assert.deepEqual(
      here.fake.calls.map(({ given }) => [given.replyTo, given.threadId]),
      [[undefined, undefined]],
    )
  })

  test('do not take over a chat of a folder below, which only its own folder engages', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const jid = 'fake:room/sub'
    const engaged = () => here.host.engine.read((tx) => findLiveEngagement(tx, jid, '', here.clock.now()))
    for (const tool of ['send', 'reply'])
      assert.equal(await (await here.tools()).call(tool, { chatJid: jid, text: 'from above' }), 'ok')
    assert.equal(await engaged(), undefined)
    await (await here.tools('team/sub')).call('send', { chatJid: jid, text: 'from its own folder' })
    assert.equal(await engaged(), 'team/sub')
    await (await here.tools()).call('send', { chatJid: jid, text: 'from above' })
    assert.equal(await engaged(), 'team/sub')
    assert.deepEqual(
      here.fake.calls.map(({ given }) => given.content),
      ['from above', 'from above', 'from its own folder', 'from above'],
    )
  })

  test('engage the chat with the folder, except in scheduled turns', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const engaged = () => here.host.engine.read((tx) => findLiveEngagement(tx, ROOM, '', here.clock.now()))
    const timed = await startTurn(t, here, {
      folder: 'team',
      jid: ROOM,
      sender: 'timed',
      envelope: { task_id: 'task-1', as_folder: 'team' },
    })
    const tools = await here.tools()
    await tools.call('send', { chatJid: ROOM, text: 'good morning' })
    assert.equal(await engaged(), undefined)
    await finishTurn(t, here, timed)
    await tools.call('send', { chatJid: ROOM, text: 'by the way' })
    assert.equal(await engaged(), 'team')
  })

  test("add a frame to the round of a link's chat, in its topic", async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const signals: string[] = []
    here.host.signals.on((keys = []) => signals.push(...keys))
    const turn = await startTurn(t, here, { folder: 'team', jid: 'web:team', topic: 'q', hasRound: true })
    const tools = await here.tools()
    assert.equal(await tools.call('reply', { chatJid: 'web:team', text: 'here' }), 'ok')
    assert.equal(await tools.call('send', { chatJid: 'web:team', text: 'there' }), 'ok')
    assert.deepEqual(
      (await here.said()).map(({ state, content, topic, turn_id }) => [state, content, topic, turn_id]),
      [
        ['sent', 'here', 'q', turn.id],
        ['sent', 'there', 'q', turn.id],
      ],
    )
    assert.ok(signals.includes('web:team') && signals.includes(turn.id))
    assert.match(
      await tools.refusal('reply', { chatJid: 'web:team', text: 'x', replyToId: 'nowhere' }),
      /no message nowhere in web:team/,
    )
  })

  test('refuse to answer a message that the chat does not have, and record nothing', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await here.groups('main')
    const context = { dialect: here.host.engine.dialect, clock: here.clock, random: here.host.random }
    const { entry } = await here.host.engine.transaction((tx) =>
      postInRoom(tx, context, { room: 'hall', person: 'mia', content: 'hello' }),
    )
    const tools = await here.tools('main')
    for (const [chatJid, replyToId] of [
      ['sandbox:hall', 'nowhere'],
      ['sandbox:lobby', entryId(entry)],
      ['web:team', entryId(entry)],
    ])
      assert.equal(
        await tools.refusal('reply', { chatJid, text: 'x', replyToId }),
        `there is no message ${replyToId} in ${chatJid}`,
      )
    assert.deepEqual(await here.said(), [])
    assert.equal(await tools.call('reply', { chatJid: 'sandbox:hall', text: 'x', replyToId: entryId(entry) }), 'ok')
  })

  test('signal work only for messages that are left to the outbox', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const signals: string[] = []
    here.host.signals.on((keys, work) => signals.push(`${keys} ${work}`))
    const tools = await here.tools()
    await tools.call('send', { chatJid: 'web:team', text: 'delivered at once' })
    here.fake.next(new ChannelError('transient', 'too many requests'))
    await tools.call('send', { chatJid: ROOM, text: 'retried later' })
    await tools.call('send', { chatJid: ROOM, text: 'behind it' })
    assert.deepEqual(signals, ['web:team ', `${ROOM} `, `${ROOM} arrivals,turns,outbox`, `${ROOM} outbox`])
  })

  test('keep a message in the outbox when the platform is temporarily unavailable', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    here.fake.next(new ChannelError('transient', 'too many requests'))
    assert.equal(await (await here.tools()).call('send', { chatJid: ROOM, text: 'later' }), 'ok')
    const [row] = await here.said()
    assert.deepEqual([row?.state, row?.error], ['pending', 'too many requests'])
    assert.ok((row?.next_at ?? 0) > here.clock.now())
  })

  test('return the error of the platform and record the failure', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    here.fake.next(new ChannelError('permanent', 'the bot was removed from the room'))
    assert.equal(
      await (await here.tools()).refusal('send', { chatJid: ROOM, text: 'hello?' }),
      'the bot was removed from the room',
    )
    assert.deepEqual(
      (await here.said()).map(({ state, error }) => [state, error]),
      [['failed', 'the bot was removed from the room']],
    )
  })

  test('report an unknown outcome and do not resend', async (t) => {
    const here = await chatTools(t, engine, sendTools, { isKeyed: false })
    here.fake.next(new ChannelError('unclear', 'the connection broke'))
    const refusal = await (await here.tools()).refusal('send', { chatJid: ROOM, text: 'once' })
    assert.match(refusal, /unknown whether the message .* arrived: the connection broke\nhint: /)
    assert.deepEqual(
      (await here.said()).map(({ state }) => state),
      ['unknown'],
    )
  })

  test('resolve a bare folder to the chat of its latest message', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    assert.match(
      await tools.refusal('send', { chatJid: 'team', text: 'x' }),
      /no chat has written to the folder team yet/,
    )
    for (const jid of ['web:team', ROOM]) await finishTurn(t, here, await startTurn(t, here, { folder: 'team', jid }))
    await tools.call('send', { chatJid: 'team', text: 'you there' })
    await tools.call('reply', { chatJid: 'team', text: 'you too' })
    assert.deepEqual(
      here.fake.calls.map(({ given }) => given.jid),
      [ROOM, ROOM],
    )
    assert.match(await tools.refusal('send', { chatJid: 'other', text: 'x' }), /outside team/)
    assert.match(await tools.refusal('send', { chatJid: 'nobody', text: 'x' }), /no route/)
    await here.grant('folder:team', 'mcp:send', 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('send', { chatJid: 'team', text: 'x' }), /not permitted/)
  })

  test('check rules and reach before they call the platform', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    for (const name of ['send', 'reply']) {
      assert.match(await tools.refusal(name, { chatJid: OTHER_ROOM, text: 'x' }), /outside team/)
      // A Cyrillic letter makes it another room, without a route.
      assert.match(await tools.refusal(name, { chatJid: 'fakе:room/1', text: 'x' }), /platform:room/)
      assert.match(await tools.refusal(name, { chatJid: 'fake:rооm/1', text: 'x' }), /no route/)
      await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
      assert.match(await tools.refusal(name, { chatJid: ROOM, text: 'x' }), /not permitted/)
    }
    assert.deepEqual([here.fake.calls.length, (await here.said()).length], [0, 0])
  })

  test('let a delegated turn answer only in the chat of the question', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await startTurn(t, here, {
      folder: 'team',
      jid: 'team',
      sender: 'delegate',
      envelope: { verb: 'delegate', return_jid: OTHER_ROOM, return_topic: 'x', depth: 1 },
    })
    const tools = await here.tools()
    await tools.call('reply', { chatJid: OTHER_ROOM, text: 'the answer' })
    assert.deepEqual(
      here.fake.calls.map(({ given }) => [given.jid, given.threadId]),
      [[OTHER_ROOM, 'x']],
    )
    assert.match(await tools.refusal('send', { chatJid: 'fake:room/3', text: 'x' }), /no route/)
  })

  test('refuse bad arguments by name', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    const bad: [Record<string, unknown>, RegExp][] = [
      [{}, /chatJid/],
      [{ chatJid: '', text: 'x' }, /chatJid/],
      [{ chatJid: `fake:${'x'.repeat(10_240)}`, text: 'x' }, /chatJid/],
      [{ chatJid: ROOM }, /text/],
      [{ chatJid: ROOM, text: '' }, /text must not be empty/],
      [{ chatJid: ROOM, text: ' \n' }, /text must not be empty/],
      [{ chatJid: ROOM, text: 5 }, /text/],
      [{ chatJid: ROOM, text: 'a\u0000b' }, /NUL/],
      [{ chatJid: ROOM, text: 'x'.repeat(65_537) }, /65536/],
      [{ chatJid: ROOM, text: 'x', topic: 'y' }, /unknown field "topic"/],
    ]
    for (const [args, why] of bad)
      for (const name of ['send', 'reply']) assert.match(await tools.refusal(name, args), why, JSON.stringify(args))
    assert.match(await tools.refusal('reply', { chatJid: ROOM, text: 'x', replyToId: '' }), /replyToId/)
    assert.equal(here.fake.calls.length, 0)
  })

  test('offer only reply to a folder of tier 3', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await here.groups('team/sub/a', 'team/sub/a/b')
    assert.deepEqual(await (await here.tools('team/sub/a/b')).names(), ['reply'])
  })
})
