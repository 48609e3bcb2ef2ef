import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { StreamEvent } from '../../../test/support/event-reader.ts'
import { type EngineName, freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import {
  type LinkHost,
  type MintedLink,
  type OpenStream,
  openLinkHost,
  openStream,
} from '../../../test/support/link-host.ts'
import { measureMachineLoad } from '../../../test/support/machine-load.ts'
import { until } from '../../../test/support/until.ts'
import { FAULTS } from '../../lib/fault-boundary.ts'
import { chatFeed } from './event-feeds.ts'
import { type EventFeed, type StreamLimits, Streams, UNSENT_MAX } from './streams.ts'

const BOTH = ['webd', 'routd', 'gated', 'runed']

function opener(t: TestContext, s: LinkHost) {
  return (link: MintedLink, rest: string, lastId?: string): Promise<OpenStream> =>
    openStream(t, s.url('webd') + link.chat + rest, lastId === undefined ? {} : { 'Last-Event-ID': lastId })
}

const data = ({ data }: StreamEvent): Record<string, unknown> => JSON.parse(data)
const ids = (events: readonly StreamEvent[]): number[] => events.map(({ id }) => Number(id))
const numbers = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at)

onEveryEngine('streams', (engine) => {
  test('streams of rounds', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: BOTH })
    const link = await s.mintChat()
    const open = opener(t, s)

    await t.test('frames arrive as they are sent, then round_done, then the server closes', async () => {
      const turn = await s.speak(link, '/wait 100ms\n/status thinking\n/wait 50ms\n/say one\n/wait 50ms\n/say two')
      const stream = await open(link, `${turn}/sse`)
      assert.equal(stream.status, 200)
      assert.equal(stream.headers['content-type'], 'text/event-stream')
      assert.equal(stream.headers['cache-control'], 'no-store')
      assert.equal(stream.headers['x-accel-buffering'], 'no')
      const events = await stream.over()
      assert.match(stream.text(), /^retry: 2000\nid: 1\nevent: status\n/)
      assert.equal(stream.text().match(/retry/g)?.length, 1)
      assert.deepEqual(
        events.map(({ id, event }) => [id, event]),
        [
          ['1', 'status'],
          ['2', 'message'],
          ['3', 'message'],
          ['4', 'round_done'],
        ],
      )
      // Streams and polls return the same frames.
      const { frames } = await s.ended(link, turn)
      assert.deepEqual(events.slice(0, 3).map(data), frames)
      assert.deepEqual(events.slice(3).map(data), [{ turn_id: turn, status: 'success' }])
    })

    await t.test('a client that reconnects with any id gets the rest without gap or repeat', async () => {
      const turn = await s.speak(link, '/count 12')
      await s.ended(link, turn)
      for (let last = 0; last <= 12; last++) {
        for (const stream of [
          await open(link, `${turn}/sse`, `${last}`),
          await open(link, `${turn}/sse?after=${last}`),
        ])
          assert.deepEqual(ids(await stream.over()), numbers(last + 1, 13))
      }
      // The header takes precedence over the query.
      assert.deepEqual(ids(await (await open(link, `${turn}/sse?after=2`, '11')).over()), [12, 13])
    })

    await t.test('reconnecting with the last id of an ended round is 204', async () => {
      const turn = await s.speak(link, '/say x')
      await s.ended(link, turn)
      for (const last of ['2', '3', '999999999999999']) {
        const { status, text } = await s.to(`GET ${link.chat}${turn}/sse`, { headers: { 'Last-Event-ID': last } })
        assert.deepEqual([status, text], [204, ''])
      }
      assert.deepEqual(ids(await (await open(link, `${turn}/sse`, '1')).over()), [2])
    })

    await t.test('a failed round ends its stream with the error', async () => {
      const turn = await s.speak(link, '/say x\n/fail no model')
      const events = await (await open(link, `${turn}/sse`)).over()
      const last = events.at(-1)
      assert.equal(last?.event, 'round_done')
      assert.deepEqual(last && data(last), {
        turn_id: turn,
        status: 'failed',
        error: 'the agent could not answer; try again later',
      })
    })

    await t.test('an invalid Last-Event-Id is 400, one beyond the end waits for new events', async () => {
      const turn = await s.speak(link, '/say a\n/wait 60s\n/say b', 'far')
      for (const last of ['-1', 'abc', '9223372036854775808', '1.5', 'x'.repeat(1024), '1 2'])
        assert.equal(
          (await s.to(`GET ${link.chat}${turn}/sse`, { headers: { 'Last-Event-ID': last } })).status,
          400,
          last,
        )
      await until(async () => (await s.to(`GET ${link.chat}${turn}`)).body.last_seq === 1)
      const [far, near] = [await open(link, `${turn}/sse`, '999999999'), await open(link, `${turn}/sse`)]
      await s.speak(link, '/stop', 'far')
      assert.deepEqual(ids(await far.over()), [2])
      assert.deepEqual(ids(await near.over()), [1, 2])
    })

    await t.test('many subscribers of one round all get all events', async () => {
      const turn = await s.speak(link, '/wait 200ms\n/count 30 2000')
      const streams = await Promise.all(Array.from({ length: 25 }, () => open(link, `${turn}/sse`)))
      for (const stream of streams) assert.deepEqual(ids(await stream.over()), numbers(1, 31))
    })

    await t.test('a hook token has streams at the chat URL too', async () => {
      const hook = await s.mintHook()
      const turn = await s.speak(hook, '/say yes')
      assert.deepEqual(ids(await (await open(hook, `${turn}/sse`)).over()), [1, 2])
    })

    await t.test('a frame larger than the buffer limit arrives', async () => {
      const large = '\u0001'.repeat(600_000)
      // Once as backlog and once live.
      for (const script of [`/say ${large}`, `/wait 300ms\n/say ${large}`]) {
        const { body } = await s.to(`POST ${link.chat}`, { body: script })
        const [first, end] = await (await open(link, `${body.turn_id}/sse`)).over()
        assert.equal(first && data(first).content, large)
        assert.equal(end?.event, 'round_done')
      }
    })
  })

  test('streams of drafts', async (t) => {
    const s = await openLinkHost(t, { engine })
    const link = await s.mintChat()
    const open = opener(t, s)
    const turn = await s.speak(link, 'why?', 'news')
    const piece = {
      ...{ turn, fence: 1, part: 0, jid: link.jid, topic: 'news', folder: 'main', rounds: [turn], from: 0 },
      ...{ text: 'Because', state: 'open' as const },
    }

    await t.test('go to the readers that ask for them, without an id', async () => {
      const asked = ['?deltas=1', '', '?deltas=0', '?deltas=']
      const rounds = await Promise.all(asked.map((query) => open(link, `${turn}/sse${query}`)))
      const chats = await Promise.all(
        ['', '&topic=news', '&topic=', '&after=1'].map((query) => open(link, `events?deltas=1${query}`)),
      )
      s.host.drafts.emit(piece, true)
      const isShown = (stream: OpenStream | undefined): boolean => {
        // A draft without a sign of life would be over.
        s.host.drafts.emit({ ...piece, from: 7, text: '' }, true)
        const [, json = '{}'] = /^event: delta\ndata: (.*)\n\n/m.exec(stream?.text() ?? '') ?? []
        const { n, ...delta } = JSON.parse(json)
        return n > 0 && isDeepStrictEqual(delta, { turn_id: turn, text: 'Because', from: 0 })
      }
      const [round, ...plain] = rounds
      const [all, ofTopic, ofOther, later] = chats
      for (const stream of [round, all, ofTopic, later]) await until(() => isShown(stream))
      // A whole draft for a reader who joins now: then the others have had theirs, too.
      const joined = await open(link, 'events?deltas=1')
      await until(() => isShown(joined))
      for (const stream of [...plain, ofOther]) assert.doesNotMatch(stream?.text() ?? '', /delta/)
      s.host.drafts.emit({ ...piece, from: 7, text: '', state: 'dropped' }, true)
      await until(() => round?.text().includes('"done":true') ?? false)
    })

    await t.test('are not for the readers of another link', async () => {
      const other = await s.mintChat({ jid_suffix: 'other' })
      const stream = await open(other, 'events?deltas=1')
      const own = await open(link, 'events?deltas=1')
      await until(() => {
        s.host.drafts.emit({ ...piece, fence: 2 }, true)
        return own.text().includes('delta')
      })
      assert.ok(!stream.text().includes('delta'))
    })

    await t.test('refuse any other value of deltas', async () => {
      for (const [path, detail] of [
        [`${turn}/sse?deltas=2`, 'deltas must be 1 or 0'],
        ['events?deltas=yes', 'deltas must be 1 or 0'],
        ['events?deltas=1&deltas=1', 'deltas is given twice'],
      ]) {
        const { status, body } = await s.to(`GET ${link.chat}${path}`)
        assert.deepEqual([status, body.detail], [400, detail])
      }
    })
  })

  test('the stream of a whole link', async (t) => {
    const s = await openLinkHost(t, { engine, daemons: BOTH })
    const open = opener(t, s)

    await t.test('questions and replies form one sequence, each question before its reply', async () => {
      const link = await s.mintChat()
      const stream = await open(link, 'events')
      const turn = await s.speak(link, '/status hm\n/say yes', 'bills')
      const events = await stream.count(4)
      assert.deepEqual(ids(events), [1, 2, 3, 4])
      assert.deepEqual(
        events.map(({ event }) => event),
        ['message', 'status', 'message', 'round_done'],
      )
      const [question, status, answer, end] = events.map(data)
      assert.deepEqual(
        [question, status, answer].map((one) => [
          one?.seq,
          one?.role,
          one?.kind,
          one?.turn_id,
          one?.topic,
          one?.content,
        ]),
        [
          [1, 'user', 'message', turn, 'bills', '/status hm\n/say yes'],
          [2, 'assistant', 'status', turn, 'bills', 'hm'],
          [3, 'assistant', 'message', turn, 'bills', 'yes'],
        ],
      )
      assert.equal(question?.id, turn)
      assert.deepEqual(end, { turn_id: turn, status: 'success', topic: 'bills' })
      assert.ok(!stream.isOver())
      stream.cut()
    })

    await t.test('starts with the requested number of latest events, and resumes without a gap', async () => {
      const link = await s.mintChat({ jid_suffix: 'latest' })
      const turn = await s.speak(link, '/count 150')
      await s.ended(link, turn)
      const first = async (rest: string, wanted: number, lastId?: string): Promise<number[]> => {
        const stream = await open(link, `events${rest}`, lastId)
        const events = await stream.count(wanted)
        stream.cut()
        return ids(events)
      }
      // 152 of them: the question, 150 frames, the end.
      assert.deepEqual(await first('', 100), numbers(53, 152))
      assert.deepEqual(await first('?last=3', 3), [150, 151, 152])
      assert.deepEqual(await first('?last=5000', 152), numbers(1, 152))
      assert.deepEqual(await first('?after=0', 152), numbers(1, 152))
      assert.deepEqual(await first('', 2, '150'), [151, 152])
      const none = await open(link, 'events?last=0')
      const next = await s.speak(link, '/silent')
      assert.deepEqual(data((await none.count(1))[0] as StreamEvent).id, next)
      none.cut()
      for (const query of ['last=x', 'last=-1', 'after=x', 'last=1&last=2', `topic=${'x'.repeat(129)}`, 'topic=%00'])
        assert.equal((await s.to(`GET ${link.chat}events?${query}`)).status, 400, query)
      assert.equal((await s.to(`GET /chat/${'A'.repeat(43)}/events?last=x`)).status, 401)
    })

    await t.test('an id beyond the end waits for new events and does not delay others', async () => {
      const link = await s.mintChat({ jid_suffix: 'beyond' })
      await s.ended(link, await s.speak(link, '/silent'))
      const far = await open(link, 'events', '999999999999999')
      const near = await open(link, 'events')
      assert.deepEqual(ids(await near.count(2)), [1, 2])
      const turn = await s.speak(link, '/say hello')
      assert.deepEqual(ids(await near.count(5)), [1, 2, 3, 4, 5])
      assert.deepEqual(ids(await far.count(3)), [3, 4, 5])
      assert.equal(data(far.events[0] as StreamEvent).turn_id, turn)
      far.cut()
      near.cut()
    })

    await t.test(
      'with a topic, sends only its events, live and after a reconnect; an empty topic is the main topic',
      async () => {
        const link = await s.mintChat({ jid_suffix: 'topics' })
        const [bills, main, all] = [
          await open(link, 'events?topic=bills'),
          await open(link, 'events?topic='),
          await open(link, 'events'),
        ]
        const turns: string[] = []
        for (const topic of ['bills', undefined, 'trips', 'bills']) {
          turns.push(await s.speak(link, '/say x', topic))
          await s.ended(link, turns.at(-1) ?? '')
        }
        const events = [...(await all.count(12))]
        const of = (topic: string | undefined) => ids(events.filter((event) => data(event).topic === topic))
        assert.deepEqual(ids(await bills.count(6)), of('bills'))
        assert.deepEqual(ids(await main.count(3)), of(undefined))
        // Events of other topics do not block a reconnect.
        const [, , third = 0] = of('bills')
        const again = await open(link, 'events?topic=bills', String(third))
        assert.deepEqual(ids(await again.count(3)), of('bills').slice(3))
        await s.speak(link, '/silent', 'bills')
        assert.deepEqual(ids(await again.count(4)).slice(0, 4), [...of('bills').slice(3), 13])
        for (const stream of [bills, main, all, again]) stream.cut()
      },
    )

    await t.test('a reply to a message without a round names no round, so that no page waits for its end', async () => {
      const link = await s.mintChat({ jid_suffix: 'roundless' })
      const stream = await open(link, 'events')
      await s.to(`POST ${link.hook}`, { body: '/status thinking\n/say hello' })
      const roundless = (await stream.count(3)).map(data)
      assert.deepEqual(
        roundless.map(({ kind, content, turn_id }) => [kind, content, turn_id]),
        [
          ['message', '/status thinking\n/say hello', undefined],
          ['status', 'thinking', undefined],
          ['message', 'hello', undefined],
        ],
      )
      const turn = await s.speak(link, '/say again')
      assert.deepEqual(
        (await stream.count(6)).slice(3).map((event) => data(event).turn_id),
        [turn, turn, turn],
      )
      stream.cut()
    })

    await t.test('hook messages are events of their chat too', async () => {
      const link = await s.mintHook()
      const stream = await open(link, 'events')
      await s.to(`POST ${link.hook}`, { body: Buffer.from('ff61', 'hex') })
      const [event] = await stream.count(1)
      const { role, sender, content, turn_id } = event ? data(event) : {}
      assert.deepEqual([role, sender, content, turn_id], ['user', 'ci', '\ufffda', undefined])
      stream.cut()
    })
  })

  test('streams events of other processes, and a revoke there closes streams here within a second', async (t) => {
    const { here, there } = await two(t, engine)
    const link = await here.mintChat()
    const open = opener(t, here)
    const stream = await open(link, 'events')
    const turn = await there.speak(link, '/wait 300ms\n/say from afar')
    const round = await open(link, `${turn}/sse`)
    assert.deepEqual(ids(await round.over()), [1, 2])
    assert.deepEqual(ids(await stream.count(3)), [1, 2, 3])
    const waiting = await there.speak(link, '/wait 20s\n/say late')
    const other = await here.mintChat({ jid_suffix: 'stays' })
    const [pending, kept] = [await open(link, `${waiting}/sse`), await open(other, 'events')]
    const revoked = performance.now()
    await there.revoke(link)
    await Promise.all([stream.over(), pending.over()])
    const ms = performance.now() - revoked
    assert.ok(ms < 1000 * (await measureMachineLoad()), `${ms} ms`)
    assert.ok(!kept.isOver())
    assert.equal((await here.to(`GET ${link.chat}events`)).status, 401)
    assert.equal((await here.to(`GET ${link.chat}${waiting}`)).status, 401)
  })
})

