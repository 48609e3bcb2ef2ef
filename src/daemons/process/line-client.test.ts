import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { freshStore, type TestHost, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { lineAudience, verifyBearer } from '../../core/access/bearers.ts'
import type { DaemonName } from '../settings.ts'
import { dialLines } from './line-client.ts'
import { KEYS_MAX } from './runner-process.ts'

interface FakePeer {
  readonly port: number
  /** Open streams, and the paths of all requests for one. */
  readonly streams: ServerResponse[]
  readonly dialled: string[]
  readonly bearers: string[]
  /** Bodies of posts. */
  readonly posted: string[]
  /** Posts that wait for a response while `isSlow`. */
  readonly waiting: ServerResponse[]
  isSlow: boolean
  status: number
  close(): Promise<void>
}

/** The listener of another daemon. */
async function openPeer(t: TestContext, port = 0): Promise<FakePeer> {
  const server = createServer((request, response) => {
    answer(request, response).catch((error) => assert.fail(error))
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const close = async (): Promise<void> => {
    server.close()
    server.closeAllConnections()
  }
  const peer: FakePeer = {
    port: typeof address === 'object' ? (address?.port ?? 0) : 0,
    ...{ streams: [], dialled: [], bearers: [], posted: [], waiting: [], isSlow: false, status: 200 },
    close,
  }
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    peer.bearers.push(request.headers.authorization?.replace('Bearer ', '') ?? '')
    if (request.method === 'GET') {
      peer.dialled.push(request.url ?? '')
      if (peer.status !== 200) return void response.writeHead(peer.status).end()
      response.writeHead(200).write('\n')
      peer.streams.push(response)
      return
    }
    peer.posted.push(await text(request))
    if (peer.isSlow) peer.waiting.push(response)
    else response.writeHead(204).end()
  }
  t.after(close)
  return peer
}

interface Dialling {
  /** Daemons of this process. */
  readonly local: readonly DaemonName[]
  readonly urls: Partial<Record<DaemonName, number>>
}

function dial(t: TestContext, { host }: TestHost, { local, urls }: Dialling) {
  const stop = new AbortController()
  t.after(() => stop.abort())
  const [received, warnings]: [unknown[], unknown[]] = [[], []]
  host.preCommitSignals.on((keys, work) => void received.push([keys, work]))
  const entries = Object.entries(urls).map(([name, port]) => [name as DaemonName, new URL(`http://127.0.0.1:${port}`)])
  const stops = dialLines({
    host,
    peers: {
      isLocal: (name) => local.includes(name),
      urls: new Map(entries as [DaemonName, URL][]),
    },
    log: { warn: (fields: unknown) => void warnings.push(fields) },
    stopping: stop.signal,
  })
  return { stop, received, warnings, lines: stops.length }
}

const commit = (work: readonly string[], keys: readonly string[] | undefined = []): string =>
  JSON.stringify({ kind: 'commit', keys, work })

test('runed and routd dial the daemons of other processes, each for the work that it does', async (t) => {
  const here = await testHost(t)
  const [webd, routd, dashd] = [await openPeer(t), await openPeer(t), await openPeer(t)]
  const urls = { webd: webd.port, routd: routd.port, dashd: dashd.port, proxyd: webd.port, timed: webd.port }
  const { received } = dial(t, here, { local: ['runed'], urls })
  await until(() => [webd, routd, dashd].every(({ streams }) => streams.length === 1))
  assert.deepEqual(
    [webd, routd, dashd].map(({ dialled }) => dialled),
    Array(3).fill(['/line?work=turns']),
  )
  routd.streams[0]?.write(`${commit(['turns'])}\n\nnot a message\n${commit(['turns']).slice(0, 9)}`)
  routd.streams[0]?.write(`${commit(['turns']).slice(9)}\n`)
  await until(() => received.length === 2)
  assert.deepEqual(received, [
    [[], ['turns']],
    [[], ['turns']],
  ])
  here.host.signals.emit(['web:a'], ['arrivals', 'turns', 'outbox'])
  await until(() => [webd, routd, dashd].every(({ posted }) => posted.length === 1))
  assert.deepEqual(routd.posted, [commit(['arrivals', 'outbox'])])
  assert.deepEqual([webd.posted, dashd.posted], [[commit([], ['web:a'])], [commit([], ['web:a'])]])
})

test('daemons of one process share a line, and dial none of this process', async (t) => {
  const here = await testHost(t)
  const [webd, other] = [await openPeer(t), await openPeer(t)]
  const urls = { webd: webd.port, routd: other.port }
  assert.equal(dial(t, here, { local: ['routd', 'runed'], urls }).lines, 1)
  await until(() => webd.streams.length === 1)
  assert.deepEqual(webd.dialled, ['/line?work=arrivals,turns'])
  for (const local of [['webd'], ['proxyd', 'timed', 'dashd'], ['runed', 'routd', 'webd']] as const)
    assert.equal(dial(t, here, { local, urls }).lines, 0, local.join())
  assert.deepEqual(other.dialled, [])
})

test('one post is under way at a time, and commits meanwhile are one message', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  await until(() => webd.streams.length === 1)
  webd.isSlow = true
  // Until the process has seen that the line is open.
  await until(() => {
    here.host.signals.emit(['web:a'], [])
    return webd.posted.length === 1
  })
  for (const key of ['web:b', 'web:c', 'web:b', 'web:d']) here.host.signals.emit([key], [])
  const answerAll = (): void => {
    for (const response of webd.waiting.splice(0)) response.writeHead(204).end()
  }
  assert.equal(webd.waiting.length, 1)
  answerAll()
  await until(() => webd.posted.length === 2)
  const { keys } = JSON.parse(webd.posted[1] ?? '')
  assert.deepEqual(keys.slice(-3), ['web:b', 'web:c', 'web:d'])
  for (let at = 0; at < KEYS_MAX; at++) here.host.signals.emit([`web:${at}`], [])
  answerAll()
  await until(() => webd.posted.length === 3)
  assert.equal(JSON.parse(webd.posted[2] ?? '').keys.length, KEYS_MAX)
  for (let at = 0; at <= KEYS_MAX; at++) here.host.signals.emit([`web:${at}`], [])
  answerAll()
  await until(() => webd.posted.length === 4)
  assert.equal(webd.posted[3], '{"kind":"commit","work":[]}', 'too many keys concern every reader')
})

test('sends nothing to a peer that is down, and keeps nothing for later', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  const { warnings } = dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  await until(() => webd.streams.length === 1)
  webd.status = 503
  webd.streams[0]?.end()
  await until(() => webd.dialled.length === 2)
  for (const key of ['web:lost', 'web:lost-too']) here.host.signals.emit([key], [])
  await until(() => webd.dialled.length === 3)
  assert.deepEqual(webd.posted, [])
  webd.status = 200
  await until(() => webd.streams.length === 2)
  await until(() => {
    here.host.signals.emit(['web:a'], [])
    return webd.posted.length > 0
  })
  assert.deepEqual([webd.posted[0], warnings], [commit([], ['web:a']), []])
})

