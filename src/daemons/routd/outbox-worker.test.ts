import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { openChannelApi } from '../../../test/support/channel-api.ts'
import { chatTools, OTHER_ROOM, ROOM } from '../../../test/support/chat-tools.ts'
import { EVERY_CAPABILITY, type FakeAdapter, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { fakeChannel, withChannel } from '../../../test/support/fake-channel.ts'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { finishTurn, startTurn } from '../../../test/support/turns.ts'
import { until } from '../../../test/support/until.ts'
import { ChannelError } from '../../core/delivery/channel.ts'
import { registerChannel } from '../../core/delivery/channel-registrations.ts'
import { DELIVERIES, DELIVERY_LEASE_MS, deliver } from '../../core/delivery/delivery.ts'
import {
  type OutboundMessage,
  type OutboxRow,
  outbox,
  type RecordedOutbound,
  recordOutbound,
} from '../../core/delivery/outbox.ts'
import { chatFiles } from '../../core/files/chat-files.ts'
import { findLastReplyId, findLiveEngagement } from '../../core/routing/engagements.ts'
import { DEFAULT_TURN_RULES } from '../../core/turns/turn-rules.ts'
import { turns } from '../../core/turns/turns.ts'
import { groupsResource } from '../../resources/groups.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { fileTools } from '../../tools/file.ts'
import { sendTools } from '../../tools/send.ts'
import { OutboxWorker } from './outbox-worker.ts'

const jid = 'telegram:group/1'

interface Room extends TestHost {
  readonly adapter: FakeAdapter
  record(content: string, over?: Partial<OutboundMessage>): Promise<RecordedOutbound>
  rows(): Promise<OutboxRow[]>
  worker(): OutboxWorker
  /** Waits until no row is waiting. */
  settled(): Promise<OutboxRow[]>
}

interface RoomOptions {
  readonly isKeyed?: boolean
  /** Overrides the capabilities of the adapter. */
  readonly claims?: boolean
  readonly engine?: EngineName
  readonly on?: TestHost
}

async function openRoom(t: TestContext, options: RoomOptions = {}): Promise<Room> {
  const { isKeyed = false, claims = isKeyed, engine = 'sqlite' } = options
  const at = options.on ?? (await testHost(t, engine))
  const { host } = at
  const adapter = await fakeAdapter(t, { isKeyed })
  const capabilities = { ...EVERY_CAPABILITY, dedupe: claims }
  const registration = { name: 'teled', url: adapter.url, jid_prefixes: ['telegram:'], capabilities }
  await host.engine.transaction((tx) => registerChannel(tx, host, registration))
  const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
  const rows = () => host.engine.read((tx) => outbox.list(tx))
  return {
    ...at,
    adapter,
    record: async (content, over = {}) => {
      const out = { jid, topic: '', folder: 'team', content, ...over }
      const recorded = await host.engine.transaction((tx) => recordOutbound(tx, context, DEFAULT_TURN_RULES, out))
      host.signals.emit(recorded.keys)
      return recorded
    },
    rows,
    worker: () => {
      const worker = new OutboxWorker({ host, log: { warn: () => {} } })
      t.after(() => worker.close())
      return worker
    },
    settled: async () => {
      await until(async () => (await rows()).every(({ state }) => state !== 'pending' && state !== 'sending'))
      return rows()
    },
  }
}

const leased = { leaseMs: DELIVERY_LEASE_MS }
/** How long a waiting message blocks later ones. */
const IN_ORDER_MS = 600_000

onEveryEngine('the outbox', (engine) => {
  test('messages are sent in the order of their chat, by any number of processes', async (t) => {
    const { record, adapter, worker, settled } = await openRoom(t, { engine })
    const contents = Array.from({ length: 12 }, (_, at) => `message ${at}`)
    for (const [at, content] of contents.entries()) await record(content, { jid: `telegram:group/${at % 2}` })
    for (let at = 0; at < 3; at++) worker()
    const rows = await settled()
    assert.deepEqual(new Set(rows.map(({ state }) => state)), new Set(['sent']))
    for (const chat of [0, 1]) {
      const inChat = adapter.delivered.filter((one) => one.jid === `telegram:group/${chat}`)
      assert.deepEqual(
        inChat.map(({ content }) => content),
        contents.filter((_, at) => at % 2 === chat),
      )
    }
  })

  test('deliveries of an account are counted under its platform', async (t) => {
    const { record, worker, settled, host, adapter } = await openRoom(t, { engine })
    const work = { name: 'work', url: adapter.url, jid_prefixes: ['telegram-work:'], capabilities: EVERY_CAPABILITY }
    await host.engine.transaction((tx) => registerChannel(tx, host, work))
    worker()
    await record('hello', { jid: 'telegram-work:user/1' })
    await settled()
    assert.equal(host.metrics.count(DELIVERIES, { platform: 'telegram', result: 'sent' }), 1)
  })

  test('a message names the agent that writes it', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    const { record, adapter, worker, settled } = await openRoom(t, { on })
    worker()
    await record('as in its folder')
    await record('of a folder that is gone', { folder: 'gone' })
    await settled()
    await on.cli.call(groupsResource.verbs.set, { folder: 'team', key: 'name', to: 'The Desk' })
    await record('with a name')
    await settled()
    const names = adapter.requests.map(({ body }) => body.agent_name)
    assert.deepEqual(names, ['team', undefined, 'The Desk'])
  })

  test('a platform that does not answer has 16 slots, and delays no other', async (t) => {
    const { record, adapter, worker, rows, host } = await openRoom(t, { engine })
    const quick = await fakeAdapter(t)
    const chatd = { name: 'chatd', url: quick.url, jid_prefixes: ['discord:'], capabilities: EVERY_CAPABILITY }
    await host.engine.transaction((tx) => registerChannel(tx, host, chatd))
    adapter.behave('held')
    for (let chat = 0; chat < 18; chat++) await record('held', { jid: `telegram:group/${chat}` })
    await record('other', { jid: 'discord:guild/1' })
    worker()
    await until(() => quick.delivered.length === 1 && adapter.requests.length === 16)
    const waiting = (await rows()).filter(({ state }) => state === 'pending')
    assert.deepEqual(
      waiting.map((row) => row.jid),
      ['telegram:group/16', 'telegram:group/17'],
    )
    adapter.behave('ok')
    adapter.release()
    await until(async () => (await rows()).every(({ state }) => state === 'sent'))
  })

  test('a tool that sends directly gets the id, and the next reply quotes it', async (t) => {
    const { record, adapter, host, rows } = await openRoom(t, { engine })
    const recorded = await record('hello', { ...leased, topic: 'news', payload: { replyTo: 'p0' } })
    assert.deepEqual(await deliver(host, recorded), { state: 'sent', platform_id: 'p1' })
    const [row] = await rows()
    assert.deepEqual([row?.state, row?.platform_id, row?.attempts], ['sent', 'p1', 1])
    const { key, reply_to, thread_id } = adapter.requests[0]?.body ?? {}
    assert.deepEqual([key, reply_to, thread_id], [recorded.id, 'p0', 'news'])
    assert.equal(await host.engine.read((tx) => findLastReplyId(tx, jid, 'news')), 'p1')
    // A second delivery sends nothing.
    assert.deepEqual(await deliver(host, recorded), { state: 'sent', platform_id: 'p1', error: undefined })
    assert.equal(adapter.delivered.length, 1)
  })

  test('a delivered message engages the chat, an undelivered one does not', async (t) => {
    const { record, adapter, host, clock } = await openRoom(t, { engine })
    const engaged = () => host.engine.read((tx) => findLiveEngagement(tx, jid, '', clock.now()))
    adapter.behave({ status: 503 })
    assert.equal((await deliver(host, await record('first', leased))).state, 'pending')
    assert.equal(await engaged(), undefined)
    clock.advance(IN_ORDER_MS + 1)
    adapter.behave('ok')
    assert.equal((await deliver(host, await record('second', leased))).state, 'sent')
    assert.equal(await engaged(), 'team')
    clock.advance(host.rules.engagementMs)
    assert.equal(await engaged(), undefined)
    assert.equal((await deliver(host, await record('news', { ...leased, engages: false }))).state, 'sent')
    assert.equal(await engaged(), undefined)
  })

  test('an adapter that registers gets waiting messages at once', async (t) => {
    const at = await testHost(t, engine)
    const { host } = at
    const context = { dialect: host.engine.dialect, clock: host.clock, random: host.random }
    const say = (chat: string) =>
      host.engine.transaction((tx) =>
        recordOutbound(tx, context, DEFAULT_TURN_RULES, {
          jid: chat,
          topic: '',
          folder: 'team',
          content: 'hello',
          ...leased,
        }),
      )
    for (const chat of ['telegram:1', 'slack_1:1', 'slackx1:1'])
      assert.equal((await deliver(host, await say(chat))).state, 'pending')
    const adapter = await fakeAdapter(t, { isKeyed: false })
    const api = await openChannelApi(t, at)
    const capabilities = EVERY_CAPABILITY
    await api.register({ name: 'teled', url: adapter.url, jid_prefixes: ['telegram:', 'slack_1:'], capabilities })
    const worker = new OutboxWorker({ host, log: { warn: () => {} } })
    t.after(() => worker.close())
    const states = async () =>
      (await host.engine.read((tx) => outbox.list(tx)))
        .map(({ jid, state }) => `${jid} ${state}`)
        .sort()
        .join(', ')
    await until(async () => (await states()) === 'slack_1:1 sent, slackx1:1 pending, telegram:1 sent')
    assert.equal(adapter.delivered.length, 2)
  })

  test('messages wait for the one before them, but not forever', async (t) => {
    const { record, adapter, host, rows, worker, clock, settled } = await openRoom(t, { engine })
    adapter.behave({ status: 503 })
    assert.equal((await deliver(host, await record('first', leased))).state, 'pending')
    assert.deepEqual(await deliver(host, await record('second', leased)), {
      state: 'pending',
      platform_id: undefined,
      error: undefined,
    })
    assert.equal(adapter.requests.length, 1)
    // After ten minutes a waiting message blocks no others.
    clock.advance(600_001)
    adapter.behave(({ body }) => (body.content === 'first' ? { status: 503 } : 'ok'))
    worker()
    await until(async () => (await rows()).map(({ state }) => state).join() === 'pending,sent')
    adapter.behave('ok')
    clock.advance(3_600_000)
    assert.deepEqual(
      (await settled()).map(({ state }) => state),
      ['sent', 'sent'],
    )
  })
})