/** Two servers on one store; only the second answers messages. */
async function two(t: TestContext, engine: EngineName): Promise<{ here: LinkHost; there: LinkHost }> {
  const store = await freshStore(t, engine)
  const on = await testHost(t, engine, store)
  await on.groups('main')
  const also = await testHost(t, engine, store)
  // Keeps the two from generating the same ids.
  also.host.random.bytes(1001)
  // Each has its own data directory.
  await also.groups('main')
  return { here: await openLinkHost(t, { on }), there: await openLinkHost(t, { on: also, daemons: BOTH }) }
}

test('too many streams of one link are 429, of all links 503; closed ones free their slots', async (t) => {
  const settings = { STREAMS_PER_LINK: '2', STREAMS_MAX: '3' }
  const s = await openLinkHost(t, { settings })
  const open = opener(t, s)
  const [link, other] = [await s.mintChat(), await s.mintChat({ jid_suffix: 'other' })]
  const [first] = [await open(link, 'events'), await open(link, 'events')]
  const refused = await s.to(`GET ${link.chat}events`)
  assert.deepEqual([refused.status, refused.body.code], [429, 'rate_limited'])
  assert.ok(Number(refused.headers.get('retry-after')) >= 1)
  await open(other, 'events')
  const full = await s.to(`GET ${other.chat}events`)
  assert.deepEqual([full.status, full.body.code], [503, 'unavailable'])
  assert.ok(Number(full.headers.get('retry-after')) >= 1)
  first.cut()
  await until(async () => {
    const stream = await open(link, 'events')
    return stream.status === 200
  })
})

