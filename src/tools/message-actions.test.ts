import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { startTurn } from '../../test/support/turns.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { messageActionTools } from './message-actions.ts'
import { sendTools } from './send.ts'

/** Valid arguments of each tool. */
const GOOD: Readonly<Record<string, Record<string, unknown>>> = {
  like: { chatJid: ROOM, targetId: 'p-1', reaction: '👍' },
  dislike: { chatJid: ROOM, targetId: 'p-1' },
  pin_message: { chatJid: ROOM, targetId: 'p-1' },
  unpin_message: { chatJid: ROOM, targetId: 'p-1' },
  unpin_all: { chatJid: ROOM },
}

onEveryEngine('message actions', (engine) => {
  test("pass the platform's id of the message, whichever id is given", async (t) => {
    const here = await chatTools(t, engine, [...messageActionTools, ...sendTools])
    const turn = await startTurn(t, here, { folder: 'team', jid: ROOM, envelope: { platform_id: 'p-1' } })
    const tools = await here.tools()
    for (const [name, args] of Object.entries(GOOD)) assert.equal(await tools.call(name, args), 'ok')
    await tools.call('send', { chatJid: ROOM, text: 'mine' })
    const [mine] = await here.said()
    for (const targetId of [turn.id, mine?.id, 'fake-6', 'known-there-only'])
      await tools.call('like', { chatJid: ROOM, targetId, reaction: '' })
    assert.deepEqual(
      here.fake.calls.map(({ action, given }) => [action, given.jid, given.targetId, given.reaction]),
      [
        ['like', ROOM, 'p-1', '👍'],
        ['dislike', ROOM, 'p-1', undefined],
        ['pin_message', ROOM, 'p-1', undefined],
        ['unpin_message', ROOM, 'p-1', undefined],
        ['unpin_all', ROOM, undefined, undefined],
        ['send', ROOM, undefined, undefined],
        ['like', ROOM, 'p-1', ''],
        ['like', ROOM, 'fake-6', ''],
        ['like', ROOM, 'fake-6', ''],
        ['like', ROOM, 'known-there-only', ''],
      ],
    )
    assert.equal((await here.said()).length, 1, 'an action records no message')
  })

  test('refuse messages of another chat and messages without a platform id', async (t) => {
    const here = await chatTools(t, engine, [...messageActionTools, ...sendTools], { tellsIds: false })
    const elsewhere = await startTurn(t, here, { folder: 'team', jid: 'web:team' })
    const tools = await here.tools()
    assert.match(
      await tools.refusal('pin_message', { chatJid: ROOM, targetId: elsewhere.id }),
      /there is no message .* in fake:room\/1/,
    )
    await tools.call('send', { chatJid: ROOM, text: 'gone' })
    here.fake.next(new ChannelError('transient', 'later'))
    await tools.call('send', { chatJid: ROOM, text: 'waits' })
    const [gone, waits] = await here.said()
    assert.match(await tools.refusal('pin_message', { chatJid: ROOM, targetId: gone?.id }), /returned no id/)
    assert.match(await tools.refusal('pin_message', { chatJid: ROOM, targetId: waits?.id }), /has not been sent yet/)
  })

  test('check rules and reach before they call the platform', async (t) => {
    const here = await chatTools(t, engine, messageActionTools)
    const tools = await here.tools()
    for (const [name, args] of Object.entries(GOOD)) {
      assert.match(await tools.refusal(name, { ...args, chatJid: OTHER_ROOM }), /outside team/)
      await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
      assert.match(await tools.refusal(name, args), /not permitted/)
    }
    assert.equal(here.fake.calls.length, 0)
  })

  test('refuse bad arguments by name', async (t) => {
    const here = await chatTools(t, engine, messageActionTools)
    const tools = await here.tools()
    for (const [name, args] of Object.entries(GOOD)) {
      for (const member of Object.keys(args)) {
        const { [member]: _, ...rest } = args
        assert.match(await tools.refusal(name, rest), new RegExp(member))
        assert.match(await tools.refusal(name, { ...args, [member]: 7 }), new RegExp(member))
      }
      assert.match(await tools.refusal(name, { ...args, emoji: 'x' }), /unknown field "emoji"/)
      assert.match(await tools.refusal(name, { ...args, chatJid: '' }), /chatJid/)
    }
    assert.match(await tools.refusal('like', { ...GOOD.like, targetId: '' }), /targetId/)
    assert.match(await tools.refusal('like', { ...GOOD.like, reaction: 'a\nb' }), /reaction/)
    assert.equal(here.fake.calls.length, 0)
  })

  test('report an unsupported action with a hint in two lines', async (t) => {
    const here = await chatTools(t, engine, messageActionTools, { lacks: ['dislike', 'unpin_all'] })
    const tools = await here.tools()
    for (const name of ['dislike', 'unpin_all'])
      assert.equal(
        await tools.refusal(name, GOOD[name]),
        `unsupported: ${name} on fake\nhint: instead of ${name}, use send(chatJid, text)`,
      )
    for (const [name, args] of Object.entries(GOOD))
      assert.match(
        await tools.refusal(name, { ...args, chatJid: 'web:team' }),
        new RegExp(`^unsupported: ${name} on web\nhint: `),
      )
  })

  test('report errors of the platform and do not retry', async (t) => {
    const here = await chatTools(t, engine, messageActionTools)
    const tools = await here.tools()
    for (const [kind, why] of [
      ['permanent', /^no such emoji$/],
      ['transient', /^no such emoji; try again later$/],
      ['unclear', /^it is unknown whether like was done: no such emoji$/],
    ] as const) {
      here.fake.next(new ChannelError(kind, 'no such emoji'))
      assert.match(await tools.refusal('like', GOOD.like), why)
    }
    assert.equal(here.fake.calls.length, 3)
  })

  test('refuse a chat without a connected channel', async (t) => {
    const here = await chatTools(t, engine, messageActionTools)
    const tools = await here.tools('main')
    assert.match(
      await tools.refusal('pin_message', { chatJid: 'nowhere:1', targetId: 'x' }),
      /no connected channel serves the chat nowhere:1/,
    )
  })
})