onEveryEngine('a clock that is set back', (engine) => {
  const DAY_MS = 24 * 3_600_000

  test('delays no due message or retry, and shortens no pause', async (t) => {
    const { record, adapter, host, rows, worker, clock, settled } = await openRoom(t, { engine })
    adapter.behave({ status: 429, headers: { 'Retry-After': '300' } })
    assert.equal((await deliver(host, await record('tried', leased))).state, 'pending')
    await record('new', { jid: 'telegram:group/2' })
    adapter.behave('ok')
    clock.advance(-DAY_MS)
    worker()
    await until(async () => (await rows())[1]?.state === 'sent')
    const tried = (await rows())[0] ?? assert.fail()
    assert.deepEqual([tried.state, tried.next_at - clock.now()], ['pending', 300_000])
    clock.advance(299_999)
    await record('other', { jid: 'telegram:group/3' })
    await until(async () => (await rows())[2]?.state === 'sent')
    assert.equal((await rows())[0]?.state, 'pending')
    clock.advance(1)
    assert.deepEqual(new Set((await settled()).map(({ state }) => state)), new Set(['sent']))
    assert.equal(adapter.delivered.length, 3)
  })

  test('keeps a message leased for one lease and no longer', async (t) => {
    const { record, adapter, rows, worker, clock, settled } = await openRoom(t, { engine, isKeyed: true })
    // The sending process dies.
    await record('held by the recorder', leased)
    adapter.behave('silent')
    const claimed = worker()
    await record('held by the worker', { jid: 'telegram:group/2' })
    await until(() => adapter.requests.length === 1)
    void claimed.close()
    clock.advance(-DAY_MS)
    adapter.behave('ok')
    worker()
    const leases = async () => (await rows()).map((row) => row.leased_until - clock.now())
    await until(async () => (await leases()).join() === `${DELIVERY_LEASE_MS},${DELIVERY_LEASE_MS}`)
    clock.advance(DELIVERY_LEASE_MS - 1)
    await record('other', { jid: 'telegram:group/3' })
    await until(async () => (await rows())[2]?.state === 'sent')
    assert.deepEqual(
      (await rows()).slice(0, 2).map(({ state }) => state),
      ['sending', 'sending'],
    )
    clock.advance(1)
    assert.deepEqual(new Set((await settled()).map(({ state }) => state)), new Set(['sent']))
  })

  test('by less than the clock skew of two machines rewrites nothing', async (t) => {
    const { record, rows, worker, clock } = await openRoom(t, { engine })
    await record('held', leased)
    const before = await rows()
    clock.advance(-10_000)
    worker()
    await record('other', { jid: 'telegram:group/3' })
    await until(async () => (await rows())[1]?.state === 'sent')
    assert.deepEqual((await rows())[0], before[0])
    clock.advance(-1)
    await until(async () => (await rows())[0]?.leased_until === clock.now() + DELIVERY_LEASE_MS)
  })
})

