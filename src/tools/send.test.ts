import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { finishTurn, startTurn } from '../../test/support/turns.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { engagedFolder } from '../core/routing/engagements.ts'
import { sendTools } from './send.ts'

onEveryEngine('saying something in words', (engine) => {
  test('what is sent reaches the platform once, with its key, and is recorded as sent', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    assert.equal(await tools.call('send', { chatJid: ROOM, text: 'hello' }), 'ok')
    const [said, ...more] = await here.said()
    assert.equal(more.length, 0)
    assert.deepEqual(
      [said?.state, said?.platform_id, said?.folder, said?.content, said?.attempts],
      ['sent', 'fake-1', 'team', 'hello', 1],
    )
    assert.deepEqual(
      here.fake.calls.map(({ action, given }) => [action, given.jid, given.content, given.key]),
      [['send', ROOM, 'hello', said?.id]],
    )
  })

  test('send stands for itself even in a topic, reply goes into the thread of the turn', async (t) => {
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

  test('a reply in another chat than the one of the turn is no part of its thread', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await startTurn(t, here, { folder: 'team', jid: 'web:team', topic: 't7' })
    await (await here.tools()).call('reply', { chatJid: ROOM, text: 'over here' })
    assert.deepEqual(
      here.fake.calls.map(({ given }) => [given.replyTo, given.threadId]),
      [[undefined, undefined]],
    )
  })

  test('a chat that is spoken in stays with the folder, but not for what a schedule says', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const engaged = () => here.host.engine.read((tx) => engagedFolder(tx, ROOM, '', here.clock.now()))
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

  test("in a link's chat it is a frame of the round that asked, and part of its topic", async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const heard: string[] = []
    here.host.signals.on((keys = []) => heard.push(...keys))
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
    assert.ok(heard.includes('web:team') && heard.includes(turn.id))
    assert.match(
      await tools.refusal('reply', { chatJid: 'web:team', text: 'x', replyToId: 'nowhere' }),
      /no message nowhere in web:team/,
    )
  })

  test('only what is left to others is word of work', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const heard: string[] = []
    here.host.signals.on((keys, work) => heard.push(`${keys} ${work}`))
    const tools = await here.tools()
    await tools.call('send', { chatJid: 'web:team', text: 'recorded is delivered' })
    here.fake.next(new ChannelError('transient', 'too many requests'))
    await tools.call('send', { chatJid: ROOM, text: 'tried, and put back' })
    await tools.call('send', { chatJid: ROOM, text: 'behind it' })
    assert.deepEqual(heard, ['web:team ', `${ROOM} `, `${ROOM} arrivals,turns,outbox`, `${ROOM} outbox`])
  })

  test('what cannot go now is still said: it waits in the outbox', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    here.fake.next(new ChannelError('transient', 'too many requests'))
    assert.equal(await (await here.tools()).call('send', { chatJid: ROOM, text: 'later' }), 'ok')
    const [row] = await here.said()
    assert.deepEqual([row?.state, row?.error], ['pending', 'too many requests'])
    assert.ok((row?.next_at ?? 0) > here.clock.now())
  })

  test('what the platform refuses is an error in its words, and fails visibly', async (t) => {
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

  test('where nobody knows whether it arrived, that is said, and it is not sent again', async (t) => {
    const here = await chatTools(t, engine, sendTools, { isKeyed: false })
    here.fake.next(new ChannelError('unclear', 'the connection broke'))
    const said = await (await here.tools()).refusal('send', { chatJid: ROOM, text: 'once' })
    assert.match(said, /unknown whether the message .* arrived: the connection broke\nhint: /)
    assert.deepEqual(
      (await here.said()).map(({ state }) => state),
      ['unknown'],
    )
  })

  test('a bare folder is the chat that its people last wrote in', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    assert.match(await tools.refusal('send', { chatJid: 'team', text: 'x' }), /no chat has written to yet/)
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

  test('the rules and the reach of the folder are asked before the platform', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    const tools = await here.tools()
    for (const name of ['send', 'reply']) {
      assert.match(await tools.refusal(name, { chatJid: OTHER_ROOM, text: 'x' }), /outside team/)
      // An е of another alphabet is another room, and nobody has it.
      assert.match(await tools.refusal(name, { chatJid: 'fakе:room/1', text: 'x' }), /platform:room/)
      assert.match(await tools.refusal(name, { chatJid: 'fake:rооm/1', text: 'x' }), /no route/)
      await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
      assert.match(await tools.refusal(name, { chatJid: ROOM, text: 'x' }), /not permitted/)
    }
    assert.deepEqual([here.fake.calls.length, (await here.said()).length], [0, 0])
  })

  test('who is asked from a chat of another folder may answer there, and only there', async (t) => {
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

  test('bad arguments are refused by name', async (t) => {
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

  test('a folder of tier 3 may reply and has no other way to speak', async (t) => {
    const here = await chatTools(t, engine, sendTools)
    await here.groups('team/sub/a', 'team/sub/a/b')
    assert.deepEqual(await (await here.tools('team/sub/a/b')).names(), ['reply'])
  })
})
