// delegate_group and escalate_group: recipients, return addresses and the depth limit.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { envelopes } from '../core/messages/envelopes.ts'
import { decodeContent, messages } from '../core/messages/messages.ts'
import { setLastReply } from '../core/routing/engagements.ts'

/** The last question, without fields that differ from run to run. */
async function lastQuestion({ host }: Agents) {
  return host.engine.read(async (tx) => {
    const message = (await messages.list(tx)).at(-1) ?? assert.fail('no question recorded')
    const { message_seq: _, ...envelope } = (await envelopes.list(tx)).at(-1) ?? assert.fail('no envelope')
    const { jid, target_folder, sender, content } = message
    return { jid, target_folder, sender, content: decodeContent(content), envelope }
  })
}

const countOf = ({ host }: Agents) => host.engine.read((tx) => messages.count(tx))

onEveryEngine('questions between agents', (engine) => {
  test('carry the return chat down to a child, and their origin up to the parent', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a'])
    await here.route('room=42', 'team')
    await here.begin({ id: 'turn-1', folder: 'team', jid: 'telegram:42', chat_topic: 'plans' })
    const signals: (readonly string[])[] = []
    here.host.signals.on((keys = []) => signals.push(keys))
    const team = await here.open('team')
    const question = { group: 'team/a', prompt: 'How many?', chatJid: 'telegram:42' }
    assert.deepEqual(await team.call('delegate_group', question), { queued: true })
    assert.deepEqual(await lastQuestion(here), {
      ...{ jid: 'team/a', target_folder: 'team/a', sender: 'delegate', content: 'How many?' },
      envelope: {
        ...{ jid: 'team/a', verb: 'delegate', depth: 1, from_turn: 'turn-1', as_folder: 'team/a' },
        ...{ return_jid: 'telegram:42', return_topic: 'plans' },
      },
    })
    assert.equal(signals.length, 1)

    await here.host.engine.transaction((tx) => setLastReply(tx, 'telegram:42', 'plans', 'a"<7>&'))
    const up = { prompt: 'May I?', chatJid: 'telegram:42', depth: 0 }
    assert.deepEqual(await team.call('escalate_group', up), { queued: true, parent: 'main' })
    const origin = '<escalation_origin folder="team" jid="telegram:42" reply_to="a&quot;&lt;7&gt;&amp;"/>'
    const escalated = await lastQuestion(here)
    assert.deepEqual([escalated.jid, escalated.sender], ['main', 'escalate'])
    assert.equal(escalated.content, `${origin}\nMay I?`)
    assert.equal(escalated.envelope.return_jid, 'telegram:42')

    const child = await here.open('team/a')
    await here.begin({ id: 'turn-2', folder: 'team/a', jid: 'team/a' })
    assert.deepEqual(await child.call('escalate_group', { prompt: 'x', chatJid: 'team/a' }), {
      queued: true,
      parent: 'team',
    })
    // The topic of the turn applies only to the chat of the turn.
    await here.route('room=43', 'team/a')
    await child.call('escalate_group', { prompt: 'x', chatJid: 'telegram:43' })
    const { envelope, content } = await lastQuestion(here)
    assert.deepEqual([envelope.return_jid, envelope.return_topic], ['telegram:43', undefined])
    assert.match(content, /^<escalation_origin folder="team\/a" jid="telegram:43" reply_to=""\/>\nx$/)
  })

  test('are passed on once, whatever depth the caller gives', async (t) => {
    const here = await agents(t, engine, ['main', 'team', 'team/a', 'team/a/b'])
    await here.begin({ id: 'turn-1', folder: 'team/a', jid: 'team/a', depth: 1 })
    const child = await here.open('team/a')
    const tooDeep = 'delegation depth 2 exceeds limit 1'
    for (const depth of [undefined, 0]) {
      const more = depth === undefined ? {} : { depth }
      const up = { prompt: 'x', chatJid: 'team/a', ...more }
      assert.equal(await child.refusal('escalate_group', up), tooDeep)
      assert.equal(await child.refusal('delegate_group', { ...up, group: 'team/a/b' }), tooDeep)
    }
    const team = await here.open('team')
    const down = { group: 'team/a', prompt: 'x', chatJid: 'team' }
    for (const [depth, why] of [
      [1, tooDeep],
      [7, 'delegation depth 8 exceeds limit 1'],
      [-1, 'depth must be at least 0'],
      ['0', 'depth must be a number'],
      [0.5, /^depth must be a/],
      [null, /^depth must be a/],
    ] as const) {
      for (const [tool, args] of [
        ['delegate_group', { ...down, depth }],
        ['escalate_group', { prompt: 'x', chatJid: 'team', depth }],
      ] as const) {
        const text = await team.refusal(tool, args)
        if (typeof why === 'string') assert.equal(text, why)
        else assert.match(text, why)
      }
    }
    assert.equal(await countOf(here), 0)
  })
})

test('delegates only to groups below, with answers only to chats within reach', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await here.route('room=42', 'other')
  const [root, team] = [await here.open('main'), await here.open('team')]
  const question = { prompt: 'x', chatJid: 'team' }
  for (const group of ['team', 'main', 'other', 'teams', 'other/none'])
    assert.equal(
      await team.refusal('delegate_group', { ...question, group }),
      `delegate_group: not permitted: ${group} is not below team`,
    )
  assert.equal(await team.refusal('delegate_group', { ...question, group: 'team/none' }), 'there is no group team/none')
  for (const tool of ['delegate_group', 'escalate_group']) {
    const args = { prompt: 'x', ...(tool === 'delegate_group' ? { group: 'team/a' } : {}) }
    assert.match(
      await team.refusal(tool, { ...args, chatJid: 'telegram:42' }),
      /the chat telegram:42 belongs to a folder outside team$/,
    )
    assert.match(await team.refusal(tool, { ...args, chatJid: 'telegram:43' }), /has no route in this instance$/)
  }
  // The root reaches every folder but itself, and has no parent.
  await root.call('delegate_group', { group: 'other', prompt: 'x', chatJid: 'telegram:42' })
  assert.match(await root.refusal('delegate_group', { ...question, group: 'main' }), /main is not below main$/)
  assert.equal(await root.refusal('escalate_group', question), 'main has no parent group')
  await here.at.grant('folder:team', 'mcp:delegate_group', 'team/a', 'deny')
  assert.match(
    await team.refusal('delegate_group', { ...question, group: 'team/a' }),
    /^delegate_group: not permitted on team\/a/,
  )
  assert.equal(await countOf(here), 1)
})