suite('a failed attempt', () => {
  test('is recorded and not repeated when it is permanent', async (t) => {
    const { record, adapter, host, rows, worker, clock } = await openRoom(t)
    adapter.behave({ status: 400, body: { ok: false, error: 'the bot was blocked' } }, 'ok')
    const delivery = await deliver(host, await record('hello', leased))
    assert.deepEqual([delivery.state, delivery.error], ['failed', 'teled answers 400: the bot was blocked'])
    worker()
    clock.advance(3_600_000)
    await record('later', { jid: 'telegram:group/2' })
    await until(() => adapter.delivered.length === 1)
    assert.deepEqual((await rows()).map(({ state, error }) => [state, error])[0], ['failed', delivery.error])
    assert.equal(adapter.requests.length, 2)
  })

  test('for an unsupported action gives a hint without a request', async (t) => {
    const { record, adapter, host } = await openRoom(t)
    const registration = {
      name: 'teled',
      url: adapter.url,
      jid_prefixes: ['telegram:'],
      capabilities: { send_text: true },
    }
    await host.engine.transaction((tx) => registerChannel(tx, host, registration))
    host.signals.emit(['channels'])
    const recorded = await record('', { ...leased, action: 'quote', payload: { sourceMsgId: 'p1', comment: 'well' } })
    const { state, error, hint, isUnsupported } = await deliver(host, recorded)
    assert.deepEqual([state, error, isUnsupported], ['failed', 'unsupported: quote on telegram', true])
    assert.equal(hint, 'use reply(chatJid, text, replyToId)')
    assert.equal(adapter.requests.length, 0)
  })

  test('is retried with back-off and Retry-After, and abandoned after a day', async (t) => {
    const { record, adapter, host, rows, clock } = await openRoom(t)
    adapter.behave({ status: 502 })
    const { seq } = await record('hello', leased)
    const pauses: number[] = []
    const attempt = async (fence: number): Promise<string> => {
      const { state } = await deliver(host, { message_seq: seq, fence })
      const [row] = await rows()
      if (state === 'pending') pauses.push((row?.next_at ?? 0) - clock.now())
      return state
    }
    const claim = () =>
      host.engine.transaction((tx) =>
        outbox.update(tx, { message_seq: seq }, { state: 'sending', fence: 1, attempts: pauses.length + 1 }),
      )
    for (let at = 0; at < 4; at++) {
      await claim()
      await attempt(1)
    }
    assert.deepEqual(pauses, [2000, 4000, 8000, 16_000])
    adapter.behave({ status: 429, headers: { 'Retry-After': '300' } })
    await claim()
    await attempt(1)
    assert.equal(pauses.at(-1), 300_000)
    clock.advance(24 * 3_600_000)
    await claim()
    assert.equal(await attempt(1), 'failed')
    assert.match((await rows())[0]?.error ?? '', /^gave up after 24 hours: teled answers 429/)
  })

  test('without an adapter waits for one', async (t) => {
    const { record, worker, rows, clock, settled, host } = await openRoom(t)
    worker()
    await record('hello', { jid: 'discord:1/2' })
    await until(async () => /no adapter for discord is registered/.test((await rows())[0]?.error ?? ''))
    assert.equal((await rows())[0]?.state, 'pending')
    const other = await fakeAdapter(t)
    const registration = { name: 'discd', url: other.url, jid_prefixes: ['discord:'], capabilities: EVERY_CAPABILITY }
    await host.engine.transaction((tx) => registerChannel(tx, host, registration))
    clock.advance(60_000)
    assert.equal((await settled())[0]?.state, 'sent')
    assert.equal(other.delivered.length, 1)
  })

  test('is retried when the connection was refused, because nothing was sent', async (t) => {
    const { record, adapter, host } = await openRoom(t)
    await adapter.close()
    assert.equal((await deliver(host, await record('hello', leased))).state, 'pending')
  })
})

