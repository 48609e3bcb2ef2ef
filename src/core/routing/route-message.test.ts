import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine } from '../../../test/support/host.ts'
import { openRoutingTest } from '../../../test/support/routing.ts'
import type { Tx } from '../../store/engine.ts'
import { chats, upsertChat } from '../chats/chats.ts'
import { outbox } from '../delivery/outbox.ts'
import { groups } from '../groups/groups.ts'
import { inbox } from '../messages/inbox.ts'
import { onboarding } from '../people/onboarding.ts'
import { type Turn, turns } from '../turns/turns.ts'
import { engage, findLiveEngagement } from './engagements.ts'
import { routeMessage } from './route-message.ts'
import type { RoutingDecision } from './routing-decision.ts'

const JID = 'telegram:42'
const SENDER = 'telegram:7'

const TURN: Turn = {
  id: '',
  folder: 'team',
  topic: '',
  jid: JID,
  chat_topic: '',
  sender: SENDER,
  first_seq: 1,
  last_seq: 1,
  message_count: 1,
  state: 'done',
  attempts: 1,
  fence: 1,
  leased_until: 0,
  run_after: 0,
  replies: 1,
  depth: 0,
  is_isolated: false,
  is_timed: false,
  is_guest: false,
  is_stopping: false,
  started_at: '2026-01-01T00:00:00.000Z',
}

/** One line with the kind, folder, topic and reply. */
function summarize(decision: RoutingDecision): string {
  const where = decision.topic === '' ? '' : `#${decision.topic}`
  if (decision.kind === 'daemon') return `daemon ${decision.name}`
  if (decision.kind !== 'end') return `${decision.kind} ${decision.folder}${where}`
  return `${decision.outcome}${decision.reply === undefined ? '' : `: ${decision.reply}`}`
}

