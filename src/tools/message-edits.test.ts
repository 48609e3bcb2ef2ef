import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChatTools, chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { startTurn } from '../../test/support/turns.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { messageChanges } from '../core/messages/message-changes.ts'
import { messageEditTools } from './message-edits.ts'
import { sendTools } from './send.ts'

const TOOLS = [...messageEditTools, ...sendTools]

const changes = async ({ host }: ChatTools) =>
  (await host.engine.read((tx) => messageChanges.list(tx))).map(({ message_seq, kind }) => [message_seq, kind])

onEveryEngine('edit and delete', (engine) => {
  test('change the message on the platform and in the store, and record the change', async (t) => {
    const here = await chatTools(t, engine, TOOLS)
    const tools = await here.tools()
    await tools.call('send', { chatJid: ROOM, text: 'frist' })
    const [before] = await here.said()
    assert.equal(await tools.call('edit', { chatJid: ROOM, targetId: before?.id, content: 'first' }), 'ok')
    assert.equal(await tools.call('edit', { chatJid: ROOM, targetId: 'fake-1', content: 'second' }), 'ok')
    assert.deepEqual(
      here.fake.calls.slice(1).map(({ action, given }) => [action, given.targetId, given.content]),
      [
        ['edit', 'fake-1', 'first'],
        ['edit', 'fake-1', 'second'],
      ],
    )
    const [after] = await here.said()
    assert.deepEqual([after?.content, after?.message_seq], ['second', before?.message_seq])
    assert.deepEqual(await changes(here), [
      [before?.message_seq, 'edited'],
      [before?.message_seq, 'edited'],
    ])
  })

  test('keep the row of a deleted message without its text, and refuse further changes', async (t) => {
    const here = await chatTools(t, engine, TOOLS)
    const tools = await here.tools()
    await tools.call('send', { chatJid: ROOM, text: 'a secret' })
    assert.equal(await tools.call('delete', { chatJid: ROOM, targetId: 'fake-1' }), 'ok')
    assert.deepEqual(
      (await here.said()).map(({ content, state }) => [content, state]),
      [['', 'sent']],
    )
    assert.deepEqual((await changes(here))[0]?.[1], 'deleted')
    for (const [name, more] of [
      ['edit', { content: 'x' }],
      ['delete', {}],
    ] as const)
      assert.match(await tools.refusal(name, { chatJid: ROOM, targetId: 'fake-1', ...more }), /there is no message/)
  })

  test('apply only to own messages, not to those of people or other folders', async (t) => {
    const here = await chatTools(t, engine, TOOLS)
    const turn = await startTurn(t, here, { folder: 'team', jid: ROOM, envelope: { platform_id: 'p-1' } })
    // A message of the root in the room of `team`.
    await (await here.tools('main')).call('send', { chatJid: ROOM, text: 'by the root' })
    const tools = await here.tools()
    for (const [name, more] of [
      ['edit', { content: 'x' }],
      ['delete', {}],
    ] as const) {
      for (const targetId of ['p-1', turn.id, 'fake-1'])
        assert.match(await tools.refusal(name, { chatJid: ROOM, targetId, ...more }), /not your own/)
      assert.match(await tools.refusal(name, { chatJid: ROOM, targetId: 'unknown', ...more }), /there is no message/)
      assert.match(await tools.refusal(name, { chatJid: OTHER_ROOM, targetId: 'x', ...more }), /outside team/)
    }
    assert.deepEqual([here.fake.calls.length, await changes(here)], [1, []])
  })

  test('leave the store unchanged if the platform refuses', async (t) => {
    const here = await chatTools(t, engine, TOOLS)
    const tools = await here.tools()
    await tools.call('send', { chatJid: ROOM, text: 'stays' })
    here.fake.next(new ChannelError('permanent', 'too old to change'))
    const edit = { chatJid: ROOM, targetId: 'fake-1', content: 'x' }
    assert.equal(await tools.refusal('edit', edit), 'too old to change')
    assert.equal((await here.said())[0]?.content, 'stays')
    assert.deepEqual(await changes(here), [])
  })

  test('refuse denied chats, bad arguments and platforms without support', async (t) => {
    const here = await chatTools(t, engine, TOOLS, { lacks: ['edit'] })
    const tools = await here.tools()
    const edit = { chatJid: ROOM, targetId: 'x', content: 'y' }
    assert.match(await tools.refusal('edit', edit), /^unsupported: edit on fake\nhint: /)
    for (const [name, args, why] of [
      ['edit', { ...edit, content: '' }, /content/],
      ['edit', { ...edit, content: undefined }, /content/],
      ['edit', { ...edit, targetId: '' }, /targetId/],
      ['delete', { chatJid: ROOM }, /targetId/],
      ['delete', { targetId: 'x' }, /chatJid/],
      ['delete', edit, /unknown field "content"/],
    ] as const)
      assert.match(await tools.refusal(name, args), why)
    for (const name of ['edit', 'delete']) await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('edit', edit), /not permitted/)
    assert.match(await tools.refusal('delete', { chatJid: ROOM, targetId: 'x' }), /not permitted/)
  })
})
