// Answers of webhooks that are posted to a URL, from the end of the turn to a real receiver.
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { suite, type TestContext, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { type AnswerReceiver, openAnswerReceiver } from '../../../test/support/answer-receiver.ts'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { until } from '../../../test/support/until.ts'
import { isChannelError } from '../../channels/channel.contract.ts'
import { openChannel } from '../../channels/hook/adapter.ts'
import { DELIVERY_LEASE_MS } from '../../core/delivery/delivery.ts'
import { type OutboxRow, outbox } from '../../core/delivery/outbox.ts'
import { webHosts } from '../../core/links/web-hosts.ts'
import { findLiveEngagement } from '../../core/routing/engagements.ts'
import type { Turn } from '../../core/turns/turns.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { answerAddressPolicy } from '../process/answer-addresses.ts'
import { OutboxWorker } from './outbox-worker.ts'

const { issue_operator_hook, revoke } = routeTokensResource.verbs
const jid = 'hook:main/ci'

interface Room extends ConversationHost {
  readonly receiver: AnswerReceiver
  readonly secret: string
  /** A turn of a message through the link. */
  asked(content?: string): Promise<Turn>
  worker(): OutboxWorker
  rows(): Promise<OutboxRow[]>
  /** Waits until every row is in one of these states. */
  settled(...states: string[]): Promise<OutboxRow[]>
}

interface RoomOptions {
  readonly engine?: EngineName
  readonly isPrivateAllowed?: boolean
  readonly url?: (receiver: AnswerReceiver) => string
}

async function openRoom(t: TestContext, options: RoomOptions = {}): Promise<Room> {
  const { engine = 'sqlite', isPrivateAllowed = true, url = (to) => to.url } = options
  const receiver = await openAnswerReceiver(t)
  const answers = { isPrivateAllowed, lookup: receiver.lookup }
  const at = await testHost(t, engine, undefined, { answers })
  // Receivers check the time.
  at.clock.advance(Date.now() - at.clock.now())
  const talk = await openConversationHost(t, engine, at)
  await at.groups('main')
  const minted = await at.cli.call(issue_operator_hook, {
    target_folder: 'main',
    source_label: 'ci',
    answer_to: url(receiver),
  })
  const rows = () => at.host.engine.read((tx) => outbox.list(tx, {}, [['message_seq', 'asc']]))
  return {
    ...talk,
    receiver,
    secret: minted.answer_secret ?? assert.fail('no secret'),
    asked: async (content = 'build 7 failed') => {
      await talk.ask(content, { jid, sender: 'ci', hasRound: false })
      return (await talk.mustClaim()).turn
    },
    worker: () => {
      const worker = new OutboxWorker({ host: at.host, log: { warn: () => {} } })
      t.after(() => worker.close())
      return worker
    },
    rows,
    settled: async (...states) => {
      await until(async () => (await rows()).every(({ state }) => states.includes(state)))
      return rows()
    },
  }
}

const idsOf = ({ posted }: AnswerReceiver) => posted.map(({ headers }) => headers['webhook-id'])
const dataOf = ({ body }: { readonly body: string } = { body: '' }) => JSON.parse(body).data

onEveryEngine('the answer of a webhook with a URL', (engine) => {
  test('is posted once, signed so that the published library accepts it', needs('openssl'), async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.say(turn, 'Step 3 broke: a test failed.', { topic: 'nightly' })
    await room.end(turn)
    room.worker()
    const [row] = await room.settled('sent')
    assert.deepEqual([row?.jid, row?.attempts, row?.error], [jid, 1, undefined])
    const [posted] = room.receiver.posted
    assert.ok(posted)
    assert.equal(room.receiver.posted.length, 1)
    const { 'webhook-id': id, 'content-type': type } = posted.headers
    assert.deepEqual([posted.path, id, type], ['/answers?for=svc', row?.id, 'application/json'])
    const verified = new Webhook(room.secret).verify(posted.body, posted.headers as Record<string, string>)
    const { timestamp, ...event } = verified as { timestamp: string }
    assert.equal(timestamp, row?.created_at)
    assert.deepEqual(event, {
      type: 'turn.answered',
      data: {
        link: jid,
        folder: 'main',
        turn_id: turn.id,
        message_ids: [turn.id],
        topic: 'nightly',
        content: 'Step 3 broke: a test failed.',
      },
    })
    const other = new Webhook(Buffer.alloc(32).toString('base64'))
    assert.throws(() => other.verify(posted.body, posted.headers as Record<string, string>))
    // A chat of a link is routed by its link.
    assert.equal(
      await room.host.engine.read((tx) => findLiveEngagement(tx, jid, 'nightly', room.clock.now())),
      undefined,
    )
    // The chat of the link has it at once.
    assert.equal((await room.turn(turn.id)).replies, 1)
  })

  test('has one request for each message in order, and none for a status or another turn', async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.say(turn, 'one')
    await room.say(turn, 'working', { kind: 'status' })
    await room.say(turn, 'two')
    await room.say(turn, 'thr', { isPartial: true })
    await room.end(turn)
    await room.ask('hello')
    const { turn: elsewhere } = await room.mustClaim()
    await room.say(elsewhere, 'not an answer', { jid })
    await room.say(turn, 'a notice of the instance', { turn_id: undefined, folder: undefined })
    room.receiver.respond((response) => setTimeout(() => response.writeHead(200).end(), 20))
    room.worker()
    await room.settled('sent')
    const contents = room.receiver.posted.map((each) => dataOf(each).content)
    assert.deepEqual(contents, ['one', 'two', 'thr'])
    assert.deepEqual(
      room.receiver.posted.map((each) => dataOf(each).partial),
      [undefined, undefined, true],
    )
  })

  test('says in the words of the chat that the turn failed, also to a sender that polls', async (t) => {
    const room = await openRoom(t, { engine })
    await room.ask('why?', { jid, sender: 'ci', hasRound: true })
    const { turn } = await room.mustClaim()
    const notice = 'The agent could not answer; try again later.'
    await room.end(turn, { outcome: 'failed', reason: 'no such model at 10.0.0.1', notice })
    room.worker()
    await room.settled('sent')
    const { type, data } = JSON.parse(room.receiver.posted[0]?.body ?? '')
    assert.deepEqual([type, data.content, data.folder, data.turn_id], ['turn.failed', notice, 'main', turn.id])
    assert.ok(!room.receiver.posted[0]?.body.includes('10.0.0.1'))
  })

  test('is retried with the same id and body, and a new signature', async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.say(turn, 'answer')
    const found = (response: ServerResponse) => response.writeHead(302, { Location: room.receiver.url }).end()
    const busy = (response: ServerResponse) => response.writeHead(503, { 'Retry-After': '100' }).end()
    room.receiver.respond(404, found, busy, 200)
    room.worker()
    const errors: (string | undefined)[] = []
    for (let attempt = 1; attempt <= 3; attempt++) {
      await until(async () => (await room.rows())[0]?.error !== errors.at(-1))
      const row = (await room.rows())[0] ?? assert.fail()
      assert.deepEqual([row.state, row.attempts], ['pending', attempt])
      errors.push(row.error)
      if (attempt === 3) assert.equal(row.next_at - room.clock.now(), 100_000)
      room.clock.advance(row.next_at - room.clock.now())
    }
    await room.settled('sent')
    const { origin } = new URL(room.receiver.url)
    const redirect = `${origin} answers 302: redirects are not followed`
    assert.deepEqual(errors, [`${origin} answers 404`, redirect, `${origin} answers 503`])
    assert.equal(new Set(idsOf(room.receiver)).size, 1)
    assert.equal(new Set(room.receiver.posted.map(({ body }) => body)).size, 1)
    assert.equal(new Set(room.receiver.posted.map(({ headers }) => headers['webhook-signature'])).size, 4)
  })

  test('is given up at once after 410, and never tried for a revoked link', async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.say(turn, 'first')
    room.receiver.respond(410)
    room.worker()
    const [gone] = await room.settled('failed')
    const { origin } = new URL(room.receiver.url)
    assert.equal(gone?.error, `${origin} answers 410: it accepts no more answers`)
    room.receiver.respond(503)
    await room.say(turn, 'second')
    room.host.signals.emit([], ['outbox'])
    await until(async () => (await room.rows())[1]?.error !== undefined)
    await room.cli.call(revoke, { jid })
    room.clock.advance(2000)
    const rows = await room.settled('failed')
    assert.deepEqual([rows[1]?.error, room.receiver.posted.length], ['its link is revoked', 2])
    // Without the link, messages stay in the chat.
    await room.say(turn, 'third')
    assert.equal((await room.rows())[2]?.state, 'sent')
  })

  test('never goes to the receiver of a later link', async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.say(turn, 'refused')
    room.receiver.respond(503, () => {})
    room.worker()
    await until(async () => (await room.rows())[0]?.error !== undefined)
    await room.say(turn, 'waiting')
    room.clock.advance(2000)
    await until(() => room.receiver.posted.length === 2)
    await room.cli.call(revoke, { jid })
    const other = { answer_to: `https://other.example:${room.receiver.port}/later` }
    await room.cli.call(issue_operator_hook, { target_folder: 'main', source_label: 'ci', ...other })
    room.receiver.respond(200)
    room.clock.advance(DELIVERY_LEASE_MS)
    const states = (await room.rows()).map(({ state, error }) => [state, error])
    assert.deepEqual(states, [
      ['unknown', 'its link is revoked'],
      ['failed', 'its link is revoked'],
    ])
    await room.say(await room.asked(), 'of the later link')
    await until(async () => (await room.rows())[2]?.state === 'sent')
    assert.deepEqual(
      room.receiver.posted.map((each) => dataOf(each).content),
      ['refused', 'refused', 'of the later link'],
    )
  })

  test('is sent again with the same id by the process that follows one that died', async (t) => {
    const room = await openRoom(t, { engine })
    const turn = await room.asked()
    await room.submit('main', { turn_id: turn.id, fence: turn.fence, result: 'answer' })
    await room.end(turn)
    room.receiver.respond(() => {}, 200)
    const first = room.worker()
    await until(() => room.receiver.posted.length === 1)
    void first.close()
    room.clock.advance(DELIVERY_LEASE_MS)
    room.worker()
    const [row] = await room.settled('sent')
    assert.deepEqual(idsOf(room.receiver), [row?.id, row?.id])
  })

  test('goes to no URL that has become a host of this instance', async (t) => {
    const room = await openRoom(t, { engine, url: ({ port }) => `https://other.example:${port}/hook/x` })
    const hosts = { hostname: `other.example:${room.receiver.port}`, folder: 'main' }
    await room.write((tx) => webHosts.insert(tx, hosts))
    await room.say(await room.asked(), 'answer')
    room.worker()
    const [row] = await room.settled('failed')
    assert.match(
      row?.error ?? '',
      /gets no answers: it is a link of this instance, and links cannot answer to each other$/,
    )
    assert.equal(room.receiver.posted.length, 0)
  })
})

