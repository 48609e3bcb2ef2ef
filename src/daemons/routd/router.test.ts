import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { addLink, postOf } from '../../../test/support/rows.ts'
import { until } from '../../../test/support/until.ts'
import { PolicyReader } from '../../core/access/acl.ts'
import type { Reach } from '../../core/access/reach.ts'
import { outbox } from '../../core/delivery/outbox.ts'
import { postInRoom, sandboxEntries } from '../../core/delivery/sandbox-rooms.ts'
import { groups } from '../../core/groups/groups.ts'
import { type InboundMessage, recordInbound } from '../../core/messages/inbound.ts'
import { inbox } from '../../core/messages/inbox.ts'
import { createLinkPostHandler, type LinkPost } from '../../core/messages/link-inbound.ts'
import { decodeContent, filing, messages } from '../../core/messages/messages.ts'
import { onboarding } from '../../core/people/onboarding.ts'
import { routes } from '../../core/routing/routes.ts'
import { conversations } from '../../core/turns/conversations.ts'
import { rounds } from '../../core/turns/rounds.ts'
import { Router, routeBatch } from './router.ts'

const linkPostHandler = createLinkPostHandler()

interface Routing extends ConversationHost {
  route(): Promise<void>
  /** Records a message of a platform chat. */
  receive(content: string, inbound?: Partial<InboundMessage>): Promise<string>
  /** Records and files a message of a link. */
  post(link: string, content: string, hasRound?: boolean, post?: Partial<LinkPost>): Promise<string>
}

async function open(t: TestContext, engine: EngineName): Promise<Routing> {
  const on = await openConversationHost(t, engine)
  const { host } = on
  const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  return {
    ...on,
    route: async () => {
      for (let isMore = true; isMore; )
        ({ isMore } = await on.write((tx) => routeBatch(tx, { host, assistantName: 'svc' })))
    },
    receive: async (content, inbound = {}) =>
      (
        await on.write((tx) =>
          recordInbound(tx, context, {
            jid: 'sandbox:lobby',
            sender: 'sandbox:ann',
            content,
            reach: 'all',
            ...inbound,
          }),
        )
      ).id,
    post: async (link, content, hasRound = false, given = {}) => {
      const post = postOf(on, link, { content: Buffer.from(content), hasRound, ...given })
      await on.write((tx) => linkPostHandler.run(tx, host.engine.dialect, [post]))
      await on.write((tx) => linkPostHandler.runDeferred(tx, host.engine.dialect))
      return post.id
    },
  }
}

