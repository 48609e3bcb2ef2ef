// inject_message: the recorded sender and the recipient.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { envelopes } from '../core/messages/envelopes.ts'
import { decodeContent, messages } from '../core/messages/messages.ts'

onEveryEngine('inject_message', (engine) => {
  test('records a message as if it had arrived, and marks the claimed sender', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'other'])
    await here.route('room=42', 'team')
    await here.begin({ id: 'turn-1', folder: 'team', jid: 'team', depth: 1 })
    const signals: (readonly string[])[] = []
    here.host.signals.on((keys = []) => signals.push(keys))
    const team = await here.open('team')
    const inject = async (args: Record<string, unknown>) => {
      const answer = await team.call('inject_message', { content: 'Hello', ...args })
      return here.host.engine.read(async (tx) => {
        const message = (await messages.list(tx)).at(-1) ?? assert.fail('no message recorded')
        assert.deepEqual(answer, { injected: true, id: message.id })
        const envelope = await envelopes.find(tx, { message_seq: message.seq })
        const { jid, sender, target_folder, direction } = message
        assert.deepEqual([direction, decodeContent(message.content)], ['in', 'Hello'])
        return [jid, sender, target_folder, envelope?.sender_name, envelope?.depth, envelope?.from_turn]
      })
    }
    const turn = [1, 'turn-1']
    assert.deepEqual(await inject({ chatJid: 'telegram:42' }), ['telegram:42', 'system', undefined, 'system', ...turn])
    assert.deepEqual(await inject({ chatJid: 'telegram:42', sender: 'github:1', senderName: 'Ann' }), [
      ...['telegram:42', 'injected:github:1', undefined, 'Ann'],
      ...turn,
    ])
    // An injected sender cannot be used to fake another one.
    assert.equal((await inject({ chatJid: 'telegram:42', sender: 'injected:x' }))[1], 'injected:injected:x')
    assert.deepEqual((await inject({ chatJid: 'web:team' })).slice(0, 3), ['web:team', 'system', 'team'])
    assert.deepEqual((await inject({ chatJid: 'team' })).slice(0, 3), ['team', 'system', 'team'])
    assert.deepEqual(signals.at(-1), ['team'])
  })
})

test('refuses chats out of reach and invalid messages', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'other'])
  await here.route('room=42', 'other')
  const team = await here.open('team')
  for (const [args, expected] of [
    [{ chatJid: 'telegram:42', content: 'x' }, /the chat telegram:42 belongs to a folder outside team$/],
    [{ chatJid: 'telegram:7', content: 'x' }, /has no route in this instance$/],
    [{ chatJid: 'other', content: 'x' }, /outside team$/],
    [{ chatJid: 'web:other', content: 'x' }, /outside team$/],
    [{ chatJid: '', content: 'x' }, 'chatJid must not be empty'],
    [{ chatJid: 'team', content: ' ' }, 'content must not be empty'],
    [{ chatJid: 'team', content: 'a\u0000' }, 'content must not contain a NUL character'],
    [{ chatJid: 'team', content: 'x', sender: '' }, 'sender must not be empty'],
    [{ chatJid: 'team', content: 'x', sender: 'a\nb' }, 'sender must not contain control characters'],
    [{ chatJid: 'team', content: 'x', senderName: 7 }, 'senderName must be text'],
    [{ chatJid: 'team', content: 'x', topic: 'y' }, 'unknown field "topic"'],
  ] as const) {
    const text = await team.refusal('inject_message', args)
    if (typeof expected === 'string') assert.equal(text, expected)
    else assert.match(text, expected)
  }
  assert.equal(await here.host.engine.read((tx) => messages.count(tx)), 0)
})