suite('an unknown outcome', () => {
  for (const how of ['dropped after', 'dropped before'] as const) {
    test(`${how} it was delivered: retried with the same key if the adapter supports it`, async (t) => {
      const { record, adapter, host, worker, clock, settled } = await openRoom(t, { isKeyed: true })
      adapter.behave(how, 'ok')
      const delivery = await deliver(host, await record('hello', leased))
      assert.equal(delivery.state, 'sending')
      assert.match(delivery.error ?? '', /did not answer/)
      worker()
      clock.advance(60_000)
      assert.deepEqual(
        (await settled()).map(({ state, platform_id }) => [state, platform_id]),
        [['sent', 'p1']],
      )
      assert.equal(adapter.delivered.length, 1)
      assert.equal(adapter.requests.length, 2)
    })

    test(`${how} it was delivered: left as unknown if it does not`, async (t) => {
      const { record, adapter, host, worker, clock, rows } = await openRoom(t)
      adapter.behave(how, 'ok')
      assert.equal((await deliver(host, await record('hello', leased))).state, 'unknown')
      worker()
      clock.advance(24 * 3_600_000)
      await record('other', { jid: 'telegram:group/2' })
      await until(async () => (await rows())[1]?.state === 'sent')
      const [row] = await rows()
      assert.equal(row?.state, 'unknown')
      assert.match(row?.error ?? '', /did not answer/)
      assert.equal(adapter.requests.length, 2)
    })
  }

  test('stays unknown while the adapter is away, and no other kind of adapter sends it', async (t) => {
    const { record, adapter, host, worker, clock, rows, settled } = await openRoom(t, { isKeyed: true })
    adapter.behave('dropped after', 'ok')
    await deliver(host, await record('hello', leased))
    await adapter.close()
    const running = worker()
    clock.advance(60_000)
    await until(async () => /cannot be reached/.test((await rows())[0]?.error ?? ''))
    assert.equal((await rows())[0]?.state, 'sending')
    await running.close()
    const plain = await fakeAdapter(t)
    await host.engine.transaction(async (tx) => {
      const { deregisterChannel } = await import('../../core/delivery/channel-registrations.ts')
      await deregisterChannel(tx, 'teled')
      const registration = {
        name: 'teled',
        url: plain.url,
        jid_prefixes: ['telegram:'],
        capabilities: EVERY_CAPABILITY,
      }
      await registerChannel(tx, host, registration)
    })
    host.signals.emit(['channels'])
    worker()
    clock.advance(3_600_000)
    assert.equal((await settled())[0]?.state, 'unknown')
    assert.equal(plain.requests.length, 0)
  })
})