test('one client cannot keep others from the streams of a link: its oldest one gives way', async (t) => {
  const s = await openLinkHost(t, { settings: { STREAMS_PER_LINK: '4', TRUSTED_PROXIES: '127.0.0.1' } })
  const link = await s.mintChat()
  const open = (address: string) => openStream(t, `${s.url('webd')}${link.chat}events`, { 'X-Forwarded-For': address })
  // The addresses of a /64 are one client.
  const greedy = [await open('2001:db8::1'), await open('2001:db8::2'), await open('2001:db8::3')]
  greedy.push(await open('2001:db8::4'))
  assert.equal((await open('2001:db8::5')).status, 429)
  const [first, second] = [await open('192.0.2.1'), await open('192.0.2.2')]
  assert.deepEqual([first.status, second.status], [200, 200])
  for (const stream of greedy.slice(0, 2)) await stream.over()
  // Four streams, two of them of the greedy client: a second one of another client would not be fairer, but a third client is.
  assert.equal((await open('192.0.2.1')).status, 429)
  assert.equal((await open('2001:db8::5')).status, 429)
  assert.equal((await open('192.0.2.3')).status, 200)
  await greedy[2]?.over()
  assert.equal((await open('192.0.2.4')).status, 429)
  for (const stream of [first, second]) stream.cut()
  await until(async () => (await open('192.0.2.4')).status === 200)
})

