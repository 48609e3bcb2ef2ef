// Regression tests for bypasses of the rules and for attacks on the proxy, each tried as a workload would.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { DEFAULT_PROXY_LIMITS } from '../../src/egress/connection/limits.ts'
import { RETRY_RANDOM } from '../../src/egress/tls/server-hello.ts'
import { openNodeTransport } from '../../src/egress/transport/node-transport.ts'
import type { SocketAddress, TcpTransport } from '../../src/egress/transport/transport.ts'
import { DataPlane } from '../../src/egress/worker/data-plane.ts'
import { clientHello, extension, record } from '../support/client-hello.ts'
import { connectPeer, openPeerServer, untilStill } from '../support/raw-socket.ts'
import { until } from '../support/until.ts'
import {
  ALLOWED,
  connectRequest,
  DENIED,
  getRequest,
  IO_MODES,
  OTHER,
  openHttpOrigin,
  openLab,
  openTcpServer,
} from './lab.ts'

const serverHello = (random: Uint8Array): Buffer =>
  record(Buffer.concat([Buffer.of(2, 0, 0, 40, 3, 3), random, Buffer.of(0, 0x13, 1, 0, 0, 0)]))
const RETRY = serverHello(RETRY_RANDOM)
const ACCEPTED = serverHello(Buffer.alloc(32, 7))