// A process is killSender after the adapter has delivered and before the response arrives.
onEveryEngine('a process that is killSender between sending and recording', (engine) => {
  const CHILD = join(import.meta.dirname, '..', '..', '..', 'test', 'support', 'outbox-child.ts')

  const killSender = async (t: TestContext, kind: { isKeyed: boolean; claims: boolean }): Promise<Room> => {
    const store = await freshStore(t, engine)
    const at = await openRoom(t, { ...kind, on: await testHost(t, engine, store) })
    at.adapter.behave('held', 'ok')
    await at.record('hello')
    const orders = JSON.stringify({ store: 'url' in store ? store : { path: store.path }, now: at.clock.now() })
    const child = spawn(process.execPath, [CHILD, orders], { stdio: ['ignore', 'pipe', 'inherit'] })
    const gone = once(child, 'close')
    t.after(() => void child.kill('SIGKILL'))
    await until(() => at.adapter.delivered.length === 1)
    child.kill('SIGKILL')
    await gone
    at.adapter.release()
    const [row] = await at.rows()
    assert.equal(row?.state, 'sending')
    at.worker()
    at.clock.advance(DELIVERY_LEASE_MS + 1)
    return at
  }

  test('an adapter with keys gets it exactly once', async (t) => {
    const { adapter, settled } = await killSender(t, { isKeyed: true, claims: true })
    assert.deepEqual(
      (await settled()).map(({ state, platform_id }) => [state, platform_id]),
      [['sent', 'p1']],
    )
    assert.deepEqual([adapter.delivered.length, adapter.requests.length], [1, 2])
  })

  test('an adapter without keys gets it at most once, and the row is unknown', async (t) => {
    const { adapter, settled } = await killSender(t, { isKeyed: false, claims: false })
    const [row] = await settled()
    assert.equal(row?.state, 'unknown')
    assert.match(row?.error ?? '', /it may have arrived/)
    assert.deepEqual([adapter.delivered.length, adapter.requests.length], [1, 1])
  })

  test('control: a retry without keys delivers twice', async (t) => {
    const { adapter, settled } = await killSender(t, { isKeyed: false, claims: true })
    assert.equal((await settled())[0]?.state, 'sent')
    assert.equal(adapter.delivered.length, 2)
  })
})

