// engage and disengage: which folder may take over or release a conversation.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Agents, agents } from '../../test/support/agents.ts'
import { onEveryEngine } from '../../test/support/host.ts'
import { engage, findLiveEngagement } from '../core/routing/engagements.ts'

const HALF_AN_HOUR = 30 * 60_000

const engagedIn = ({ host }: Agents, jid: string, topic = '') =>
  host.engine.read((tx) => findLiveEngagement(tx, jid, topic, host.clock.now()))

const engageAs = ({ host }: Agents, folder: string, jid: string) =>
  host.engine.transaction((tx) => engage(tx, { jid, topic: '', folder, until: host.clock.now() + HALF_AN_HOUR }))

onEveryEngine('engagement', (engine) => {
  test('lasts for a while, can be renewed, and can be released', async (t) => {
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
    // Releasing a conversation without engagement succeeds too.
    assert.deepEqual(await team.call('disengage', { jid }), { ok: true })
  })
})

test('only the folder that owns a conversation can take over or release it', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a', 'other'])
  await here.route('room=42', 'other')
  const jid = 'telegram:42'
  const [team, other] = [await here.open('team'), await here.open('other')]
  for (const tool of ['engage', 'disengage'])
    assert.match(await team.refusal(tool, { jid }), /the chat telegram:42 belongs to a folder outside team$/)
  await engageAs(here, 'other', jid)
  for (const tool of ['engage', 'disengage'])
    assert.equal(
      await team.refusal(tool, { jid, topic: 'plans' }),
      `engagement: "${jid}" owned by another folder, not caller "team"`,
    )
  await engageAs(here, 'team/a', jid)
  assert.equal(await team.refusal('engage', { jid }), `engagement: "${jid}" owned by "team/a", not caller "team"`)
  // Engaged to this folder already, although the chat belongs to another.
  await engageAs(here, 'team', jid)
  assert.deepEqual(await team.call('engage', { jid }), { ok: true })
  // The folder of the chat may take it back.
  assert.deepEqual(await other.call('disengage', { jid }), { ok: true })
  assert.equal(await engagedIn(here, jid), undefined)
  // A chat without a route and without an engagement.
  assert.match(await team.refusal('disengage', { jid: 'telegram:7' }), /has no route in this instance$/)
  await here.at.grant('folder:other', 'mcp:engage', 'other', 'deny', `jid=${jid}`)
  assert.match(await other.refusal('engage', { jid }), /^engage: not permitted/)
})

test('folders above the owner cannot take over its conversation, not even the root', async (t) => {
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

test('a turn that answers in a chat of another folder cannot take it over', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team', 'team/a'])
  await here.route('room=42', 'team')
  const jid = 'telegram:42'
  await here.begin({ id: 'guest', folder: 'team/a', jid, is_guest: true })
  await engageAs(here, 'team/a', jid)
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

test('refuses invalid chats and topics', async (t) => {
  const here = await agents(t, 'sqlite', ['main', 'team'])
  const team = await here.open('team')
  for (const tool of ['engage', 'disengage'])
    for (const [args, expected] of [
      [{}, 'jid is required'],
      [{ jid: '' }, /^jid must/],
      [{ jid: 'team' }, 'jid must look like platform:room'],
      [{ jid: 'web:team', topic: 5 }, 'topic must be text'],
      [{ jid: 'web:team', topic: 'x'.repeat(129) }, 'topic is longer than 128 characters'],
      [{ jid: 'web:team', chatJid: 'web:team' }, 'unknown field "chatJid"'],
    ] as const) {
      const text = await team.refusal(tool, args)
      if (typeof expected === 'string') assert.equal(text, expected)
      else assert.match(text, expected)
    }
})