for (const io of IO_MODES) {
  suite(`with ${io}`, () => {
    test('a tunnel requested after a denied request ends when its source is removed', async (t) => {
      const { proxy, client } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await client()
      const denied = `GET http://${DENIED}/ HTTP/1.1\r\nHost: ${DENIED}\r\n\r\n`
      workload.send(denied + connectRequest(port))
      await workload.says('200 Connection Established')
      const origin = await peer()
      workload.send('before')
      await origin.says('before')
      assert.equal((await proxy.snapshot()).tunnels, 1)
      await proxy.sources.remove('127.0.0.1')
      await workload.closed()
      await origin.closed()
    })

    test('connections beyond the limit of one source leave room for other sources', async (t) => {
      const { client, ask } = await openLab(t, { io, limits: { maxPerSource: 4, maxConnections: 8 } })
      const origin = await openHttpOrigin(t)
      // Silent connections, for which the proxy waits.
      for (let count = 0; count < 20; count++) await client({ from: '127.0.0.2' })
      assert.match(await ask(getRequest(origin.port)), /^HTTP\/1\.1 200 /)
    })

    test('a client that resets during the dial leaves nothing behind', async (t) => {
      const { port: proxyPort, client } = await openLab(t, { io })
      const open = new Set<Socket>()
      const port = await openTcpServer(t, (socket) => {
        open.add(socket)
        socket.on('close', () => open.delete(socket)).resume()
      })
      const request = connectRequest(port)
      const abort = async (): Promise<void> => {
        const socket = connect({ port: proxyPort, host: '127.0.0.1' }).on('error', () => {})
        await once(socket, 'connect')
        socket.write(request, () => setImmediate(() => socket.resetAndDestroy()))
        await once(socket, 'close')
      }
      for (let round = 0; round < 60; round++) await Promise.all(Array.from({ length: 50 }, abort))
      await client()
      await until(() => open.size === 0)
    })

    test('bytes after the end of a response do not reach the client', async (t) => {
      const { client } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await client()
      workload.send(`POST http://${ALLOWED}:${port}/ HTTP/1.1\r\nHost: ${ALLOWED}\r\nContent-Length: 4\r\n\r\nab`)
      const origin = await peer()
      await origin.says('ab')
      const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'
      origin.send(answer)
      await workload.says('0\r\n\r\n')
      origin.send('more')
      workload.send('c')
      await origin.says('abc')
      origin.send('and more')
      workload.send('d')
      await origin.over()
      const before = workload.text
      assert.equal(before.split('0\r\n\r\n').length - 1, 1, before)
    })

    const openUpgraded = async (t: TestContext) => {
      const lab = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await lab.client()
      workload.send(
        `GET http://${ALLOWED}:${port}/ HTTP/1.1\r\nHost: ${ALLOWED}\r\nConnection: upgrade\r\nUpgrade: TLS/1.2\r\n\r\n`,
      )
      const origin = await peer()
      await origin.says('\r\n\r\n')
      origin.send('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: TLS/1.2\r\n\r\n')
      await workload.says('101 Switching')
      return { ...lab, workload, origin }
    }

    test('the name in a hello after an upgrade must be allowed', async (t) => {
      const { workload, origin, line } = await openUpgraded(t)
      const { received } = origin
      workload.send(clientHello({ sni: DENIED }))
      await origin.closed()
      assert.equal(origin.received, received)
      await line({ verdict: 'deny', reason: 'sni-denied' })
    })

    test('an upgraded connection ends when the name in its hello is no longer allowed', async (t) => {
      const { workload, origin, proxy, line } = await openUpgraded(t)
      const hello = clientHello({ sni: OTHER })
      workload.send(hello)
      await until(() => origin.bytes.includes(hello))
      await proxy.sources.set({ ip: '127.0.0.1', id: 'job-1', allowlist: [ALLOWED] })
      await Promise.all([workload.closed(), origin.closed()])
      await line({ verdict: 'deny', reason: 'revoked' })
    })

    test('the name in a second hello must be allowed: after HelloRetryRequest, servers use it', async (t) => {
      const { tunnel, line } = await openLab(t, { io })
      for (const between of ['', record(Buffer.of(1), { type: 20 }).toString('latin1')]) {
        const { port, peer } = await openPeerServer(t)
        const workload = await tunnel(port)
        const first = clientHello({ sni: ALLOWED })
        workload.send(first)
        const origin = await peer()
        await origin.has(first.length)
        origin.send(RETRY)
        await workload.has(1)
        workload.send(Buffer.concat([Buffer.from(between, 'latin1'), clientHello({ sni: DENIED })]))
        await origin.closed()
        assert.doesNotMatch(origin.text, new RegExp(DENIED))
      }
      await line({ verdict: 'deny', reason: 'sni-denied' })
    })

    test('a second hello is checked after any amount of early data', async (t) => {
      const { tunnel, line } = await openLab(t, { io })
      const data = record(Buffer.alloc(16_000, 7), { type: 23 })
      for (const count of [5, 200]) {
        const { port, peer } = await openPeerServer(t)
        const workload = await tunnel(port)
        const first = clientHello({ sni: ALLOWED, extensions: [extension(42, Buffer.alloc(0))] })
        workload.send(first)
        const origin = await peer()
        await origin.has(first.length)
        origin.send(RETRY)
        await workload.has(RETRY.length)
        const early = Buffer.concat(Array.from({ length: count }, () => data))
        workload.send(early)
        workload.send(clientHello({ sni: DENIED }))
        await origin.closed()
        assert.ok(origin.received <= first.length + early.length)
        assert.equal(origin.bytes.includes(DENIED), false)
      }
      await line({ verdict: 'deny', reason: 'sni-denied' })
    })

    test('a second hello is checked when the server answers the first one late', async (t) => {
      const { tunnel } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await tunnel(port)
      const data = record(Buffer.alloc(16_000, 7), { type: 23 })
      const hellos = [clientHello({ sni: ALLOWED }), data, data, data, data, data, clientHello({ sni: OTHER }), data]
      workload.send(Buffer.concat(hellos))
      const origin = await peer()
      await origin.has(Buffer.concat(hellos).length)
      origin.send(RETRY)
      await workload.has(RETRY.length)
      workload.send(clientHello({ sni: DENIED }))
      await origin.closed()
      assert.equal(origin.bytes.includes(DENIED), false)
    })

    test('after the server has accepted a hello, bytes that look like another one pass', async (t) => {
      const { tunnel } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await tunnel(port)
      workload.send(clientHello({ sni: ALLOWED }))
      const origin = await peer()
      await origin.has(1)
      origin.send(ACCEPTED)
      await workload.has(ACCEPTED.length)
      const encrypted = clientHello({ sni: DENIED })
      workload.send(encrypted)
      await until(() => origin.bytes.includes(encrypted))
    })

    test('while the proxy looks for a second hello, a server that does not read slows down the client', async (t) => {
      const { tunnel, proxy } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t, { serve: ({ socket }) => void socket.pause() })
      const workload = await tunnel(port)
      workload.send(clientHello({ sni: ALLOWED }))
      const origin = await peer()
      const data = Buffer.concat(Array.from({ length: 4000 }, () => record(Buffer.alloc(16_000, 7), { type: 23 })))
      workload.send(data)
      await untilStill(async () => (await proxy.snapshot()).bytesUp)
      assert.ok(workload.socket.writableLength > data.length / 2, `${workload.socket.writableLength}`)
      origin.keepsBytes = false
      origin.socket.resume()
      await origin.has(data.length)
      assert.equal(workload.isClosed, false)
    })

    test('while the proxy looks for a second hello, a client that does not read slows down the server', async (t) => {
      const { tunnel, proxy } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await tunnel(port)
      workload.send(clientHello({ sni: ALLOWED }))
      const origin = await peer()
      workload.keepsBytes = false
      workload.socket.pause()
      const warnings = Buffer.concat(Array.from({ length: 4000 }, () => record(Buffer.alloc(16_000, 1), { type: 21 })))
      origin.send(warnings)
      await untilStill(async () => (await proxy.snapshot()).bytesDown)
      assert.ok(origin.socket.writableLength > warnings.length / 2, `${origin.socket.writableLength}`)
      workload.socket.resume()
      await workload.has(warnings.length)
      assert.equal(workload.received, warnings.length)
    })

    test('encrypted bytes after a hello pass, even if they begin like another hello', async (t) => {
      const { tunnel } = await openLab(t, { io })
      const { port, peer } = await openPeerServer(t)
      const workload = await tunnel(port)
      // The end of an abbreviated TLS 1.2 handshake.
      const finished = Buffer.concat([Buffer.of(1, 0x7e, 2, 3), Buffer.alloc(36, 9)])
      const records = [clientHello({ sni: ALLOWED }), record(Buffer.of(1), { type: 20 }), record(finished)]
      const { length } = Buffer.concat(records)
      workload.send(Buffer.concat(records))
      const origin = await peer()
      await origin.has(length)
      assert.equal(origin.received, length)
    })

    test('abandoned lookups count against their source until they are answered', async (t) => {
      const lab = await openLab(t, { io, usesDns: true, allowlist: [ALLOWED], limits: { dnsMs: 3000 } })
      await lab.proxy.sources.set({ ip: '127.0.0.2', id: 'other', allowlist: [OTHER] })
      const origin = await openHttpOrigin(t)
      lab.dns.tell(OTHER, { addresses: ['127.0.0.1'] })
      for (let count = 0; count < 1500; count++) {
        const name = `x${count}.${ALLOWED}`
        lab.dns.tell(name, { silent: true })
      }
      for (let round = 0; round < 30; round++) {
        const all = Array.from({ length: 50 }, async (_, count) => {
          const client = await lab.client()
          client.send(connectRequest(443, `x${round * 50 + count}.${ALLOWED}`))
          await new Promise((go) => setImmediate(go))
          client.socket.resetAndDestroy()
          await client.closed()
        })
        await Promise.all(all)
      }
      assert.match(await lab.ask(getRequest(origin.port, OTHER), { from: '127.0.0.2' }), /^HTTP\/1\.1 200 /)
    })

    test('forwarded requests are logged even if refusals are dropped from the log', async (t) => {
      const { lines, port: proxyPort } = await openLab(t, { io })
      let received = 0
      const port = await openTcpServer(t, (socket) => {
        socket.on('data', () => {
          received++
          socket.resetAndDestroy()
        })
      })
      const post = async (path: string, name: string): Promise<void> => {
        const client = await connectPeer(t, proxyPort)
        client.sendLast(`POST http://${name}:${port}${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx`)
        await client.closed()
      }
      for (let round = 0; round < 25; round++) await Promise.all(Array.from({ length: 16 }, () => post('/', DENIED)))
      for (let round = 0; round < 25; round++) await Promise.all(Array.from({ length: 16 }, () => post('/', ALLOWED)))
      await until(() => lines.filter(({ host }) => host === ALLOWED).length >= received)
      assert.equal(received, 400)
    })

    test('a Connection header with thousands of names is refused early', async (t) => {
      const { ask } = await openLab(t, { io })
      const origin = await openHttpOrigin(t)
      const requestNaming = (count: number): string => {
        const names = Array.from({ length: count }, (_, at) => `x${at}`)
        return getRequest(origin.port).replace('close', ['close', ...names].join(','))
      }
      assert.match(await ask(requestNaming(60)), /^HTTP\/1\.1 200 /)
      for (const request of [requestNaming(65), requestNaming(9000), requestNaming(1).replace('x0', ','.repeat(9000))])
        assert.match(await ask(request), /^HTTP\/1\.1 400 /)
      const spread = Array.from({ length: 40 }, (_, at) => `Connection: y${at},z${at}\r\n`).join('')
      assert.match(await ask(requestNaming(1).replace('\r\n\r\n', `\r\n${spread}\r\n`)), /^HTTP\/1\.1 400 /)
      assert.equal(origin.requests.length, 1)
    })

    test('long protocol lists on both sides of an upgrade are compared efficiently', async (t) => {
      const { client, ask } = await openLab(t, { io })
      const names = Array.from({ length: 9000 }, (_, at) => `p/${at}`)
      const upgrade = `Connection: upgrade\r\nUpgrade: ${names.toReversed().join(',')}\r\n\r\n`
      const { port } = await openPeerServer(t, {
        serve: ({ socket }) => void socket.once('data', () => socket.write(`HTTP/1.1 101 OK\r\n${upgrade}`)),
      })
      const from = process.cpuUsage()
      const clients = await Promise.all(Array.from({ length: 16 }, () => client()))
      const request = `GET http://${ALLOWED}:${port}/ HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: ${names}\r\n\r\n`
      for (const each of clients) each.send(request)
      await Promise.all(clients.map((each) => each.says('101 OK')))
      await ask(getRequest(port, DENIED))
      // A naive comparison would take forty million steps per client.
      const { user, system } = process.cpuUsage(from)
      const ms = (user + system) / 1000
      t.diagnostic(`${ms.toFixed(0)} ms of work`)
      assert.ok(ms < 4000, `${ms} ms of work`)
    })
  })
}