test('an adapter with answers of odd shapes fails its delivery alone, with the reason stored', async (t) => {
  const on = await testHost(t)
  const answers: unknown[] = [null, 'text', { id: { nested: true } }, { id: 'm-4' }]
  const send = async () => answers.shift() as { id?: string }
  const channel = { ...fakeChannel({ platform: 'telegram', isKeyed: true }), actions: { send } }
  const host = { ...on.host, channels: withChannel(on.host.channels, channel) }
  const here = await openRoom(t, { on: { ...on, host } })
  here.worker()
  const { id } = await here.record('hello')
  const find = async () => (await here.rows()).find((row) => row.id === id)
  await until(async () => (await find())?.error !== undefined)
  const row = await find()
  assert.match(row?.error ?? '', /Cannot destructure property 'id'/)
  assert.ok(on.faults.some(({ place, message }) => place === 'delivery' && message === row?.error))
  await until(async () => {
    on.clock.advance(60_000)
    host.signals.emit()
    return (await find())?.state === 'sent'
  })
})

onEveryEngine('the answers of a webhook that go to a chat', (engine) => {
  const hook = { target_folder: 'team', source_label: 'ci' }
  const link = 'hook:team/ci'

  async function openHook(t: TestContext) {
    const here = await chatTools(t, engine, [...sendTools, ...fileTools])
    await here.cli.call(routeTokensResource.verbs.issue_operator_hook, { ...hook, answer_to: ROOM })
    const turn = await startTurn(t, here, { folder: 'team', jid: link, sender: 'ci' })
    const tools = await here.tools()
    const worker = new OutboxWorker({ host: here.host, log: { warn: () => {} } })
    t.after(() => worker.close())
    const copies = async () => (await here.said()).filter(({ jid }) => jid === ROOM)
    const settled = async (count: number) => {
      await until(
        async () => (await copies()).filter(({ state }) => state === 'sent' || state === 'failed').length === count,
      )
      return (await copies()).map(({ content, state, error }) => [content, state, error])
    }
    return { ...here, turn, tools, settled, answer: (text: string) => tools.call('send', { chatJid: link, text }) }
  }

  test('are sent there in order, stay in their own chat, and count as one reply', async (t) => {
    const here = await openHook(t)
    await here.answer('one')
    await here.answer('two')
    await here.tools.call('send', { chatJid: OTHER_ROOM.replace('2', 'sub'), text: 'elsewhere' })
    assert.deepEqual(await here.settled(2), [
      ['one', 'sent', undefined],
      ['two', 'sent', undefined],
    ])
    const said = (await here.said()).filter(({ jid }) => jid === link)
    assert.deepEqual(
      said.map(({ content, state }) => [content, state]),
      [
        ['one', 'sent'],
        ['two', 'sent'],
      ],
    )
    const turn = await here.host.engine.read((tx) => turns.find(tx, { id: here.turn.id }))
    assert.equal(turn?.replies, 3)
    // What a person says in that room next is not taken from the folder that it is routed to.
    assert.equal(await here.host.engine.read((tx) => findLiveEngagement(tx, ROOM, '', here.clock.now())), undefined)
    await finishTurn(t, here, here.turn)
    await startTurn(t, here, { folder: 'team', jid: 'team' })
    await here.answer('not an answer')
    assert.equal((await here.settled(2)).length, 2)
  })

  test('have their files, of which no copy stays in the outbox', async (t) => {
    const here = await openHook(t)
    writeFileSync(join(here.home, 'report.pdf'), '%PDF-1.7 first words')
    let sent = ''
    here.fake.next(({ given }) => {
      sent = readFileSync(String(given.path), 'utf8')
    })
    assert.equal(await here.tools.call('send_file', { chatJid: link, filepath: '/home/node/report.pdf' }), 'ok')
    assert.deepEqual(await here.settled(1), [['[file: report.pdf]', 'sent', undefined]])
    assert.equal(sent, '%PDF-1.7 first words')
    await until(() => readdirSync(join(here.home, '..', '..', 'outbox')).length === 0)
    assert.equal((await here.host.engine.read((tx) => chatFiles.list(tx))).length, 1)
  })

  test('fail once the folder may no longer send there', async (t) => {
    const here = await openHook(t)
    await here.grant('folder:team', 'mcp:send', 'team', 'deny', `jid=${ROOM}`)
    await here.answer('one')
    const [[, state, error] = []] = await here.settled(1)
    assert.equal(state, 'failed')
    assert.match(error ?? '', /^send: not permitted/)
    assert.equal(here.fake.calls.length, 0)
  })

  test('fail while sending there must be approved', async (t) => {
    const here = await openHook(t)
    await here.grant('folder:team', 'hold:mcp:send', 'team', 'allow', `jid=${ROOM}`)
    await here.answer('one')
    assert.deepEqual(await here.settled(1), [['one', 'failed', 'send: held until an operator approves it']])
    assert.equal(here.fake.calls.length, 0)
  })

  test('fail once the link is revoked', async (t) => {
    const here = await openHook(t)
    here.fake.next(new ChannelError('transient', 'not now'))
    await here.answer('one')
    await until(() => here.fake.calls.length === 1)
    await here.cli.call(routeTokensResource.verbs.revoke, { jid: link })
    here.clock.advance(2000)
    here.host.signals.emit([], ['outbox'])
    assert.deepEqual(await here.settled(1), [['one', 'failed', `the link ${link} is revoked`]])
    assert.equal(here.fake.calls.length, 1)
  })
})
