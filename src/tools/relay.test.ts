import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { finishTurn, startTurn } from '../../test/support/turns.ts'
import { relayTools } from './relay.ts'

/** Valid arguments of each tool, for a message and a target chat. */
const GOOD = {
  forward: (sourceMsgId: string, to: string) => ({ sourceMsgId, targetJid: to, comment: 'see this' }),
  quote: (sourceMsgId: string, to: string) => ({ sourceMsgId, chatJid: to, comment: 'see this' }),
  repost: (sourceMsgId: string, to: string) => ({ sourceMsgId, chatJid: to }),
} as const
const NAMES = ['forward', 'quote', 'repost'] as const

onEveryEngine('forward, quote and repost', (engine) => {
  test("pass the platform's id of the message and return the id of the new one", async (t) => {
    const here = await chatTools(t, engine, relayTools)
    const turn = await startTurn(t, here, { folder: 'team', jid: ROOM, envelope: { platform_id: 'p-1' } })
    const tools = await here.tools()
    for (const [at, name] of NAMES.entries())
      assert.deepEqual(await tools.call(name, GOOD[name](turn.id, ROOM)), { ok: true, id: `fake-${at + 1}` })
    for (const id of ['p-1', `${ROOM}|p-1`, `${ROOM}|unknown-here`]) await tools.call('repost', GOOD.repost(id, ROOM))
    assert.deepEqual(
      here.fake.calls.map(({ action, given }) => [action, given.sourceMsgId, given.sourceJid, given.comment]),
      [
        ['forward', 'p-1', ROOM, 'see this'],
        ['quote', 'p-1', ROOM, 'see this'],
        ['repost', 'p-1', ROOM, undefined],
        ['repost', 'p-1', ROOM, undefined],
        ['repost', 'p-1', ROOM, undefined],
        ['repost', 'unknown-here', ROOM, undefined],
      ],
    )
    assert.deepEqual(
      (await here.said()).slice(0, 3).map(({ content, state }) => [content, state]),
      [
        ['see this', 'sent'],
        ['see this', 'sent'],
        [`[repost of ${turn.id}]`, 'sent'],
      ],
    )
  })

  test('refuse a source or target chat out of reach', async (t) => {
    const here = await chatTools(t, engine, relayTools)
    const alien = await startTurn(t, here, { folder: 'other', jid: OTHER_ROOM, envelope: { platform_id: 'p-2' } })
    await finishTurn(t, here, alien)
    const own = await startTurn(t, here, { folder: 'team', jid: ROOM, envelope: { platform_id: 'p-1' } })
    const tools = await here.tools()
    for (const name of NAMES) {
      for (const id of [alien.id, `${OTHER_ROOM}|p-2`, `${OTHER_ROOM}|guessed`])
        assert.match(await tools.refusal(name, GOOD[name](id, ROOM)), /not permitted on the message/)
      assert.match(await tools.refusal(name, GOOD[name](own.id, OTHER_ROOM)), /outside team/)
      assert.match(await tools.refusal(name, GOOD[name]('p-2', ROOM)), /there is no message p-2\nhint: .*sourceMsgId/)
    }
    assert.deepEqual([here.fake.calls.length, (await here.said()).length], [0, 0])
    // The root reaches both.
    assert.deepEqual(await (await here.tools('main')).call('forward', GOOD.forward(alien.id, ROOM)), {
      ok: true,
      id: 'fake-1',
    })
  })

  test('refuse a source on another platform', async (t) => {
    const here = await chatTools(t, engine, relayTools)
    const turn = await startTurn(t, here, { folder: 'team', jid: 'web:team' })
    const tools = await here.tools()
    assert.match(
      await tools.refusal('forward', GOOD.forward(turn.id, ROOM)),
      /^unsupported: forward from web to fake\n/,
    )
    assert.equal((await here.said()).length, 0)
  })

  test('refuse denied chats, bad arguments and platforms without support', async (t) => {
    const here = await chatTools(t, engine, relayTools, { lacks: ['repost'] })
    const turn = await startTurn(t, here, { folder: 'team', jid: ROOM, envelope: { platform_id: 'p-1' } })
    const tools = await here.tools()
    assert.match(await tools.refusal('repost', GOOD.repost(turn.id, ROOM)), /^unsupported: repost on fake\nhint: /)
    for (const [name, args, why] of [
      ['forward', { sourceMsgId: 'x' }, /targetJid/],
      ['forward', { targetJid: ROOM }, /sourceMsgId/],
      ['forward', { ...GOOD.forward('x', ROOM), comment: 7 }, /comment/],
      ['forward', { ...GOOD.forward('', ROOM) }, /sourceMsgId/],
      ['forward', { ...GOOD.forward('x', ROOM), chatJid: ROOM }, /unknown field "chatJid"/],
      ['quote', { ...GOOD.quote('x', ROOM), comment: '' }, /comment/],
      ['quote', GOOD.repost('x', ROOM), /comment/],
      ['repost', GOOD.quote('x', ROOM), /unknown field "comment"/],
      ['quote', GOOD.quote(`${ROOM}|`, ROOM), /there is no message/],
      ['quote', GOOD.quote('no chat|x', ROOM), /there is no message/],
    ] as const)
      assert.match(await tools.refusal(name, args), why)
    for (const name of NAMES) {
      await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
      assert.match(await tools.refusal(name, GOOD[name](turn.id, ROOM)), /not permitted/)
    }
    assert.equal((await here.said()).length, 0)
  })
})
