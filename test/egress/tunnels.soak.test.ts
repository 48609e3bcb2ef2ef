// CONNECT tunnels through the proxy, in both I/O modes. T, R and E numbers are rows of the test plan.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2, constants, createServer as createHttp2Server } from 'node:http2'
import { suite, test } from 'node:test'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { clientHello, record } from '../support/client-hello.ts'
import { needs } from '../support/needs.ts'
import {
  connectPeer,
  digestOf,
  echo,
  noise,
  openPeerServer,
  type Peer,
  passMs,
  untilStill,
  unusedPort,
} from '../support/raw-socket.ts'
import { until } from '../support/until.ts'
import {
  ALLOWED,
  type Certificate,
  connectRequest,
  countPendingConnects,
  DENIED,
  getRequest,
  IO_MODES,
  type IoMode,
  type Lab,
  makeCertificate,
  OTHER,
  openBlackHole,
  openHttpOrigin,
  openLab,
  openTcpServer,
  openTlsOrigin,
} from './lab.ts'

const ESTABLISHED = 'HTTP/1.1 200 Connection Established\r\n\r\n'
const LONG_LABEL = `${'x'.repeat(64)}.${ALLOWED}`
const LONG = { timeout: 15 * 60_000 }

for (const io of IO_MODES) {
  suite(`tunnels, ${io}`, () => {
    testResponses(io)
    testTransfers(io)
    testEnds(io)
    testLimits(io)
    testHellos(io)
  })
  suite(`TLS through tunnels, ${io}`, needs('openssl'), () => testTls(io))
}

