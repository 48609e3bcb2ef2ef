// Engagement: who may take a conversation and let go of it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { engage, findLiveEngagement } from '../core/routing/engagements.ts'

const HALF_AN_HOUR = 30 * 60_000

const engagedIn = ({ host }: Agents, jid: string, topic = '') =>
  host.engine.read((tx) => findLiveEngagement(tx, jid, topic, host.clock.now()))

const take = ({ host }: Agents, folder: string, jid: string) =>
  host.engine.transaction((tx) => engage(tx, { jid, topic: '', folder, until: host.clock.now() + HALF_AN_HOUR }))

onEveryEngine('engagement', (engine) => {
  test('is taken for a while, renewed, and let go of', async (t) => {
    const here = await agents(t, engine, ['main', 'team'])
    await here.route('room=42 verb=mention', 'team')
    const team = await here.open('team')
    const jid = 'telegram:42'
    assert.deepEqual(await team.call('engage', { jid }), { ok: true })
    assert.equal(await engagedIn(here, jid), 'team')
    here.at.clock.advance(HALF_AN_HOUR - 1)
    await team.call('engage', { jid })
    here.at.clock.advance(HALF_AN_HOUR - 1)
    assert.equal(await engagedIn(here, jid), 'team')
    here.at.clock.advance(1)
    assert.equal(await engagedIn(here, jid), undefined)

    await team.call('engage', { jid, topic: 'plans' })
    assert.deepEqual([await engagedIn(here, jid), await engagedIn(here, jid, 'plans')], [undefined, 'team'])
    assert.deepEqual(await team.call('disengage', { jid, topic: 'plans' }), { ok: true })
    assert.equal(await engagedIn(here, jid, 'plans'), undefined)
    // Of nothing, too.
    assert.deepEqual(await team.call('disengage', { jid }), { ok: true })
  })
})

test('whoever has a conversation keeps it in hand, and nobody else takes it', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await here.route('room=42', 'other')
  const jid = 'telegram:42'
  const [team, other] = [await here.open('team'), await here.open('other')]
  for (const tool of ['engage', 'disengage'])
    assert.match(await team.refusal(tool, { jid }), /the chat telegram:42 belongs to a folder outside team$/)
  await take(here, 'other', jid)
  for (const tool of ['engage', 'disengage'])
    assert.equal(
      await team.refusal(tool, { jid, topic: 'plans' }),
      `engagement: "${jid}" owned by another folder, not caller "team"`,
    )
  await take(here, 'team/a', jid)
  assert.equal(await team.refusal('engage', { jid }), `engagement: "${jid}" owned by "team/a", not caller "team"`)
  // Already theirs, though the chat is another's.
  await take(here, 'team', jid)
  assert.deepEqual(await team.call('engage', { jid }), { ok: true })
  // Whose chat it is may take it back.
  assert.deepEqual(await other.call('disengage', { jid }), { ok: true })
  assert.equal(await engagedIn(here, jid), undefined)
  // What nobody has is nobody's to let go of.
  assert.match(await team.refusal('disengage', { jid: 'telegram:7' }), /has no route in this instance$/)
  await here.at.grant('folder:other', 'mcp:engage', 'other', 'deny', `jid=${jid}`)
  assert.match(await other.refusal('engage', { jid }), /^engage: not permitted/)
})

test('a folder above the one that has a conversation cannot take it, the root included', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  await here.route('room=42', 'team/a')
  const jid = 'telegram:42'
  for (const folder of ['main', 'team'])
    for (const tool of ['engage', 'disengage'])
      assert.equal(
        await (await here.open(folder)).refusal(tool, { jid }),
        `engagement: "${jid}" owned by "team/a", not caller "${folder}"`,
      )
  assert.deepEqual(await (await here.open('team/a')).call('engage', { jid }), { ok: true })
})

test('a turn that answers in a chat of another folder takes nothing over there', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  await here.route('room=42', 'team')
  const jid = 'telegram:42'
  await here.begin({ id: 'guest', folder: 'team/a', jid, is_guest: true })
  await take(here, 'team/a', jid)
  const child = await here.open('team/a')
  for (const tool of ['engage', 'disengage'])
    assert.equal(
      await child.refusal(tool, { jid }),
      `${tool}: not permitted in a turn that answers in a chat of another folder`,
    )
  assert.equal(
    await child.refusal('inject_message', { chatJid: jid, content: 'take it' }),
    'inject_message: not permitted in a turn that answers in a chat of another folder',
  )
  assert.equal(
    await child.refusal('inject_message', { chatJid: 'team/a', content: 'take it' }),
    'inject_message: not permitted in a turn that answers in a chat of another folder',
  )
})

test('chats and topics that are none are refused', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const team = await here.open('team')
  for (const tool of ['engage', 'disengage'])
    for (const [args, said] of [
      [{}, 'jid is required'],
      [{ jid: '' }, /^jid must/],
      [{ jid: 'team' }, 'jid must look like platform:room'],
      [{ jid: 'web:team', topic: 5 }, 'topic must be text'],
      [{ jid: 'web:team', topic: 'x'.repeat(129) }, 'topic is longer than 128 characters'],
      [{ jid: 'web:team', chatJid: 'web:team' }, 'unknown field "chatJid"'],
    ] as const) {
      const text = await team.refusal(tool, args)
      if (typeof said === 'string') assert.equal(text, said)
      else assert.match(text, said)
    }
})
