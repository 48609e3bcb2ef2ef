// Settings that an agent changes for its own group.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { groups } from '../core/groups/groups.ts'

onEveryEngine('group settings', (engine) => {
  test('are stored, cleared and returned as stored', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    const team = await here.open('team')
    const stored = () => here.host.engine.read((tx) => groups.find(tx, { folder: 'team' }))
    assert.equal((await stored())?.open, true)
    assert.deepEqual(await team.call('set_group_open', { open: false }), { ok: true, open: false })
    assert.equal((await stored())?.open, false)

    const set = (args: Record<string, unknown>) => team.call('set_observe_window', args)
    assert.deepEqual(await set({ messages: 5 }), { ok: true, messages: 5, chars: -1 })
    assert.deepEqual(await set({ chars: 0 }), { ok: true, messages: 5, chars: 0 })
    assert.deepEqual(await set({ messages: -1 }), { ok: true, messages: -1, chars: 0 })
    assert.deepEqual(await set({ messages: 1e9, chars: -1 }), { ok: true, messages: 1_000_000, chars: -1 })
    const row = await stored()
    assert.deepEqual([row?.observe_window_messages, row?.observe_window_chars], [1_000_000, undefined])
  })
})

test('refuses invalid settings and changes nothing', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const team = await here.open('team')
  for (const [tool, args, expected] of [
    ['set_group_open', {}, 'open is required'],
    ['set_group_open', { open: 'true' }, 'open must be true or false'],
    ['set_group_open', { open: 1 }, 'open must be true or false'],
    ['set_group_open', { open: true, folder: 'main' }, 'unknown field "folder"'],
    ['set_observe_window', {}, 'set_observe_window: at least one of messages|chars required'],
    ['set_observe_window', { messages: -2 }, 'messages must be at least -1'],
    ['set_observe_window', { chars: 1.5 }, /^chars must be a/],
    ['set_observe_window', { chars: '5' }, 'chars must be a number'],
    ['set_observe_window', { messages: null }, 'messages must be a number'],
    ['set_observe_window', { messages: 1e300 }, /^messages must be/],
  ] as const) {
    const text = await team.refusal(tool, args)
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  const row = await here.host.engine.read((tx) => groups.find(tx, { folder: 'team' }))
  assert.deepEqual([row?.open, row?.updated_at], [true, undefined])
})
