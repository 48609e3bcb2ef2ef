import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import type { Tx } from '../../store/engine.ts'
import { chats, upsertChat } from '../chats/chats.ts'
import { outbox, recordOutbound } from '../delivery/outbox.ts'
import { groups } from '../groups/groups.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboundMessage, recordInbound } from '../messages/inbound.ts'
import { inbox } from '../messages/inbox.ts'
import { messages } from '../messages/messages.ts'
import { onboarding } from '../people/onboarding.ts'
import { DEFAULT_TURN_RULES } from '../turns/turn-rules.ts'
import { type Turn, turns } from '../turns/turns.ts'
import { engage, engagedFolder } from './engagements.ts'
import { routeMessage } from './route-message.ts'
import { compileRoutes } from './route-table.ts'
import { routes } from './routes.ts'
import type { RoutingContext, RoutingDecision } from './routing-decision.ts'

interface Opened extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  route(...written: [match: string, target: string][]): Promise<void>
  /** What becomes of a message. */
  decide(content: string, over?: Partial<InboundMessage>, envelope?: Partial<Envelope>): Promise<RoutingDecision>
  /** What an agent has said in the chat, as the platform calls it. */
  said(folder: string, platform_id: string, over?: { jid?: string; turn_id?: string }): Promise<void>
  world(): Promise<RoutingContext>
}

const JID = 'telegram:42'
const SENDER = 'telegram:7'

async function open(t: TestContext, engine: EngineName): Promise<Opened> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/support', 'team/sales', 'other')
  const { host, clock } = on
  const speaking = { dialect: host.engine.dialect, clock, random: host.random }
  const write: Opened['write'] = (work) => host.engine.transaction(work)
  const world = (): Promise<RoutingContext> =>
    host.engine.read(async (tx) => ({
      writeContext: speaking,
      rules: DEFAULT_TURN_RULES,
      policy: await host.policies.read(tx),
      routes: compileRoutes(await routes.list(tx)),
      instance: 'test',
      assistantName: 'bot',
    }))
  return {
    ...on,
    write,
    world,
    route: async (...written) => {
      await write(async (tx) => {
        for (const [seq, [match, target]] of written.entries()) await routes.append(tx, { seq, match, target })
      })
    },
    decide: async (content, over = {}, envelope) => {
      const around = await world()
      return write(async (tx) => {
        const inbound: InboundMessage = {
          jid: JID,
          sender: SENDER,
          content,
          reach: 'all',
          ...over,
          ...(envelope ? { envelope } : {}),
        }
        const { seq } = await recordInbound(tx, speaking, inbound)
        const message = await messages.find(tx, { seq })
        assert.ok(message)
        return routeMessage(tx, around, { message, envelope: await envelopes.find(tx, { message_seq: seq }) })
      })
    },
    said: (folder, platform_id, { jid = JID, turn_id } = {}) =>
      write(async (tx) => {
        const out = { jid, topic: '', folder, turn_id, content: 'hi', engages: false }
        const { seq } = await recordOutbound(tx, speaking, DEFAULT_TURN_RULES, out)
        await outbox.update(tx, { message_seq: seq }, { state: 'sent', platform_id })
      }),
  }
}

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

/** Only what a test is about. */
function brief(decision: RoutingDecision): string {
  const where = decision.topic === '' ? '' : `#${decision.topic}`
  if (decision.kind === 'daemon') return `daemon ${decision.name}`
  if (decision.kind !== 'end') return `${decision.kind} ${decision.folder}${where}`
  return `${decision.outcome}${decision.say === undefined ? '' : `: ${decision.say}`}`
}