test('dials again after the process of the peer was replaced', async (t) => {
  const here = await testHost(t)
  const first = await openPeer(t)
  const { received } = dial(t, here, { local: ['runed'], urls: { webd: first.port } })
  await until(() => first.streams.length === 1)
  await first.close()
  const second = await openPeer(t, first.port)
  await until(() => second.streams.length === 1)
  second.streams[0]?.write(`${commit(['turns'])}\n`)
  await until(() => received.length === 1)
  assert.deepEqual(here.faults, [])
})

test('a peer that refuses is dialled with a new bearer, and the log says so once', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  webd.status = 401
  const { warnings } = dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  await until(() => webd.dialled.length === 3)
  assert.deepEqual(warnings, [{ peer: 'webd', reason: 'it answered 401' }])
  assert.equal(new Set(webd.bearers).size, 3)
  webd.status = 200
  await until(() => webd.streams.length === 1)
})

test('bearers are for the line, short-lived, and renewed after half of their time', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  await until(() => webd.streams.length === 1)
  const post = (isDone: () => boolean): Promise<void> =>
    until(() => {
      here.host.signals.emit(['web:a'], [])
      return isDone()
    })
  here.clock.advance(149_999)
  await post(() => webd.posted.length > 2)
  assert.equal(new Set(webd.bearers).size, 1)
  here.clock.advance(1)
  await post(() => new Set(webd.bearers).size === 2)
  const renewed = webd.bearers.at(-1) ?? ''
  const audiences = [lineAudience(here.host)]
  await assert.rejects(verifyBearer(here.host, renewed))
  assert.deepEqual(await verifyBearer(here.host, renewed, audiences), { kind: 'service', sub: 'service:line' })
  here.clock.advance(10 * 60_000)
  await assert.rejects(verifyBearer(here.host, renewed, audiences))
})

test('shutdown ends the stream and a post that is under way, and dials no more', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  const { stop } = dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  await until(() => webd.streams.length === 1)
  webd.isSlow = true
  await until(() => {
    here.host.signals.emit(['web:a'], [])
    return webd.waiting.length === 1
  })
  stop.abort()
  await until(() => webd.streams[0]?.destroyed === true && webd.waiting[0]?.destroyed === true)
  here.host.signals.emit(['web:b'], [])
  assert.deepEqual([webd.dialled.length, webd.posted.length, here.faults], [1, 1, []])
})

test('an exception of a subscriber ends neither the line nor the process', async (t) => {
  const here = await testHost(t)
  const webd = await openPeer(t)
  const { received } = dial(t, here, { local: ['runed'], urls: { webd: webd.port } })
  here.host.preCommitSignals.on(() => {
    throw new TypeError('odd subscriber')
  })
  await until(() => webd.streams.length === 1)
  webd.streams[0]?.write(`${commit(['turns'])}\n`)
  webd.streams[0]?.write(`${commit(['turns'])}\n`)
  await until(() => received.length === 2)
  assert.deepEqual([webd.dialled.length, here.faults.map(({ place }) => place)], [1, ['signal', 'signal']])
})

test('a process with routd hears of messages that webd of another process accepts', async (t) => {
  const store = await freshStore(t, 'sqlite')
  const [on, other] = [await testHost(t, 'sqlite', store), await testHost(t, 'sqlite', store)]
  const webd = await serveHost(t, { on, daemons: ['webd'] })
  const received: unknown[] = []
  other.host.preCommitSignals.on((_keys, work) => void received.push(...work))
  const routd = await serveHost(t, { on: other, daemons: ['routd'], settings: { WEBD_URL: webd.url('webd') } })
  await until(() => {
    webd.host.signals.emit(['web:a'], ['arrivals', 'turns'])
    return received.includes('arrivals')
  })
  const [seen, own]: [unknown[], unknown[]] = [[], []]
  webd.host.signals.on((keys, work) => void seen.push([keys, work]))
  other.host.signals.on((keys) => void own.push(keys))
  other.host.signals.emit(['web:b'], [])
  await until(() => seen.some((each) => JSON.stringify(each) === '[["web:b"],[]]'))
  // It is not sent back.
  assert.ok(own.every((keys) => Array.isArray(keys) && !keys.includes('web:a')))
  await routd.close()
  await webd.close()
  assert.deepEqual([...on.faults, ...other.faults], [])
})
