import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chatTools, OTHER_ROOM, ROOM } from '../../test/support/chat-tools.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { ChannelError } from '../core/delivery/channel.ts'
import { paneTools } from './pane.ts'

const prompt = { title: 'Help', message: 'What can you do?' }

onEveryEngine('pane tools', (engine) => {
  test('pass trimmed prompts and titles to the platform', async (t) => {
    const here = await chatTools(t, engine, paneTools)
    const tools = await here.tools()
    const prompts = [{ title: ' Help ', message: 'What can you do?\n' }]
    assert.equal(await tools.call('pane_set_prompts', { chatJid: ROOM, prompts }), 'ok')
    assert.equal(await tools.call('pane_set_title', { chatJid: ROOM, title: '  Travel plans ' }), 'ok')
    assert.deepEqual(
      here.fake.calls.map(({ action, given }) => [action, given]),
      [
        ['pane_set_prompts', { jid: ROOM, prompts: [prompt] }],
        ['pane_set_title', { jid: ROOM, title: 'Travel plans' }],
      ],
    )
    here.fake.next(new ChannelError('permanent', 'no pane is open'))
    assert.equal(await tools.refusal('pane_set_title', { chatJid: ROOM, title: 'x' }), 'no pane is open')
  })

  test('accept titles of 1 to 256 characters, counted in code points', async (t) => {
    const here = await chatTools(t, engine, paneTools)
    const tools = await here.tools()
    for (const title of ['x', 'x'.repeat(256), '😀'.repeat(256), ` ${'x'.repeat(256)} `])
      assert.equal(await tools.call('pane_set_title', { chatJid: ROOM, title }), 'ok')
    for (const title of ['', '  ', 'x'.repeat(257), '😀'.repeat(257), 'a\nb', 7, undefined])
      assert.match(await tools.refusal('pane_set_title', { chatJid: ROOM, title }), /title/)
    assert.equal(here.fake.calls.length, 4)
  })

  test('accept 1 to 16 prompts, each with only a title and a message', async (t) => {
    const here = await chatTools(t, engine, paneTools)
    const tools = await here.tools()
    for (const count of [1, 2, 5, 16]) {
      const prompts = Array.from({ length: count }, () => prompt)
      assert.equal(await tools.call('pane_set_prompts', { chatJid: ROOM, prompts }), 'ok')
    }
    for (const prompts of [
      [],
      Array.from({ length: 17 }, () => prompt),
      'Help',
      [{ title: 'Help' }],
      [{ message: 'x' }],
      [{ ...prompt, title: ' ' }],
      [{ ...prompt, message: '' }],
      [{ ...prompt, title: 5 }],
      [{ ...prompt, icon: 'x' }],
      [prompt, 'x'],
      [null],
      undefined,
    ])
      assert.match(await tools.refusal('pane_set_prompts', { chatJid: ROOM, prompts }), /prompts/)
    assert.equal(here.fake.calls.length, 4)
  })

  test('refuse denied chats, chats out of reach and platforms without a pane', async (t) => {
    const here = await chatTools(t, engine, paneTools, { lacks: ['pane_set_title'] })
    const tools = await here.tools()
    for (const [name, more] of [
      ['pane_set_prompts', { prompts: [prompt] }],
      ['pane_set_title', { title: 'x' }],
    ] as const) {
      assert.match(await tools.refusal(name, { chatJid: OTHER_ROOM, ...more }), /outside team/)
      assert.match(
        await tools.refusal(name, { chatJid: 'web:team', ...more }),
        new RegExp(`^unsupported: ${name} on web\nhint: `),
      )
    }
    const title = { chatJid: ROOM, title: 'x' }
    assert.match(await tools.refusal('pane_set_title', title), /^unsupported: pane_set_title on fake\nhint: /)
    for (const name of ['pane_set_title', 'pane_set_prompts'])
      await here.grant('folder:team', `mcp:${name}`, 'team', 'deny', `jid=${ROOM}`)
    assert.match(await tools.refusal('pane_set_title', title), /not permitted/)
    assert.match(await tools.refusal('pane_set_prompts', { chatJid: ROOM, prompts: [prompt] }), /not permitted/)
    assert.equal(here.fake.calls.length, 0)
  })
})