suite('a receiver', needs('openssl'), () => {
  const send = async (room: Room, timeoutMs = 2000) => {
    const turn = await room.asked()
    const { id } = await room.say(turn, 'answer')
    await room.end(turn)
    const answerAddresses = async () => answerAddressPolicy({ isPrivateAllowed: true, lookup: room.receiver.lookup })
    const channel = openChannel({ ...room.host, answerAddresses }, timeoutMs)
    return channel.actions.send?.({ jid, key: id, content: '' })
  }

  test('that never answers is given up after a while, and may have the answer', async (t) => {
    const room = await openRoom(t)
    room.receiver.respond(() => {})
    await assert.rejects(send(room, 100), isChannelError('unclear', 'did not answer \\(no response in time\\)'))
  })

  test('that never answers does not keep a process alive that stops', async (t) => {
    const room = await openRoom(t)
    room.receiver.respond(() => {})
    await room.say(await room.asked(), 'answer')
    const channel = (await room.host.channels.resolve(jid)) ?? assert.fail()
    const [row] = await room.rows()
    const sending = channel.actions.send?.({ jid, key: row?.id ?? '', content: '' })
    const isEnded = assert.rejects(async () => sending, isChannelError('unclear', 'ABORT_ERR'))
    await until(() => room.receiver.posted.length === 1)
    await room.host.close()
    await isEnded
  })

  test('is done with its status, however long its body is', async (t) => {
    const room = await openRoom(t)
    let isClosed = false
    room.receiver.respond((response) => {
      response.on('close', () => {
        isClosed = true
      })
      response.writeHead(200)
      const more = (): void => void (response.destroyed || response.write('x'.repeat(1000), () => setImmediate(more)))
      more()
    })
    assert.deepEqual(await send(room), {})
    await until(() => isClosed)
  })

  test('that switches protocols has not accepted the answer', async (t) => {
    const room = await openRoom(t)
    room.receiver.respond((response) => {
      response.socket?.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
    })
    await assert.rejects(send(room), isChannelError('transient', 'answers 101'))
  })

  test('without a valid certificate gets nothing', async (t) => {
    const room = await openRoom(t, { url: ({ port }) => `https://wrong.example:${port}/` })
    await assert.rejects(send(room), isChannelError('transient', 'cannot be reached'))
    assert.equal(room.receiver.posted.length, 0)
  })
})