test('a client that disconnects before its stream starts holds no slot', async (t) => {
  const s = await openLinkHost(t, { settings: { STREAMS_PER_LINK: '3' } })
  const link = await s.mintChat()
  const { port } = new URL(s.url('webd'))
  const { read } = s.host.engine
  let asked = 0
  const slowly: typeof read = async (work) => {
    asked++
    const value = await read.call(s.host.engine, work)
    // Meanwhile the client disconnects.
    await pause(50)
    return value as Awaited<ReturnType<typeof work>>
  }
  Object.assign(s.host.engine, { read: slowly })
  for (let time = 1; time <= 4; time++) {
    const socket = connect(Number(port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write(`GET ${link.chat}events HTTP/1.1\r\nHost: a\r\n\r\n`)
    await until(() => asked >= time)
    socket.resetAndDestroy()
    await pause(70)
  }
  Object.assign(s.host.engine, { read })
  const streams = [1, 2, 3].map(() => openStream(t, `${s.url('webd')}${link.chat}events`))
  assert.deepEqual(
    (await Promise.all(streams)).map(({ status }) => status),
    [200, 200, 200],
  )
})

test('a client that pauses misses nothing and does not delay others', async (t) => {
  const s = await openLinkHost(t, { daemons: BOTH })
  const link = await s.mintChat()
  const open = opener(t, s)
  const [slow, quick] = [await open(link, 'events'), await open(link, 'events')]
  slow.pause()
  const turn = await s.speak(link, '/count 260 65536')
  await s.ended(link, turn)
  assert.deepEqual(ids(await quick.count(262)), numbers(1, 262))
  slow.resume()
  assert.deepEqual(ids(await slow.count(262)), numbers(1, 262))
  // All of it at once.
  const whole = await (await open(link, `${turn}/sse`)).over()
  assert.equal(whole.length, 261)
})

test('events after the end of a stream do not disturb a slow reader', async (t) => {
  const s = await openLinkHost(t, { daemons: BOTH })
  const link = await s.mintChat()
  const slow = await opener(t, s)(link, 'events')
  slow.pause()
  await s.ended(link, await s.speak(link, '/count 120 65536'))
  await s.revoke(link)
  const again = await s.mintChat()
  assert.equal(again.jid, link.jid)
  const other = await opener(t, s)(again, 'events?last=0')
  // Enough time for a poll to find the link revoked.
  await pause(700)
  await s.speak(again, '/say x')
  await other.count(3)
  assert.equal((await s.to(`GET ${again.chat}`)).status, 200)
})

test('shutdown ends the streams at once', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  const open = opener(t, s)
  const turn = await s.speak(link, 'why?')
  const streams = [await open(link, 'events'), await open(link, `${turn}/sse`)]
  const began = performance.now()
  await s.close()
  for (const stream of streams) await stream.over()
  assert.ok(performance.now() - began < 5000)
})

test('a stream ends when the store is unavailable, so that the client reconnects', async (t) => {
  const s = await openLinkHost(t)
  const link = await s.mintChat()
  const { read } = s.host.engine
  let reads = 0
  Object.assign(s.host.engine, {
    read: async (work: Parameters<typeof read>[0]) => {
      if (++reads === 2) throw new (await import('../../lib/refusal.ts')).Refusal('unavailable', 'the store is busy')
      return read.call(s.host.engine, work)
    },
  })
  const stream = await opener(t, s)(link, 'events')
  await stream.over()
  assert.equal(stream.status, 200)
})

/** Serves one feed. `isHeld`: only the headers leave the process. */
async function serveStreams(
  t: TestContext,
  followed: EventFeed,
  { isHeld = false, ...limits }: Partial<StreamLimits> & { isHeld?: boolean } = {},
) {
  const { host, faults } = await testHost(t)
  const streams = new Streams(host, { all: 0, perLink: 0, ...limits })
  t.after(() => streams.close())
  const responses: ServerResponse[] = []
  const server = createServer((_, response) => {
    responses.push(response)
    response.writeHead(200)
    response.write('retry: 1\n\n')
    setImmediate(() => {
      // Corked, so that the body stays in this process.
      if (isHeld) response.socket?.cork()
      void streams.subscribe(followed, { response, after: 0, link: { key: 'x', hash: new Uint8Array() }, network: 'x' })
    })
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const address = server.address()
  assert.ok(address && typeof address === 'object')
  return { host, faults, streams, responses, open: () => openStream(t, `http://127.0.0.1:${address.port}/`) }
}

test('a comment every 15 s keeps a stream open', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  const { streams, open } = await serveStreams(t, chatFeed('web:main'))
  const stream = await open()
  await until(() => streams.count === 1)
  assert.doesNotMatch(stream.text(), /^:/m)
  t.mock.timers.tick(15_000)
  await until(() => /^: ?\n\n/m.test(stream.text()))
  stream.cut()
  await until(() => streams.count === 0)
  t.mock.timers.tick(15_000)
})

const EVENT_BYTES = 1000

/** A feed of events 1 to `last`. */
function numbered(state: { last: number; reads: number }): EventFeed {
  const text = (seq: number): string => `${`id: ${seq}\ndata: `.padEnd(EVENT_BYTES - 2, 'x')}\n\n`
  return {
    kind: 'chat',
    name: 'x',
    read: async (_, after) => {
      state.reads++
      const seqs = numbers(after + 1, Math.min(state.last, after + 100))
      const end = seqs.at(-1) ?? after
      const events = seqs.map((seq) => ({ seq, text: text(seq) }))
      return { events, until: end, isMore: end < state.last, isOver: false }
    },
  }
}

for (const [when, before] of [
  ['before it came', 500],
  ['while it follows', 0],
] as const) {
  const bound = `${UNSENT_MAX / 1024} KiB and one event`
  test(`at most ${bound} are buffered for a client that does not read events ${when}; it gets all when it reads`, async (t) => {
    const state = { last: before, reads: 0 }
    const { host, responses, open } = await serveStreams(t, numbered(state), { isHeld: true })
    const stream = await open()
    await until(() => state.reads >= (before === 0 ? 2 : 1))
    state.last = 500
    host.signals.emit(['x'])
    const [response] = responses
    const waiting = (): number => response?.writableLength ?? 0
    await until(() => waiting() > UNSENT_MAX)
    await pause(20)
    assert.ok(waiting() <= UNSENT_MAX + 1.1 * EVENT_BYTES, `${waiting()} bytes wait`)
    response?.socket?.uncork()
    assert.deepEqual(ids(await stream.count(500)), numbers(1, 500))
  })
}

test('a client that does not read for too long is disconnected', async (t) => {
  const state = { last: 500, reads: 0 }
  const { streams, responses, open } = await serveStreams(t, numbered(state), { isHeld: true, unreadMs: 50 })
  const stream = await open()
  await stream.over()
  await until(() => streams.count === 0)
  assert.ok(responses[0]?.destroyed)
})

test('a client that joins during a read gets every event once', async (t) => {
  // Without polls: only signals trigger reads.
  t.mock.timers.enable({ apis: ['setInterval'] })
  let last = 0
  let gate: Promise<void> | undefined
  let held = 0
  const followed: EventFeed = {
    kind: 'chat',
    name: 'x',
    read: async (_, after) => {
      const until = last
      const events = Array.from({ length: until - after }, (_, at) => {
        const seq = after + at + 1
        return { seq, text: `id: ${seq}\ndata: ${seq}\n\n` }
      })
      const wait = gate
      gate = undefined
      if (wait) held++
      await wait
      return { events, until, isMore: false, isOver: false }
    },
  }
  const { host, streams, open } = await serveStreams(t, followed)
  const first = await open()
  await until(() => streams.count === 1)
  const release = Promise.withResolvers<void>()
  last = 1
  gate = release.promise
  // The shared read has seen only the first event; then a second client joins, which sees both.
  host.signals.emit(['x'])
  await until(() => held === 1)
  last = 2
  const second = await open()
  await second.count(2)
  release.resolve()
  await first.count(2)
  last = 3
  host.signals.emit(['x'])
  assert.deepEqual([ids(await first.count(3)), ids(await second.count(3))], [numbers(1, 3), numbers(1, 3)])
})

test('a chat taken over by another folder does not show earlier events', async (t) => {
  const s = await openLinkHost(t, { daemons: ['webd', 'routd', 'gated', 'runed'] })
  await s.groups('team')
  const before = await s.mintChat({ folder: 'team', jid_suffix: 'sub' })
  const turn = await s.speak(before, 'a secret of team')
  await s.ended(before, turn)
  await s.revoke(before)
  await s.groups('team/sub')
  const after = await s.mintChat({ folder: 'team/sub' })
  assert.equal(after.jid, before.jid)
  assert.equal((await s.to(`GET ${after.chat}${turn}`)).status, 404)
  assert.equal((await s.to(`GET ${after.chat}${turn}/sse`)).status, 404)
  const stream = await openStream(t, `${s.url('webd')}${after.chat}events`)
  await s.ended(after, await s.speak(after, 'of team/sub'))
  const seen = await stream.count(4)
  assert.doesNotMatch(JSON.stringify(seen), /a secret/)
  assert.match(JSON.stringify(seen[0]), /of team\/sub/)
})

test('a feed that cannot be read ends its streams once, with the reason in the log', async (t) => {
  let isOdd = false
  const feed: EventFeed = {
    kind: 'chat',
    name: 'web:main',
    read: async () => {
      if (isOdd) throw new TypeError('odd event')
      return { events: [], until: 0, isMore: false, isOver: false }
    },
  }
  const { host, faults, streams, open } = await serveStreams(t, feed)
  const opened = await Promise.all([open(), open()])
  await until(() => streams.count === 2)
  isOdd = true
  await until(async () => {
    host.signals.emit(['web:main'])
    return streams.count === 0
  })
  for (const stream of opened) await stream.over()
  assert.deepEqual(faults, [{ place: 'stream', message: 'odd event' }])
  assert.equal(host.metrics.count(FAULTS, { place: 'stream' }), 1)
})

test('an exception in one stream ends it, and the others of the feed get the event', async (t) => {
  const events: { seq: number; text: string }[] = []
  const feed: EventFeed = {
    kind: 'chat',
    name: 'web:main',
    read: async (_tx, after) => ({
      events: events.filter(({ seq }) => seq > after),
      until: events.length,
      isMore: false,
      isOver: false,
    }),
  }
  const { host, faults, streams, responses, open } = await serveStreams(t, feed)
  const [odd, good] = [await open(), await open()]
  await until(() => streams.count === 2)
  const [broken] = responses
  if (broken) broken.write = () => assert.fail('odd stream')
  events.push({ seq: 1, text: 'id: 1\ndata: hello\n\n' })
  await until(async () => {
    host.signals.emit(['web:main'])
    return streams.count === 1
  })
  const all = await good.count(1)
  assert.equal(all[0]?.data, 'hello')
  assert.equal(broken?.destroyed, true)
  await odd.over().catch(() => undefined)
  assert.deepEqual(faults, [{ place: 'stream', message: 'odd stream' }])
})