/** Simulates redirected packets: reports this original destination instead of asking the kernel. */
function redirectTo(transport: TcpTransport, to: SocketAddress): TcpTransport {
  const listen: TcpTransport['listen'] = (at, accepted) =>
    transport.listen(at, (connection) => accepted(Object.assign(connection, { originalDestination: () => to })))
  return { ...transport, listen }
}

test('a transparent client is checked against the list at the time of its hello, not of its connection', async (t) => {
  const names: string[] = []
  const lines: string[] = []
  const outside = {
    lookUp: (name: string) => void names.push(name),
    log: (text: string) => void lines.push(text),
    warn: () => {},
    reportDenied: () => {},
  }
  const limits = { ...DEFAULT_PROXY_LIMITS, headMs: 60_000, drainMs: 0 }
  const transparent = { host: '127.0.0.1', port: 0 }
  const options = { denyPrivate: false, verifySni: true, limits, ownPorts: [], transparent }
  const core = new DataPlane(redirectTo(openNodeTransport(), { address: '192.0.2.1', port: 443 }), options, outside)
  const listening = await core.open()
  t.after(() => new Promise<void>((stopped) => core.stop(stopped)))
  core.apply([{ kind: 'set', entry: { ip: '127.0.0.1', id: 'job', allowlist: [ALLOWED] } }])
  const client = await connectPeer(t, listening.transparent?.port ?? 0)
  await until(() => core.snapshot().connections === 1)
  core.apply([{ kind: 'remove', ip: '127.0.0.1' }])
  client.send(clientHello({ sni: ALLOWED }))
  await client.over()
  await until(() => lines.some((line) => line.includes('"unregistered-source"')))
  assert.deepEqual(names, [])
})