suite('addresses that are not public', needs('openssl'), () => {
  const REFUSED =
    /cannot be reached \(its address is (not public, and ANSWER_ALLOW_LOCAL is not set|neither public nor private)\)$/

  async function attempt(t: TestContext, url: string, addresses: readonly string[] = [], isPrivateAllowed = false) {
    const room = await openRoom(t, { isPrivateAllowed, url: ({ port }) => url.replace('<port>', `${port}`) })
    if (addresses.length > 0) room.receiver.resolveTo(...addresses)
    await room.say(await room.asked(), 'answer')
    room.worker()
    await until(async () => (await room.rows())[0]?.error !== undefined)
    return { room, row: (await room.rows())[0] ?? assert.fail() }
  }

  test('are refused in the URL and behind a name', async (t) => {
    for (const host of [
      '127.0.0.1',
      '10.1.2.3',
      '169.254.169.254',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[64:ff9b::7f00:1]',
    ]) {
      const { room, row } = await attempt(t, `https://${host}:<port>/`)
      assert.match(row.error ?? '', REFUSED, host)
      assert.deepEqual([row.state, room.receiver.posted.length], ['pending', 0])
    }
    for (const address of ['127.0.0.1', '::ffff:10.0.0.1', '0.0.0.0', '100.64.0.1', 'fd00::1'])
      assert.match((await attempt(t, 'https://receiver.example:<port>/', [address])).row.error ?? '', REFUSED, address)
    // One public address does not help the others.
    const both = await attempt(t, 'https://receiver.example:<port>/', ['93.184.216.34', '127.0.0.1'])
    assert.match(both.row.error ?? '', REFUSED)
  })

  test('are checked at every attempt, so a name that changes does not help', async (t) => {
    const room = await openRoom(t)
    room.receiver.respond(503, 200)
    await room.say(await room.asked(), 'answer')
    room.worker()
    await until(async () => (await room.rows())[0]?.error !== undefined)
    room.receiver.resolveTo('169.254.169.254')
    room.clock.advance(2000)
    await until(async () => REFUSED.test((await room.rows())[0]?.error ?? ''))
    assert.equal(room.receiver.posted.length, 1)
    room.receiver.resolveTo('127.0.0.1')
    room.clock.advance(4000)
    await room.settled('sent')
  })

  test('of metadata services stay refused where private ones are allowed', async (t) => {
    for (const host of ['169.254.169.254', '[fd00:ec2::254]', '[fd20:ce::254]']) {
      const { row } = await attempt(t, `https://${host}:<port>/`, [], true)
      assert.match(row.error ?? '', REFUSED, host)
    }
  })
})

test('a receiver that hangs gets one answer at a time, and delays no other', needs('openssl'), async (t) => {
  const room = await openRoom(t)
  const second = 'hook:main/other'
  await room.cli.call(issue_operator_hook, {
    target_folder: 'main',
    source_label: 'other',
    answer_to: `https://other.example:${room.receiver.port}/other`,
  })
  const turn = await room.asked()
  for (let count = 0; count < 20; count++) await room.say(turn, `held ${count}`)
  await room.end(turn)
  // From now on they wait for none before them.
  room.clock.advance(600_001)
  await room.ask('hello', { jid: second, sender: 'other', hasRound: false })
  await room.say((await room.mustClaim()).turn, 'quick')
  room.receiver.respond((response) => {
    if (room.receiver.posted.at(-1)?.path === '/other') response.writeHead(200).end()
  })
  room.worker()
  await until(() => room.receiver.posted.some(({ path }) => path === '/other'))
  await until(async () => (await room.rows()).at(-1)?.state === 'sent')
  assert.equal((await room.rows()).filter(({ state }) => state === 'sending').length, 1)
  assert.equal(room.receiver.posted.length, 2)
})