onEveryEngine('the router', (engine) => {
  test('a link’s message waits for a turn of its target folder, also when the link is revoked', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'team')
    const link = await addLink(on, 'hook:main/ci', { target_folder: 'team' })
    const ids = [await on.post(link, 'one'), await on.post(link, '/new is not a command of a hook')]
    await on.route()
    for (const id of ids) {
      const { folder, state, topic } = await on.state(id)
      assert.deepEqual([folder, state, topic], ['team', 'waiting', ''])
    }
    const [conversation] = await on.read((tx) => conversations.list(tx))
    assert.deepEqual([conversation?.folder, conversation?.waiting], ['team', 2])
    assert.equal((await on.mustClaim()).turn.message_count, 2)
  })

  test('a message whose routing fails has failed with a reason, and the messages around it are routed', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'web:main')
    const post = (content: string) => on.post(link, content, true, { sender: 'anon:1' })
    const [first, bad, last] = [await post('one'), await post('/new'), await post('two')]
    // Of a visitor's messages only commands need the policies.
    class BrokenReader extends PolicyReader {
      override read = () => Promise.reject(new Error('broken'))
    }
    const router = new Router({ host: { ...on.host, policies: new BrokenReader() }, assistantName: 'svc' })
    t.after(() => router.close())
    await until(async () => (await on.read((tx) => inbox.list(tx))).length === 3)
    for (const id of [first, last]) assert.equal((await on.state(id)).state, 'waiting')
    const { state, reason, folder } = await on.state(bad)
    assert.deepEqual([state, reason, folder], ['failed', 'internal error; see the log', 'main'])
    const round = await on.read((tx) => rounds.find(tx, { id: bad }))
    assert.deepEqual([round?.status, round?.error], ['failed', 'the agent could not answer; try again later'])
  })

  test('a message has the reach of its link, and a turn the reach of its messages', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    await on.grant('github:admin', 'admin', 'main')
    const web = await addLink(on, 'web:main')
    const hook = await addLink(on, 'hook:main/ci')
    const desk = await addLink(on, 'web:main/desk', { target_folder: 'main', tools: 'work' })
    const cases: [link: string, post: Partial<LinkPost>, reach: Reach][] = [
      [web, { sender: 'anon:1' }, 'chat'],
      [web, { sender: 'anon:2', reach: 'all' }, 'all'],
      [web, { sender: 'github:someone' }, 'work'],
      [web, { sender: 'github:admin' }, 'all'],
      [hook, { sender: 'ci' }, 'work'],
      [desk, { sender: 'anon:1' }, 'work'],
    ]
    for (const [n, [link, post, reach]] of cases.entries()) {
      const id = await on.post(link, `no ${n}`, true, { topic: `t${n}`, ...post })
      await on.route()
      assert.equal((await on.state(id)).reach, reach, JSON.stringify(post))
      assert.equal((await on.mustClaim({ turnsPerFolder: 99, turnsMax: 99 })).turn.reach, reach)
    }
  })

  test('a visitor’s messages share no session with other chats or with people of more reach', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'main/child')
    const [web, site] = [await addLink(on, 'web:main'), await addLink(on, 'web:main/site')]
    const postAndRoute = async (link: string, content: string, post: Partial<LinkPost> = {}) => {
      const id = await on.post(link, content, true, { sender: 'anon:1', ...post })
      await on.route()
      const { folder, topic } = await on.state(id)
      return [folder, topic]
    }
    assert.deepEqual(await postAndRoute(web, 'hi'), ['main', 'visitor:web:main#'])
    assert.deepEqual(await postAndRoute(web, 'hi', { topic: 'plans' }), ['main', 'visitor:web:main#plans'])
    assert.deepEqual(await postAndRoute(web, '#plans hi'), ['main', 'visitor:web:main#plans'])
    assert.deepEqual(await postAndRoute(web, '/new #plans hi'), ['main', 'visitor:web:main#plans'])
    assert.deepEqual(await postAndRoute(site, 'hi'), ['main', 'visitor:web:main/site#'])
    // A visitor does not choose another folder.
    assert.deepEqual(await postAndRoute(web, '@child hi'), ['main', 'visitor:web:main#'])
    assert.deepEqual(await postAndRoute(web, '@child hi', { reach: 'all' }), ['main/child', ''])
    assert.deepEqual(await postAndRoute(web, 'hi', { reach: 'all' }), ['main', ''])
    assert.deepEqual(await postAndRoute(web, 'hi', { sender: 'github:1' }), ['main', ''])
    // A visitor's conversation cannot be addressed.
    const forged = 'visitor:web:main/site#'
    assert.deepEqual(await postAndRoute(web, 'hi', { topic: forged, reach: 'all' }), ['main', `chat:${forged}`])
    assert.deepEqual(await postAndRoute(web, 'hi', { topic: forged }), ['main', `visitor:web:main#${forged}`])
  })

  test('a visitor who resets a session resets only their own', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const web = await addLink(on, 'web:main')
    const topics = ['', 'plans', 'visitor:web:main#', 'visitor:web:main#plans']
    const keep = () =>
      on.write(async (tx) => {
        for (const topic of topics) {
          const row = { folder: 'main', topic, waiting: 0, observed_seq: 0, updated_at: '2026-01-01T00:00:00.000Z' }
          await conversations.insertIfMissing(tx, row)
          await conversations.update(tx, { folder: 'main', topic }, { session_id: 's' })
        }
      })
    const topicsWithSession = async () =>
      (await on.read((tx) => conversations.list(tx))).filter(({ session_id }) => session_id).map(({ topic }) => topic)
    await keep()
    await on.post(web, '/new', true, { sender: 'anon:1' })
    await on.route()
    assert.deepEqual((await topicsWithSession()).sort(), ['', 'plans', 'visitor:web:main#plans'])
    await keep()
    await on.post(web, '/new #plans', true, { sender: 'anon:1' })
    await on.route()
    assert.deepEqual((await topicsWithSession()).sort(), ['', 'plans', 'visitor:web:main#'])
  })

  test('routes every filed message exactly once', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'web:main')
    const post = postOf(on, link, { hasRound: true })
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, [post]))
    await on.route()
    assert.equal(await on.read((tx) => inbox.count(tx)), 0)
    await on.write((tx) => linkPostHandler.runDeferred(tx, on.host.engine.dialect))
    await Promise.all([on.route(), on.route(), on.route()])
    assert.equal(await on.read((tx) => inbox.count(tx)), 1)
    assert.equal((await on.read((tx) => conversations.list(tx)))[0]?.waiting, 1)
  })

  test('routes each message by itself: a mention is not lost among later messages', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'team')
    await on.write(async (tx) => {
      await routes.insertReturning(tx, { seq: 0, match: 'room=lobby verb=mention', target: 'team' })
      await routes.insertReturning(tx, { seq: 1, match: 'room=lobby', target: 'team#observe' })
    })
    const ids = [
      await on.receive('chatter'),
      await on.receive('hey svc', { envelope: { verb: 'mention' } }),
      await on.receive('more chatter', { sender: 'sandbox:bob' }),
    ]
    await on.route()
    assert.deepEqual(await Promise.all(ids.map(async (id) => (await on.state(id)).state)), [
      'observed',
      'waiting',
      'observed',
    ])
  })

  test('answers a command without dropping the question before it', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'web:main')
    const [question, ping] = [await on.post(link, 'why?', true), await on.post(link, '/ping', true)]
    await on.route()
    assert.deepEqual([(await on.state(question)).state, (await on.state(ping)).state], ['waiting', 'answered'])
    assert.equal((await on.round(ping)).status, 'success')
    assert.match((await on.frames(ping)).join(), /pong/)
    assert.equal((await on.round(question)).status, 'pending')
  })

  test('an unrouted chat is greeted once, and its messages wait in onboarding', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const ids = [await on.receive('hello?'), await on.receive('/help'), await on.receive('team/ada')]
    await on.route()
    for (const id of ids) assert.equal((await on.state(id)).state, 'onboarding')
    const sent = await on.read((tx) => outbox.list(tx, { jid: 'sandbox:lobby' }))
    const texts = await on.read((tx) => Promise.all(sent.map(({ message_seq: seq }) => messages.find(tx, { seq }))))
    assert.match(
      texts.map((message) => decodeContent(message?.content ?? Buffer.alloc(0))).join(' | '),
      /^Hello! [^|]* \| Your request for the folder team\/ada is noted\./,
    )
    assert.equal((await on.read((tx) => onboarding.find(tx, { jid: 'sandbox:lobby' })))?.status, 'queued')
  })

  test('a message to a removed folder fails with a reason, and so does its round', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'gone')
    const link = await addLink(on, 'web:gone', { target_folder: 'gone' })
    const id = await on.post(link, 'hello', true)
    await on.write((tx) => groups.remove(tx, { folder: 'gone' }))
    await on.route()
    const { status, error } = await on.round(id)
    assert.equal(status, 'failed')
    assert.match(error ?? '', /has been removed/)
  })

  test('fetched history is not routed', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const id = await on.receive('from long ago')
    const [message] = await on.read((tx) => messages.list(tx, { id }))
    assert.ok(message)
    const row = {
      message_seq: message.seq,
      id,
      jid: message.jid,
      topic: '',
      chat_topic: '',
      sender: 'x',
      verb: 'message',
    }
    await on.write((tx) =>
      inbox.insert(tx, { ...row, state: 'observed', reason: 'history', updated_at: message.created_at }),
    )
    await on.route()
    assert.equal((await on.state(id)).reason, 'history')
  })

  test('several batches are routed in order, with commands in between', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'hook:main/ci')
    const posts = Array.from({ length: 1203 }, (_, at) => postOf(on, link, { content: Buffer.from(`${at}`) }))
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, posts))
    for (let isMore = true; isMore; )
      ({ isMore } = await on.write((tx) => linkPostHandler.runDeferred(tx, on.host.engine.dialect)))
    await on.route()
    assert.equal((await on.read((tx) => conversations.list(tx)))[0]?.waiting, 1203)
    const { last_seq } = (await on.read((tx) => filing.find(tx, { id: 1 }))) ?? assert.fail()
    assert.ok(last_seq >= 1203)
    const seen: string[] = []
    for (let claimed = await on.claim(); claimed; claimed = await on.claim()) {
      seen.push(...claimed.messages.map(({ message }) => Buffer.from(message.content).toString()))
      await on.end(claimed.turn)
    }
    assert.deepEqual(
      seen,
      posts.map((_, at) => `${at}`),
    )
  })

  test('webhook posts are routed in order with other messages: a command sees only those before it', async (t) => {
    const on = await open(t, engine)
    await on.groups('main', 'gone')
    await on.grant('github:op', '*', '**')
    const chat = await addLink(on, 'web:main')
    const hook = await addLink(on, 'hook:main/ci')
    const guests = await addLink(on, 'hook:main/guests', { target_folder: 'main', tools: 'chat' })
    const gone = await addLink(on, 'hook:gone/ci', { target_folder: 'gone' })
    const before = await on.post(hook, 'before')
    const status = await on.post(chat, '/status', true, { sender: 'github:op' })
    const rest = [
      await on.post(hook, '/ping is not a command of a hook'),
      await on.post(guests, 'from a guest'),
      await on.post(hook, 'in a topic', true, { topic: 'build' }),
    ]
    const lost = await on.post(gone, 'to nowhere')
    await on.write((tx) => groups.remove(tx, { folder: 'gone' }))
    await on.route()
    assert.match((await on.frames(status)).join(), /messages waiting: 1\b/)
    const routed = await Promise.all([before, ...rest].map((id) => on.state(id)))
    assert.deepEqual(
      routed.map(({ state, folder, topic, reach }) => [state, folder, topic, reach]),
      [
        ['waiting', 'main', '', 'work'],
        ['waiting', 'main', '', 'work'],
        ['waiting', 'main', 'visitor:hook:main/guests#', 'chat'],
        ['waiting', 'main', 'build', 'work'],
      ],
    )
    assert.equal((await on.state(lost)).state, 'failed')
    const waiting = await on.read((tx) => conversations.list(tx))
    assert.deepEqual(waiting.map(({ topic, waiting: count }) => [topic, count]).sort(), [
      ['', 2],
      ['build', 1],
      ['visitor:hook:main/guests#', 1],
    ])
  })

  test('a message that starts a turn gets the reaction of its route, and others none', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    await on.write((tx) => routes.append(tx, { seq: 0, match: 'room=lobby', target: 'main', ack_reaction: '👀' }))
    await on.write((tx) =>
      routes.append(tx, { seq: 0, match: 'room=hall', target: 'main#observe', ack_reaction: '👀' }),
    )
    await on.write((tx) => routes.append(tx, { seq: 0, match: 'room=yard', target: 'main', ack_reaction: '' }))
    const context = { dialect: on.host.engine.dialect, clock: on.clock, random: on.host.random }
    const say = (room: string, content: string) =>
      on.write((tx) => postInRoom(tx, context, { room, person: 'ann', content }))
    const router = new Router({ host: on.host, assistantName: 'svc' })
    t.after(() => router.close())
    for (const room of ['hall', 'yard']) await say(room, 'hello')
    await say('lobby', '/status')
    await say('lobby', 'hello')
    const entries = () => on.read((tx) => sandboxEntries.list(tx, { is_from_me: false }, [['seq', 'asc']]))
    await until(async () => (await entries()).some(({ reactions }) => '👀' in reactions))
    assert.deepEqual(
      (await entries()).map(({ jid, content, reactions }) => [jid, content, reactions]),
      [
        ['sandbox:hall', 'hello', {}],
        ['sandbox:yard', 'hello', {}],
        ['sandbox:lobby', '/status', {}],
        ['sandbox:lobby', 'hello', { '👀': ['svc'] }],
      ],
    )
  })

  test('files and routes messages that a dead process accepted', async (t) => {
    const on = await open(t, engine)
    await on.groups('main')
    const link = await addLink(on, 'hook:main/ci')
    const post = postOf(on, link)
    await on.write((tx) => linkPostHandler.run(tx, on.host.engine.dialect, [post]))
    const router = new Router({ host: on.host, assistantName: 'svc' })
    t.after(() => router.close())
    await until(async () => (await on.read((tx) => inbox.count(tx))) === 1)
    assert.equal((await on.state(post.id)).state, 'waiting')
  })

  test('two routers on one store route each message once', async (t) => {
    const store = await freshStore(t, engine)
    const [one, two] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    two.host.random.bytes(777)
    await one.groups('main')
    const routers = [one, two].map(({ host }) => new Router({ host, assistantName: 'svc' }))
    t.after(() => Promise.all(routers.map((router) => router.close())))
    const link = await addLink(one, 'hook:main/ci')
    const on = await openConversationHost(t, engine, one)
    for (let at = 0; at < 20; at++) {
      const post = postOf(at % 2 ? one : two, link, { content: Buffer.from(`${at}`) })
      await on.write((tx) => linkPostHandler.run(tx, one.host.engine.dialect, [post]))
      await on.write((tx) => linkPostHandler.runDeferred(tx, one.host.engine.dialect))
      one.host.signals.emit()
      two.host.signals.emit()
    }
    await until(async () => (await on.read((tx) => inbox.count(tx))) === 20)
    assert.equal((await on.read((tx) => conversations.list(tx)))[0]?.waiting, 20)
  })
})