onEveryEngine('decision', (engine) => {
  test('a link delivers to the folder that was stored with the message', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'other'])
    const link = { jid: 'web:team/x', target_folder: 'team', topic: 'bills' }
    assert.deepEqual(await on.decide('hello', link), {
      kind: 'turn',
      folder: 'team',
      topic: 'bills',
      chat_topic: 'bills',
      verb: 'message',
    })
    assert.equal(brief(await on.decide('hello', { jid: 'hook:team/ci', target_folder: 'team' })), 'turn team')
  })

  test('a message of a link from before targets were kept is read from the name of its chat', async (t) => {
    const on = await open(t, engine)
    assert.equal(brief(await on.decide('hello', { jid: 'web:team/support' })), 'turn team/support')
    assert.equal(brief(await on.decide('hello', { jid: 'hook:team/support/ci' })), 'turn team/support')
  })

  test('a message of a link whose folder is gone fails with a sentence, and does not end up in onboarding', async (t) => {
    const on = await open(t, engine)
    const decision = await on.decide('hello', { jid: 'web:gone', target_folder: 'gone' })
    assert.match(brief(decision), /^failed: Nobody is here any more/)
    assert.match(decision.kind === 'end' ? (decision.reason ?? '') : '', /gone does not exist/)
    assert.equal(brief(await on.decide('hello', { jid: 'hook:gone/ci' })), 'failed')
    assert.deepEqual(await on.write((tx) => onboarding.list(tx)), [])
  })

  test('in the chat of a link, a topic and a child folder can be named, and nothing sticks', async (t) => {
    const on = await open(t, engine)
    const link = { jid: 'web:team', target_folder: 'team' }
    assert.equal(brief(await on.decide('#bills how much?', link)), 'turn team#bills')
    assert.equal(brief(await on.decide('@support why?', link)), 'turn team/support')
    assert.equal(brief(await on.decide('@other why?', link)), 'turn team')
    assert.equal(brief(await on.decide('@support', link)), 'turn team')
    assert.equal(brief(await on.decide('hello', link)), 'turn team')
    // A link to the root is no way to every other folder.
    assert.equal(brief(await on.decide('@other why?', { jid: 'web:main', target_folder: 'main' })), 'turn main')
  })

  test('a webhook never steers', async (t) => {
    const on = await open(t, engine)
    for (const text of ['/new', '/ping', '#bills how much?', '@support why?'])
      assert.equal(brief(await on.decide(text, { jid: 'hook:team/ci', target_folder: 'team' })), 'turn team')
  })

  test('what a tool or a schedule asks goes to the folder that it names, as plain text', async (t) => {
    const on = await open(t, engine)
    const delegated = { jid: 'team/support', sender: 'delegate', target_folder: 'team/support' }
    const envelope = { verb: 'delegate', depth: 1, as_folder: 'team/support', return_jid: JID }
    assert.equal(brief(await on.decide('/new', delegated, envelope)), 'turn team/support')
    const timed = { sender: 'timed', target_folder: 'team' }
    assert.equal(brief(await on.decide('/stop', timed, { task_id: 'x', as_folder: 'team' })), 'turn team')
    const alone = { sender: 'timed-isolated:x', target_folder: 'team' }
    const isolated = { task_id: 'x', is_isolated: true, as_folder: 'team' }
    assert.equal(brief(await on.decide('go', alone, isolated)), 'turn team#timed:x')
  })

  test('a topic of a chat is never the conversation that a task has for itself', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    const topic = 'timed:x'
    assert.equal(
      brief(await on.decide('hi', { jid: 'web:team', target_folder: 'team', topic })),
      'turn team#chat:timed:x',
    )
    assert.equal(brief(await on.decide('hi', { topic })), 'turn team#chat:timed:x')
  })

  test('what is said to a folder by its name reaches it, whatever the routes say', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'other'])
    assert.equal(brief(await on.decide('hello', { jid: 'team' })), 'turn team')
    assert.equal(brief(await on.decide('hello', { jid: 'nobody' })), 'failed')
  })

  test('each message takes its own route: chatter after a mention does not lose the mention', async (t) => {
    const on = await open(t, engine)
    await on.route(['room=42 verb=mention', 'team'], ['room=42', 'team#observe'])
    assert.equal(brief(await on.decide('bot, help', {}, { verb: 'mention' })), 'turn team')
    assert.equal(brief(await on.decide('lunch?', {}, { verb: 'message' })), 'observe team')
  })

  test('a question before a command is still a question', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    assert.equal(brief(await on.decide('how much?')), 'turn team')
    assert.match(brief(await on.decide('/ping')), /^answered: pong/)
  })

  test('a chat that is engaged stays with its folder, also against #observe and another route', async (t) => {
    const on = await open(t, engine)
    await on.route(['room=42', 'team#observe'], ['', 'other'])
    const until = on.clock.now() + 60_000
    await on.write((tx) => engage(tx, { jid: JID, topic: '', folder: 'team/support', until }))
    assert.equal(brief(await on.decide('and then?')), 'turn team/support')
    assert.equal(brief(await on.decide('and then?', { topic: 'thread' })), 'turn team/support#thread')
    on.clock.advance(60_000)
    assert.equal(brief(await on.decide('and then?')), 'observe team')
  })

  test('an engagement with a folder that is gone counts no more', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    await on.write(async (tx) => {
      await engage(tx, { jid: JID, topic: '', folder: 'other', until: on.clock.now() + 60_000 })
      await groups.remove(tx, { folder: 'other' })
    })
    assert.equal(brief(await on.decide('hello')), 'turn team')
  })

  test('a reply goes to the folder that said what it answers', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team#observe'])
    await on.said('team/sales', '100')
    assert.equal(brief(await on.decide('why?', {}, { verb: 'mention', reply_to_id: '100' })), 'turn team/sales')
    assert.equal(brief(await on.decide('why?', {}, { verb: 'mention', reply_to_id: '101' })), 'observe team')
    // A reaction is no answer.
    assert.equal(brief(await on.decide('👍', {}, { verb: 'like', reply_to_id: '100' })), 'observe team')
  })

  test('a reply to an id of another chat reaches nobody there', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    await on.said('other', '100', { jid: 'telegram:1' })
    const [{ id } = { id: '' }] = await on.write((tx) => outbox.list(tx))
    assert.equal(brief(await on.decide('why?', {}, { verb: 'mention', reply_to_id: id })), 'turn team')
  })

  test('a reply goes on with the conversation it answers, but not with that of a task', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    await on.write(async (tx) => {
      await turns.insert(tx, { ...TURN, id: 'one', topic: 'bills' })
      await turns.insert(tx, { ...TURN, id: 'two', topic: 'timed:x', is_isolated: true })
    })
    await on.said('team', '100', { turn_id: 'one' })
    await on.said('team', '101', { turn_id: 'two' })
    const reply = (reply_to_id: string) => on.decide('why?', {}, { verb: 'mention', reply_to_id })
    assert.equal(brief(await reply('100')), 'turn team#bills')
    assert.equal(brief(await reply('101')), 'turn team')
  })

  test('after /root the chat is not with the root, and nobody reaches it by a reply', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    const until = on.clock.now() + 60_000
    await on.write(async (tx) => {
      await engage(tx, { jid: JID, topic: '', folder: 'main', until })
      await turns.insert(tx, { ...TURN, id: 'one', folder: 'main' })
    })
    await on.said('main', '100', { turn_id: 'one' })
    const reply = () => on.decide('and me?', {}, { verb: 'mention', reply_to_id: '100' })
    assert.equal(brief(await on.decide('hello')), 'turn main')
    assert.equal(brief(await reply()), 'turn main')
    const updated_at = '2026-01-01T00:00:00.000Z'
    const asked = { message_seq: 0, id: 'one', jid: JID, folder: 'main', topic: '', chat_topic: '', sender: SENDER }
    await on.write((tx) => inbox.insert(tx, { ...asked, verb: 'root', state: 'answered', updated_at }))
    assert.equal(brief(await on.decide('hello')), 'turn team')
    assert.equal(brief(await reply()), 'turn team')
  })

  test('@name chooses a folder for the chat, and @ goes back', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    const until = on.clock.now() + 60_000
    await on.write((tx) => engage(tx, { jid: JID, topic: '', folder: 'team', until }))
    assert.equal(brief(await on.decide('@support')), 'answered: routing → team/support')
    // Else the engagement would keep the chat where it was.
    assert.equal(await on.write((tx) => engagedFolder(tx, JID, '', on.clock.now())), undefined)
    assert.equal(brief(await on.decide('hello')), 'turn team/support')
    assert.equal(brief(await on.decide('@sales why?')), 'turn team/sales')
    assert.equal(brief(await on.decide('@')), 'answered: routing reset to default')
    assert.equal(brief(await on.decide('hello')), 'turn team')
  })

  test('a name that is no child of the folder is plain text', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    for (const text of ['@joe', '@other', '@joe hello', '@other hello', '@main hello'])
      assert.equal(brief(await on.decide(text)), 'turn team', text)
    assert.equal((await on.write((tx) => chats.find(tx, { jid: JID })))?.sticky_folder, undefined)
  })

  test('in a chat of the root, any folder may be named', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'main'])
    assert.equal(brief(await on.decide('@other hello')), 'turn other')
    assert.equal(brief(await on.decide('@team/support hello')), 'turn team/support')
    assert.equal(brief(await on.decide('@team/support')), 'answered: routing → team/support')
    assert.equal(brief(await on.decide('hello')), 'turn team/support')
  })

  test('a chosen folder that is no longer allowed, or gone, is passed over', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'other' }))
    assert.equal(brief(await on.decide('hello')), 'turn team')
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'team/gone' }))
    assert.equal(brief(await on.decide('hello')), 'turn team')
  })

  test('a chosen folder does not turn a room that is observed into one that is answered', async (t) => {
    const on = await open(t, engine)
    await on.route(['verb=mention', 'team'], ['', 'team#observe'])
    await on.write((tx) => upsertChat(tx, JID, { sticky_folder: 'team/support' }))
    assert.equal(brief(await on.decide('lunch?')), 'observe team/support')
    assert.equal(brief(await on.decide('help', {}, { verb: 'mention' })), 'turn team/support')
  })

  test('#name chooses a topic for the chat, and # goes back', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    assert.equal(brief(await on.decide('#bills')), 'answered: topic → bills')
    assert.equal(brief(await on.decide('hello')), 'turn team#bills')
    assert.equal(brief(await on.decide('#taxes how much?')), 'turn team#taxes')
    assert.equal(brief(await on.decide('#')), 'answered: topic reset to default')
    assert.equal(brief(await on.decide('hello')), 'turn team')
  })

  test('in a room that is only observed, other people may write of @names and #topics', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team#observe'])
    for (const text of ['#party', '#', '@', '#party tonight'])
      assert.equal(brief(await on.decide(text)), 'observe team', text)
    assert.equal(await on.write((tx) => chats.find(tx, { jid: JID })), undefined)
    assert.equal(brief(await on.decide('@support help')), 'turn team/support')
  })

  test('a conversation is the chosen topic, else that of the chat, else that of the route', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team#pinned'])
    assert.equal(brief(await on.decide('hello')), 'turn team#pinned')
    const threaded = await on.decide('hello', { topic: 'thread' })
    assert.equal(brief(threaded), 'turn team#thread')
    assert.equal(threaded.chat_topic, 'thread')
    await on.write((tx) => upsertChat(tx, JID, { sticky_topic: 'chosen' }))
    const chosen = await on.decide('hello', { topic: 'thread' })
    assert.equal(brief(chosen), 'turn team#chosen')
    assert.equal(chosen.chat_topic, 'thread')
  })

  test('what is injected, scheduled or only a reaction does not steer a chat', async (t) => {
    const on = await open(t, engine)
    await on.route(['', 'team'])
    assert.equal(brief(await on.decide('/stop', { sender: 'injected:telegram:7' }, { from_turn: 'x' })), 'turn team')
    assert.equal(brief(await on.decide('@support', { sender: 'timed' })), 'turn team')
    assert.equal(brief(await on.decide('/stop', {}, { verb: 'untrusted' })), 'turn team')
  })

  test('a daemon, drop and echo are targets', async (t) => {
    const on = await open(t, engine)
    await on.route(['room=1', 'daemon:mail'], ['room=2', 'builtin:drop'], ['room=3', 'builtin:echo'])
    assert.equal(brief(await on.decide('hi', { jid: 'telegram:1' })), 'daemon mail')
    assert.equal(brief(await on.decide('/ping', { jid: 'telegram:2' })), 'silent')
    assert.equal(brief(await on.decide('hi there', { jid: 'telegram:3' })), 'answered: hi there')
  })

  test('a route to a folder that does not exist fails with a notice', async (t) => {
    const on = await open(t, engine)
    await on.route(['room=1', 'ghost#observe'], ['room=2', 'team/{sender}'], ['', 'ghost'])
    const decision = await on.decide('hello')
    assert.match(brief(decision), /^failed: This chat leads to the folder ghost, which does not exist\./)
    assert.match(decision.kind === 'end' ? (decision.reason ?? '') : '', /^route \d+ leads to the folder ghost/)
    assert.equal(brief(await on.decide('lunch?', { jid: 'telegram:1' })), 'failed')
    const own = brief(await on.decide('hello', { jid: 'telegram:2' }))
    assert.equal(
      own,
      'failed: You have no place of your own here yet. An operator makes it with: svc group test add telegram:2 team/tg-7',
    )
    assert.equal(brief(await on.decide('/chatid')), `answered: ${JID}`)
  })

  test('a chat that nobody has waits in onboarding and is told so once', async (t) => {
    const on = await open(t, engine)
    assert.match(
      brief(await on.decide('hello')),
      /^onboarding: Nobody has this chat yet\. .* svc group test add telegram:42/,
    )
    assert.equal(brief(await on.decide('hello?')), 'onboarding')
    const [row, ...more] = await on.write((tx) => onboarding.list(tx))
    assert.deepEqual([row?.jid, row?.status, more.length], [JID, 'awaiting_message', 0])
    assert.equal(brief(await on.decide('/chatid')), `answered: ${JID}`)
    assert.equal(brief(await on.decide('/ping')), 'onboarding')
    assert.match(brief(await on.decide('hello', { jid: 'telegram:43' })), /^onboarding: /)
  })

  test('a room that nobody has is spoken to only when it speaks to the agent', async (t) => {
    const on = await open(t, engine)
    assert.equal(brief(await on.decide('lunch?', {}, { is_group: true, verb: 'message' })), 'silent')
    assert.deepEqual(await on.write((tx) => onboarding.list(tx)), [])
    assert.match(brief(await on.decide('bot?', {}, { is_group: true, verb: 'mention' })), /^onboarding: /)
  })

  test('a store that does not answer is no miss', async (t) => {
    const on = await open(t, engine)
    const around = await on.world()
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
    await assert.rejects(routeMessage(broken, around, { message }))
    const table = { ...around.routes, match: () => assert.fail('no table') }
    await assert.rejects(
      on.write((tx) => routeMessage(tx, { ...around, routes: table }, { message })),
      /no table/,
    )
  })
})