onEveryEngine('routing a message', (engine) => {
  test('a link delivers to the folder that was stored with the message', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'other'])
    const link = { jid: 'web:team/x', target_folder: 'team', topic: 'bills' }
    assert.deepEqual(await on.decide('hello', link), {
      kind: 'turn',
      folder: 'team',
      topic: 'bills',
      chat_topic: 'bills',
      verb: 'message',
    })
    assert.equal(summarize(await on.decide('hello', { jid: 'hook:team/ci', target_folder: 'team' })), 'turn team')
  })

  test('a link message without a target folder goes to the folder in its JID', async (t) => {
    const on = await openRoutingTest(t, engine)
    assert.equal(summarize(await on.decide('hello', { jid: 'web:team/support' })), 'turn team/support')
    assert.equal(summarize(await on.decide('hello', { jid: 'hook:team/support/ci' })), 'turn team/support')
  })

  test('a message of a link whose folder was removed fails with a reply and does not enter onboarding', async (t) => {
    const on = await openRoutingTest(t, engine)
    const decision = await on.decide('hello', { jid: 'web:gone', target_folder: 'gone' })
    assert.match(summarize(decision), /^failed: This link no longer works/)
    assert.match(decision.kind === 'end' ? (decision.reason ?? '') : '', /gone no longer exists/)
    assert.equal(summarize(await on.decide('hello', { jid: 'hook:gone/ci' })), 'failed')
    assert.deepEqual(await on.write((tx) => onboarding.list(tx)), [])
  })

  test('a link message can name a topic or a child folder, but only for itself', async (t) => {
    const on = await openRoutingTest(t, engine)
    const link = { jid: 'web:team', target_folder: 'team' }
    assert.equal(summarize(await on.decide('#bills how much?', link)), 'turn team#bills')
    assert.equal(summarize(await on.decide('@support why?', link)), 'turn team/support')
    assert.equal(summarize(await on.decide('@other why?', link)), 'turn team')
    assert.equal(summarize(await on.decide('@support', link)), 'turn team')
    assert.equal(summarize(await on.decide('hello', link)), 'turn team')
    // A link to the root does not lead to other folders.
    assert.equal(summarize(await on.decide('@other why?', { jid: 'web:main', target_folder: 'main' })), 'turn main')
  })

  test('a webhook post cannot use directives or commands', async (t) => {
    const on = await openRoutingTest(t, engine)
    for (const text of ['/new', '/ping', '#bills how much?', '@support why?'])
      assert.equal(summarize(await on.decide(text, { jid: 'hook:team/ci', target_folder: 'team' })), 'turn team')
  })

  test('a message of a tool or task goes to its folder as plain text', async (t) => {
    const on = await openRoutingTest(t, engine)
    const delegated = { jid: 'team/support', sender: 'delegate', target_folder: 'team/support' }
    const envelope = { verb: 'delegate', depth: 1, as_folder: 'team/support', return_jid: JID }
    assert.equal(summarize(await on.decide('/new', delegated, envelope)), 'turn team/support')
    const timed = { sender: 'timed', target_folder: 'team' }
    assert.equal(summarize(await on.decide('/stop', timed, { task_id: 'x', as_folder: 'team' })), 'turn team')
    const alone = { sender: 'timed-isolated:x', target_folder: 'team' }
    const isolated = { task_id: 'x', is_isolated: true, as_folder: 'team' }
    assert.equal(summarize(await on.decide('go', alone, isolated)), 'turn team#timed:x')
  })

  test("a chat's topic never names the conversation of an isolated task", async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    const topic = 'timed:x'
    assert.equal(
      summarize(await on.decide('hi', { jid: 'web:team', target_folder: 'team', topic })),
      'turn team#chat:timed:x',
    )
    assert.equal(summarize(await on.decide('hi', { topic })), 'turn team#chat:timed:x')
  })

  test('a message to a folder name reaches the folder, whatever the routes', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'other'])
    assert.equal(summarize(await on.decide('hello', { jid: 'team' })), 'turn team')
    assert.equal(summarize(await on.decide('hello', { jid: 'missing' })), 'failed')
  })

  test('routes each message separately, so a message after a mention does not affect the mention', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['room=42 verb=mention', 'team'], ['room=42', 'team#observe'])
    assert.equal(summarize(await on.decide('bot, help', {}, { verb: 'mention' })), 'turn team')
    assert.equal(summarize(await on.decide('lunch?', {}, { verb: 'message' })), 'observe team')
  })

  test('a command does not swallow the message before it', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    assert.equal(summarize(await on.decide('how much?')), 'turn team')
    assert.match(summarize(await on.decide('/ping')), /^answered: pong/)
  })

  test('an engaged chat stays with its folder despite #observe and other routes', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['room=42', 'team#observe'], ['', 'other'])
    const until = on.clock.now() + 60_000
    await on.write((tx) => engage(tx, { jid: JID, topic: '', folder: 'team/support', until }))
    assert.equal(summarize(await on.decide('and then?')), 'turn team/support')
    assert.equal(summarize(await on.decide('and then?', { topic: 'thread' })), 'turn team/support#thread')
    on.clock.advance(60_000)
    assert.equal(summarize(await on.decide('and then?')), 'observe team')
  })

  test('ignores an engagement with a removed folder', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    await on.write(async (tx) => {
      await engage(tx, { jid: JID, topic: '', folder: 'other', until: on.clock.now() + 60_000 })
      await groups.remove(tx, { folder: 'other' })
    })
    assert.equal(summarize(await on.decide('hello')), 'turn team')
  })

  test('a reply goes to the folder whose message it answers', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team#observe'])
    await on.sent('team/sales', '100')
    assert.equal(summarize(await on.decide('why?', {}, { verb: 'mention', reply_to_id: '100' })), 'turn team/sales')
    assert.equal(summarize(await on.decide('why?', {}, { verb: 'mention', reply_to_id: '101' })), 'observe team')
    // A reaction is not a reply.
    assert.equal(summarize(await on.decide('👍', {}, { verb: 'like', reply_to_id: '100' })), 'observe team')
  })

  test('a reply to an id of another chat does not reach the folder of that chat', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    await on.sent('other', '100', { jid: 'telegram:1' })
    const [{ id } = { id: '' }] = await on.write((tx) => outbox.list(tx))
    assert.equal(summarize(await on.decide('why?', {}, { verb: 'mention', reply_to_id: id })), 'turn team')
  })

  test('a reply continues the conversation it answers, except that of an isolated task', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    await on.write(async (tx) => {
      await turns.insert(tx, { ...TURN, id: 'one', topic: 'bills' })
      await turns.insert(tx, { ...TURN, id: 'two', topic: 'timed:x', is_isolated: true })
    })
    await on.sent('team', '100', { turn_id: 'one' })
    await on.sent('team', '101', { turn_id: 'two' })
    const reply = (reply_to_id: string) => on.decide('why?', {}, { verb: 'mention', reply_to_id })
    assert.equal(summarize(await reply('100')), 'turn team#bills')
    assert.equal(summarize(await reply('101')), 'turn team')
  })

  test('a /root turn does not engage the root, and replies to it do not reach the root', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    const until = on.clock.now() + 60_000
    await on.write(async (tx) => {
      await engage(tx, { jid: JID, topic: '', folder: 'main', until })
      await turns.insert(tx, { ...TURN, id: 'one', folder: 'main' })
    })
    await on.sent('main', '100', { turn_id: 'one' })
    const reply = () => on.decide('and me?', {}, { verb: 'mention', reply_to_id: '100' })
    assert.equal(summarize(await on.decide('hello')), 'turn main')
    assert.equal(summarize(await reply()), 'turn main')
    const updated_at = '2026-01-01T00:00:00.000Z'
    const row = { message_seq: 0, id: 'one', jid: JID, folder: 'main', topic: '', chat_topic: '', sender: SENDER }
    await on.write((tx) => inbox.insert(tx, { ...row, verb: 'root', state: 'answered', updated_at }))
    assert.equal(summarize(await on.decide('hello')), 'turn team')
    assert.equal(summarize(await reply()), 'turn team')
  })

  test('@name selects a folder for the chat and @ resets it', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    const until = on.clock.now() + 60_000
    await on.write((tx) => engage(tx, { jid: JID, topic: '', folder: 'team', until }))
    assert.equal(summarize(await on.decide('@support')), 'answered: routing → team/support')
    // Otherwise the engagement would take precedence.
    assert.equal(await on.write((tx) => findLiveEngagement(tx, JID, '', on.clock.now())), undefined)
    assert.equal(summarize(await on.decide('hello')), 'turn team/support')
    assert.equal(summarize(await on.decide('@sales why?')), 'turn team/sales')
    assert.equal(summarize(await on.decide('@')), 'answered: routing reset to default')
    assert.equal(summarize(await on.decide('hello')), 'turn team')
  })

  test('@name is plain text unless it names a child of the folder', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    for (const text of ['@joe', '@other', '@joe hello', '@other hello', '@main hello'])
      assert.equal(summarize(await on.decide(text)), 'turn team', text)
    assert.equal((await on.write((tx) => chats.find(tx, { jid: JID })))?.sticky_folder, undefined)
  })

  test('a chat of the root can name any folder', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'main'])
    assert.equal(summarize(await on.decide('@other hello')), 'turn other')
    assert.equal(summarize(await on.decide('@team/support hello')), 'turn team/support')
    assert.equal(summarize(await on.decide('@team/support')), 'answered: routing → team/support')
    assert.equal(summarize(await on.decide('hello')), 'turn team/support')
  })

  test('ignores a selected folder that was removed or is not allowed any more', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'other' }))
    assert.equal(summarize(await on.decide('hello')), 'turn team')
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'team/gone' }))
    assert.equal(summarize(await on.decide('hello')), 'turn team')
  })

  test('selecting a folder does not make an observed room start turns', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['verb=mention', 'team'], ['', 'team#observe'])
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'team/support' }))
    assert.equal(summarize(await on.decide('lunch?')), 'observe team/support')
    assert.equal(summarize(await on.decide('help', {}, { verb: 'mention' })), 'turn team/support')
  })

  test('#name selects a topic for the chat and # resets it', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    assert.equal(summarize(await on.decide('#bills')), 'answered: topic → bills')
    assert.equal(summarize(await on.decide('hello')), 'turn team#bills')
    assert.equal(summarize(await on.decide('#taxes how much?')), 'turn team#taxes')
    assert.equal(summarize(await on.decide('#')), 'answered: topic reset to default')
    assert.equal(summarize(await on.decide('hello')), 'turn team')
  })

  test('@name and #topic alone are plain text in an observed room', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team#observe'])
    for (const text of ['#party', '#', '@', '#party tonight'])
      assert.equal(summarize(await on.decide(text)), 'observe team', text)
    assert.equal(await on.write((tx) => chats.find(tx, { jid: JID })), undefined)
    assert.equal(summarize(await on.decide('@support help')), 'turn team/support')
  })

  test("uses the selected topic, then the chat's topic, then the route's topic", async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team#pinned'])
    assert.equal(summarize(await on.decide('hello')), 'turn team#pinned')
    const threaded = await on.decide('hello', { topic: 'thread' })
    assert.equal(summarize(threaded), 'turn team#thread')
    assert.equal(threaded.chat_topic, 'thread')
    await on.write((tx) => upsertChat(tx, JID, { sticky_topic: 'chosen' }))
    const selected = await on.decide('hello', { topic: 'thread' })
    assert.equal(summarize(selected), 'turn team#chosen')
    assert.equal(selected.chat_topic, 'thread')
  })

  test('injected messages, task messages and reactions cannot use directives', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['', 'team'])
    assert.equal(
      summarize(await on.decide('/stop', { sender: 'injected:telegram:7' }, { from_turn: 'x' })),
      'turn team',
    )
    assert.equal(summarize(await on.decide('@support', { sender: 'timed' })), 'turn team')
    assert.equal(summarize(await on.decide('/stop', {}, { verb: 'untrusted' })), 'turn team')
  })

  test('routes to a daemon, to drop and to echo', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['room=1', 'daemon:mail'], ['room=2', 'builtin:drop'], ['room=3', 'builtin:echo'])
    assert.equal(summarize(await on.decide('hi', { jid: 'telegram:1' })), 'daemon mail')
    assert.equal(summarize(await on.decide('/ping', { jid: 'telegram:2' })), 'silent')
    assert.equal(summarize(await on.decide('hi there', { jid: 'telegram:3' })), 'answered: hi there')
  })

  test('a route to a missing folder fails with a reply that names the folder', async (t) => {
    const on = await openRoutingTest(t, engine)
    await on.route(['room=1', 'ghost#observe'], ['room=2', 'team/{sender}'], ['', 'ghost'])
    const decision = await on.decide('hello')
    assert.match(summarize(decision), /^failed: This chat is routed to the folder ghost, which does not exist\./)
    assert.match(decision.kind === 'end' ? (decision.reason ?? '') : '', /^route \d+ leads to the folder ghost/)
    assert.equal(summarize(await on.decide('lunch?', { jid: 'telegram:1' })), 'failed')
    const own = summarize(await on.decide('hello', { jid: 'telegram:2' }))
    assert.equal(
      own,
      'failed: You do not have a folder here yet. An operator can create it with: svc group test add telegram:2 team/tg-7',
    )
    assert.equal(summarize(await on.decide('/chatid')), `answered: ${JID}`)
  })

  test('a chat without a route enters onboarding and gets one notice', async (t) => {
    const on = await openRoutingTest(t, engine)
    assert.match(
      summarize(await on.decide('hello')),
      /^onboarding: Hello! This chat has no folder yet\. To ask for a folder, reply with a name/,
    )
    assert.equal(summarize(await on.decide('/help')), 'onboarding')
    const [row, ...more] = await on.write((tx) => onboarding.list(tx))
    assert.deepEqual([row?.jid, row?.status, more.length], [JID, 'awaiting_message', 0])
    assert.equal(summarize(await on.decide('/chatid')), `answered: ${JID}`)
    assert.equal(summarize(await on.decide('/ping')), 'onboarding')
    assert.match(summarize(await on.decide('hello', { jid: 'telegram:43' })), /^onboarding: /)
  })

  test('a room without a route gets a reply only when it mentions the agent', async (t) => {
    const on = await openRoutingTest(t, engine)
    assert.equal(summarize(await on.decide('lunch?', {}, { is_group: true, verb: 'message' })), 'silent')
    assert.deepEqual(await on.write((tx) => onboarding.list(tx)), [])
    assert.match(summarize(await on.decide('bot?', {}, { is_group: true, verb: 'mention' })), /^onboarding: /)
  })

  test('a failed read throws instead of counting as no route', async (t) => {
    const on = await openRoutingTest(t, engine)
    const context = await on.context()
    const message = {
      seq: 1,
      id: 'x',
      jid: JID,
      direction: 'in' as const,
      kind: 'message' as const,
      sender: SENDER,
      content: Buffer.from('hello'),
      created_at: '2026-01-01T00:00:00.000Z',
    }
    const broken = { executeQuery: () => Promise.reject(new Error('no disk')) } as unknown as Tx
    await assert.rejects(routeMessage(broken, context, { message }))
    const table = { ...context.routes, match: () => assert.fail('no table') }
    await assert.rejects(
      on.write((tx) => routeMessage(tx, { ...context, routes: table }, { message })),
      /no table/,
    )
  })
})