function testResponses(io: IoMode): void {
  test('every outcome of CONNECT has its status, its reason and a log line', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { connectMs: 300 } })
    lab.dns.tell('void.allowed.test', { rcode: 'NXDOMAIN' })
    const origin = await openPeerServer(t, { serve: echo })
    const hole = await openBlackHole(t)
    const closed = await unusedPort(t)
    const table = [
      { name: DENIED, port: origin.port, status: 403, code: 'blocked-by-allowlist', token: 'http_request_denied' },
      { name: '127.0.0.1', port: origin.port, status: 403, code: 'blocked-by-allowlist', token: 'http_request_denied' },
      { name: 'void.allowed.test', port: 443, status: 502, code: 'dns-error', token: 'dns_error' },
      { name: ALLOWED, port: closed, status: 502, code: 'connection-refused', token: 'connection_refused' },
      { name: ALLOWED, port: hole, status: 504, code: 'connection-timeout', token: 'connection_timeout' },
    ]
    for (const { name, port, status, code, token } of table) {
      const answer = await lab.ask(connectRequest(port, name))
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `))
      assert.match(answer, new RegExp(`\r\nX-Proxy-Error: ${code}\r\n`))
      assert.match(answer, new RegExp(`\r\nProxy-Status: egress-proxy; error=${token}\r\n`))
      assert.match(answer, /\r\nConnection: close\r\n/)
      const [head = '', body = ''] = answer.split('\r\n\r\n')
      assert.match(head, new RegExp(`Content-Length: ${body.length}\\b`))
      assert.match(body, /^egress-proxy: .+\n$/)
      const reason = name === '127.0.0.1' ? 'ip-literal' : code
      const line = await lab.line({ host: name, reason, status })
      assert.deepEqual([line.verdict, line.port], [status === 403 ? 'deny' : 'error', port])
    }
    assert.equal(origin.peers.length, 0)
    const peer = await lab.tunnel(origin.port)
    peer.sendLast('hello')
    assert.equal(await peer.over(), 'hello')
    const { id, verdict, rule, bytes_up, bytes_down, address } = await lab.line({ mode: 'connect', status: 200 })
    assert.deepEqual([id, verdict, rule, bytes_up, bytes_down, address], ['job-1', 'allow', ALLOWED, 5, 5, '127.0.0.1'])
  })

  test('T1: data in the same packet as CONNECT is forwarded once and in order', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.client()
    client.send(`${connectRequest(origin.port)}EARLY`)
    const peer = await origin.peer()
    client.sendLast(' and late')
    assert.equal(await peer.over(), 'EARLY and late')
    peer.sendLast()
    assert.equal(await client.over(), ESTABLISHED)
  })

  test('T2: data after a denied CONNECT is not read as a request', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openHttpOrigin(t)
    const answer = await lab.ask(connectRequest(origin.port, DENIED) + getRequest(origin.port))
    assert.equal(answer.match(/HTTP\/1.1/g)?.length, 1)
    assert.match(answer, /^HTTP\/1.1 403 /)
    assert.equal(origin.connections.count, 0)
  })

  test('T3: data sent during the dial is not buffered without a bound', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { connectMs: 4000 } })
    const hole = await openBlackHole(t)
    const client = await lab.client()
    const flood = 64 * 1024 * 1024
    client.send(connectRequest(hole))
    client.send(Buffer.alloc(flood))
    await untilStill(() => client.socket.writableLength)
    assert.ok(client.socket.writableLength > flood / 2)
    await client.over()
    await lab.line({ reason: 'connection-timeout' })
  })

  test('T11: a CONNECT with a body is refused', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    for (const field of ['Content-Length: 5', 'Transfer-Encoding: chunked']) {
      const request = connectRequest(origin.port).replace('\r\n\r\n', `\r\n${field}\r\n\r\nhello`)
      assert.match(await lab.ask(request), /^HTTP\/1.1 400 /)
    }
    assert.equal(origin.peers.length, 0)
  })

  test('T12: accepts HTTP/1.0 without a Host (Python, wget), a head byte by byte, and a head of 60 KiB', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t, { serve: echo })
    const to = `${ALLOWED}:${origin.port}`
    const long = Array.from({ length: 60 }, (_, at) => `X-Field-${at}: ${'x'.repeat(1000)}\r\n`).join('')
    for (const head of [`CONNECT ${to} HTTP/1.0\r\n\r\n`, `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n${long}\r\n`]) {
      const client = await lab.client()
      client.send(head)
      await client.says('\r\n\r\n')
      client.sendLast('ping')
      assert.equal(await client.over(), `${ESTABLISHED}ping`)
    }
    const client = await lab.client()
    client.socket.setNoDelay(true)
    for (const letter of connectRequest(origin.port)) {
      client.send(letter)
      await new Promise(setImmediate)
    }
    assert.equal(await client.says('\r\n\r\n'), ESTABLISHED)
  })

  test('T13: a proxy inside a tunnel applies its own rules', async (t) => {
    const [outer, inner] = [await openLab(t, { io }), await openLab(t, { io, allowlist: [OTHER] })]
    const origin = await openPeerServer(t, { serve: echo })
    const tunnel = await outer.tunnel(inner.port)
    tunnel.send(connectRequest(origin.port, OTHER))
    await tunnel.says('\r\n\r\n')
    tunnel.sendLast('within')
    assert.equal(await tunnel.over(), `${ESTABLISHED}within`)
  })
}

function testTransfers(io: IoMode): void {
  test('transfers a hundred megabytes each way unchanged', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    const server = await origin.peer()
    const block = noise(1_000_003)
    const count = 100
    for (const peer of [client, server]) peer.keepsBytes = false
    await Promise.all([
      sendBlocks(client, block, count),
      sendBlocks(server, block, count),
      client.over(),
      server.over(),
    ])
    const digest = digestOf(...Array.from({ length: count }, () => block))
    assert.deepEqual([client.digest(), server.digest()], [digest, digest])
    const { bytes_up, bytes_down } = await lab.line({ status: 200 })
    assert.deepEqual([bytes_up, bytes_down], [count * block.length, count * block.length])
  })

  test('does not mix up sixty-four concurrent tunnels', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t, { serve: echo })
    const ask = async (): Promise<void> => {
      const client = await lab.tunnel(origin.port)
      const all = noise(300_000)
      client.keepsBytes = false
      client.sendLast(all)
      await client.over()
      assert.equal(client.digest(), digestOf(all))
    }
    await Promise.all(Array.from({ length: 64 }, ask))
  })

  test('R4: clients that do not read use bounded memory and finally get every byte', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const block = noise(1_048_576)
    const [tunnels, blocks] = [8, 32]
    let sentBlocks = 0
    const port = await openTcpServer(t, (socket) => {
      const more = (): void => {
        while (sentBlocks < tunnels * blocks && !socket.destroyed) {
          sentBlocks++
          if (!socket.write(block)) return
        }
        socket.end()
      }
      socket.on('drain', more)
      more()
    })
    const before = process.memoryUsage().rss
    const clients: Peer[] = []
    for (let count = 0; count < tunnels; count++) {
      const client = await lab.tunnel(port)
      client.keepsBytes = false
      client.socket.pause()
      clients.push(client)
    }
    await untilStill(() => sentBlocks)
    assert.ok(sentBlocks < tunnels * blocks, 'the servers were not slowed down')
    const grown = (process.memoryUsage().rss - before) / tunnels
    assert.ok(grown < 4_194_304, `each tunnel costs ${Math.round(grown / 1024)} KiB`)
    for (const { socket } of clients) socket.resume()
    await Promise.all(clients.map((client) => client.over()))
    const received = clients.reduce((sum, client) => sum + client.received, 0)
    assert.equal(received, tunnels * blocks * block.length)
  })
}

async function sendBlocks({ socket }: Peer, block: Buffer, count: number): Promise<void> {
  for (let at = 0; at < count; at++) if (!socket.write(block)) await once(socket, 'drain')
  socket.end()
}

function testEnds(io: IoMode): void {
  test('T4: a client that has ended its side still gets the reply', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    client.sendLast('question')
    const server = await origin.peer()
    assert.equal(await server.over(), 'question')
    server.send('half ')
    await client.says('half ')
    server.sendLast('answer')
    assert.equal(await client.over(), 'half answer')
  })

  test('T4: an end in the same packet as CONNECT and payload is forwarded', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.client()
    client.sendLast(`${connectRequest(origin.port)}all of it`)
    const server = await origin.peer()
    assert.equal(await server.over(), 'all of it')
    server.sendLast('reply')
    assert.equal(await client.over(), `${ESTABLISHED}reply`)
  })

  test('T5: a client can send after the server has ended its side', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    const server = await origin.peer()
    server.sendLast('bye')
    assert.equal(await client.over(), 'bye')
    client.send('one more ')
    await server.says('one more ')
    client.sendLast('thing')
    assert.equal(await server.over(), 'one more thing')
    await lab.line({ status: 200, verdict: 'allow', reason: 'allowed' })
  })

  test('T6, T7: a reset is forwarded as a reset, and the proxy adds nothing to the stream', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    const server = await origin.peer()
    server.send('so far so good')
    await client.says('good')
    server.socket.resetAndDestroy()
    await client.closed()
    assert.deepEqual([client.text, client.error], ['so far so good', 'ECONNRESET'])
    const next = await lab.tunnel(origin.port)
    const other = await origin.peer(2)
    next.send('hello')
    await other.says('hello')
    next.socket.resetAndDestroy()
    await other.closed()
    assert.deepEqual([other.text, other.error], ['hello', 'ECONNRESET'])
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
  })

  test('both sides may end at the same time', async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    const server = await origin.peer()
    client.sendLast('mine')
    server.sendLast('yours')
    assert.deepEqual(await Promise.all([client.over(), server.over()]), ['yours', 'mine'])
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
  })

  test('T8: a dial is cancelled when its client disconnects', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const hole = await openBlackHole(t)
    const before = countPendingConnects(hole)
    const client = await lab.client()
    client.send(connectRequest(hole))
    await until(() => countPendingConnects(hole) > before)
    client.socket.resetAndDestroy()
    await until(() => countPendingConnects(hole) === before)
    await lab.line({ reason: 'client-gone' })
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
  })

  test('T15: an idle tunnel ends after the limit, and an active one does not', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { headMs: 1000, idleMs: 1500 } })
    const origin = await openPeerServer(t, { serve: echo })
    const idle = await lab.tunnel(origin.port)
    const busy = await lab.tunnel(origin.port)
    const talk = setInterval(() => busy.send('x'), 50)
    t.after(() => clearInterval(talk))
    await idle.closed()
    await lab.line({ reason: 'idle', verdict: 'allow' })
    await until(() => busy.received > 30)
    assert.equal(busy.isClosed, false)
  })

  test('a half-closed tunnel ends after the idle limit', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { headMs: 1000, idleMs: 1000 } })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    client.sendLast()
    await lab.line({ reason: 'idle' })
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
  })
}

function testLimits(io: IoMode): void {
  test('T14: the connection limit of a source does not affect other sources', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { maxPerSource: 3 } })
    await lab.proxy.sources.set({ ip: '127.0.0.2', id: 'job-2', allowlist: [ALLOWED] })
    const origin = await openPeerServer(t, { serve: echo })
    const open = [await lab.tunnel(origin.port), await lab.tunnel(origin.port), await lab.tunnel(origin.port)]
    const answer = await lab.ask(connectRequest(origin.port))
    assert.match(answer, /^HTTP\/1.1 503 .*\r\n(.*\r\n)*X-Proxy-Error: limit-reached\r\n(.*\r\n)*Retry-After: 1\r\n/)
    await lab.line({ reason: 'limit-reached', status: 503 })
    const other = await lab.tunnel(origin.port, { from: '127.0.0.2' })
    other.sendLast('fine')
    assert.equal(await other.over(), 'fine')
    open[0]?.socket.destroy()
    await until(async () => (await lab.proxy.snapshot()).connections === 2)
    const next = await lab.tunnel(origin.port)
    next.sendLast('again')
    assert.equal(await next.over(), 'again')
  })

  test('R2: a source with too many silent connections does not block others', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { maxPerSource: 4, maxConnections: 8 } })
    await lab.proxy.sources.set({ ip: '127.0.0.2', id: 'job-2', allowlist: [ALLOWED] })
    const origin = await openPeerServer(t, { serve: echo })
    const silent: Peer[] = []
    for (let count = 0; count < 40; count++) silent.push(await lab.client())
    const other = await lab.tunnel(origin.port, { from: '127.0.0.2' })
    other.sendLast('fine')
    assert.equal(await other.over(), 'fine')
  })

  test('R8: a client may abort at any byte', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t, { serve: echo })
    const whole = `${connectRequest(origin.port)}${clientHello({ sni: ALLOWED }).toString('latin1')}`
    for (let cut = 0; cut <= whole.length; cut += 7) {
      const client = await connectPeer(t, lab.port)
      client.send(whole.slice(0, cut))
      if (cut % 2 === 0) client.socket.resetAndDestroy()
      else client.socket.destroySoon()
    }
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
    assert.equal(lab.lines.filter(({ level, msg }) => level === 'warn' && msg !== undefined).length, 0)
    const client = await lab.tunnel(origin.port)
    client.sendLast('alive')
    assert.equal(await client.over(), 'alive')
  })
}

const ALERT = '15030300020231'

function testHellos(io: IoMode): void {
  const passes: readonly (readonly [string, Buffer])[] = [
    ['the name of CONNECT', clientHello({ sni: ALLOWED })],
    ['an allowed subdomain', clientHello({ sni: `api.${ALLOWED}` })],
    ['another allowed name', clientHello({ sni: OTHER })],
    ['no name at all', clientHello({ sni: null })],
    ['a name in another case', clientHello({ sni: 'ALLOWED.Test' })],
    ['records of one byte', clientHello({ sni: ALLOWED, recordBytes: 1 })],
    ['a large hello', clientHello({ sni: ALLOWED, keyShare: 'secp384r1mlkem1024', sizeBytes: 16_000 })],
    ['ECH with an allowed outer name', clientHello({ sni: ALLOWED, ech: 'real' })],
    ['no TLS', Buffer.from('SSH-2.0-client\r\n')],
  ]
  test('T9: a hello without a denied name passes unchanged', LONG, async (t) => {
    const lab = await openLab(t, { io })
    for (const [what, hello] of passes) {
      await t.test(what, async (each) => {
        const origin = await openPeerServer(each)
        const client = await lab.tunnel(origin.port)
        client.send(hello)
        const server = await origin.peer()
        await server.has(hello.length)
        client.sendLast('and what follows')
        await server.over()
        assert.deepEqual(server.bytes, Buffer.concat([hello, Buffer.from('and what follows')]))
      })
    }
  })

  const refused: readonly (readonly [what: string, reason: string, hello: Buffer, sni?: string])[] = [
    ['a name that is not allowed', 'sni-denied', clientHello({ sni: DENIED }), DENIED],
    ['a denied name in capital letters', 'sni-denied', clientHello({ sni: DENIED.toUpperCase() }), DENIED],
    ['the parent of an allowed name', 'sni-denied', clientHello({ sni: 'test' }), 'test'],
    ['an IP address as name', 'sni-denied', clientHello({ sni: '127.0.0.1' }), '127.0.0.1'],
    ['a name with a label that is too long', 'sni-unreadable', clientHello({ sni: LONG_LABEL }), LONG_LABEL],
    ['two names', 'sni-unreadable', clientHello({ serverNames: [[{ name: ALLOWED }], [{ name: DENIED }]] })],
    ['a name with a NUL', 'sni-unreadable', clientHello({ sni: `${DENIED}\0.${ALLOWED}` })],
    ['a hello with a wrong length', 'sni-unreadable', clientHello({ sni: ALLOWED, lies: { extensions: 3 } })],
    [
      'a warning alert before the hello, which servers written in Go skip',
      'sni-unreadable',
      Buffer.concat([record(Buffer.of(1, 0), { type: 21 }), clientHello({ sni: DENIED })]),
    ],
    [
      'a warning alert with an unknown version before the hello',
      'sni-unreadable',
      Buffer.concat([record(Buffer.of(1, 0), { type: 21, version: 0x0909 }), clientHello({ sni: DENIED })]),
    ],
    ['a denied name in records of one byte', 'sni-denied', clientHello({ sni: DENIED, recordBytes: 1 }), DENIED],
    ['a denied name after 60 KiB', 'sni-denied', clientHello({ sni: DENIED, sizeBytes: 60_000 }), DENIED],
  ]
  test('T9: any other hello is refused with an alert, and the server receives nothing', LONG, async (t) => {
    const lab = await openLab(t, { io })
    for (const [what, reason, hello, sni] of refused) {
      await t.test(what, async (each) => {
        const origin = await openPeerServer(each)
        const client = await lab.tunnel(origin.port)
        client.send(hello)
        await client.over()
        assert.equal(client.bytes.toString('hex'), ALERT)
        const server = await origin.peer()
        await server.closed()
        assert.equal(server.received, 0)
        const line = await lab.line({ reason, port: origin.port })
        assert.deepEqual([line.host, line.mode, line.verdict], [ALLOWED, 'connect', 'deny'])
        assert.equal(line.sni, sni)
        const { denied } = await lab.proxy.snapshot()
        const { host, reason: why, sni: name } = denied.find((one) => one.port === origin.port) ?? assert.fail()
        assert.deepEqual([host, why, name], [ALLOWED, reason, sni])
      })
    }
  })

  test('T9: a hello in the same packet as CONNECT or byte by byte is checked as well', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t)
    const early = clientHello({ sni: DENIED }).toString('latin1')
    const client = await lab.client()
    client.send(connectRequest(origin.port) + early)
    await client.over()
    assert.equal(client.bytes.subarray(ESTABLISHED.length).toString('hex'), ALERT)
    const slow = await lab.tunnel(origin.port)
    slow.socket.setNoDelay(true)
    for (const letter of early) {
      slow.send(letter)
      await new Promise(setImmediate)
    }
    await slow.over()
    assert.equal(slow.bytes.toString('hex'), ALERT)
    for (const { received } of origin.peers) assert.equal(received, 0)
  })

  test('T9: a client that stops within its hello times out', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { headMs: 1000 } })
    const origin = await openPeerServer(t)
    const client = await lab.tunnel(origin.port)
    client.send(clientHello({ sni: ALLOWED }).subarray(0, 40))
    await client.closed()
    await lab.line({ reason: 'sni-unreadable', verdict: 'deny' })
    const ended = await lab.tunnel(origin.port)
    ended.sendLast(clientHello({ sni: DENIED }).subarray(0, 40))
    await ended.closed()
    await until(async () => origin.peers.length === 2 && (await lab.proxy.snapshot()).connections === 0)
    for (const { received } of origin.peers) assert.equal(received, 0)
  })

  test('T10: a server may send first, and its client may stay silent', LONG, async (t) => {
    const headMs = 1000
    const lab = await openLab(t, { io, limits: { headMs } })
    const origin = await openPeerServer(t, { serve: (peer) => peer.send('SSH-2.0-server\r\n') })
    const client = await lab.tunnel(origin.port)
    const late = await lab.tunnel(origin.port)
    assert.equal(await client.says('\r\n'), 'SSH-2.0-server\r\n')
    await late.says('\r\n')
    await passMs(headMs + 200)
    client.send('SSH-2.0-client\r\n')
    const server = await origin.peer()
    assert.equal(await server.says('\r\n'), 'SSH-2.0-client\r\n')
    // A late hello is checked too.
    late.send(clientHello({ sni: DENIED }))
    await late.over()
    assert.equal(late.bytes.subarray(16).toString('hex'), ALERT)
  })

  test('without verifySni any name passes', async (t) => {
    const lab = await openLab(t, { io, verifySni: false })
    const origin = await openPeerServer(t)
    const hello = clientHello({ sni: DENIED })
    const client = await lab.tunnel(origin.port, { early: hello.toString('latin1') })
    client.sendLast()
    const server = await origin.peer()
    await server.over()
    assert.deepEqual(server.bytes, hello)
  })
}

async function handshake(lab: Lab, port: number, ca: Certificate, options: ConnectionOptions = {}): Promise<TLSSocket> {
  const { socket } = await lab.tunnel(port)
  socket.removeAllListeners('data')
  const secure = connectTls({ socket, servername: ALLOWED, ca: ca.cert, ...options })
  await once(secure, 'secureConnect')
  return secure
}

async function ping(socket: TLSSocket, text: string): Promise<string> {
  let got = ''
  socket.on('data', (piece) => {
    got += piece
  })
  socket.write(text)
  await until(() => got.length >= text.length)
  return got
}

function testTls(io: IoMode): void {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    test(`${version} works end to end, with session resumption`, LONG, async (t) => {
      const lab = await openLab(t, { io })
      const own = makeCertificate(t)
      const origin = await openTlsOrigin(t, { ...own, minVersion: version, maxVersion: version })
      const first = await handshake(lab, origin.port, own)
      assert.equal(first.getProtocol(), version)
      assert.equal(first.authorized, true)
      const session = version === 'TLSv1.2' ? Promise.resolve([first.getSession()]) : once(first, 'session')
      assert.equal(await ping(first, 'secret'), 'secret')
      const [ticket] = await session
      first.destroy()
      const second = await handshake(lab, origin.port, own, { session: ticket })
      assert.equal(second.isSessionReused(), true)
      assert.equal(await ping(second, 'again'), 'again')
      second.destroy()
    })
  }

  test('a client certificate reaches the origin', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const [own, client] = [makeCertificate(t), makeCertificate(t, ['client.test'])]
    const origin = await openTlsOrigin(t, { ...own, requestCert: true, rejectUnauthorized: true, ca: client.cert })
    const socket = await handshake(lab, origin.port, own, client)
    assert.equal(await ping(socket, 'it is me'), 'it is me')
    assert.equal(origin.sockets[0]?.getPeerCertificate().subject.CN, 'client.test')
    socket.destroy()
  })

  test('HTTP/2 is negotiated with ALPN', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const own = makeCertificate(t)
    const h2 = createHttp2Server((request, response) => response.end(`you asked for ${request.url}`))
    const origin = await openTlsOrigin(
      t,
      { ...own, ALPNProtocols: ['h2'] },
      (socket) => void h2.emit('connection', socket),
    )
    const socket = await handshake(lab, origin.port, own, { ALPNProtocols: ['h2'] })
    assert.equal(socket.alpnProtocol, 'h2')
    const session = connectHttp2(`https://${ALLOWED}`, { createConnection: () => socket })
    const ask = async (path: string): Promise<string> => {
      const stream = session.request({ [constants.HTTP2_HEADER_PATH]: path })
      let text = ''
      for await (const piece of stream.setEncoding('utf8')) text += piece
      return text
    }
    const paths = Array.from({ length: 20 }, (_, at) => `/${at}`)
    const answers = await Promise.all(paths.map(ask))
    assert.deepEqual(
      answers,
      paths.map((path) => `you asked for ${path}`),
    )
    session.close()
    await once(session, 'close')
  })

  test('a client reports a denied name as access denied', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const own = makeCertificate(t)
    const origin = await openTlsOrigin(t, own)
    await assert.rejects(handshake(lab, origin.port, own, { servername: DENIED }), {
      code: 'ERR_SSL_TLSV1_ALERT_ACCESS_DENIED',
    })
    assert.equal(origin.sockets.length, 0)
  })
}
