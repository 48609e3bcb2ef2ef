// Limits of the proxy: slow and hostile peers, long streams, and a machine without free descriptors.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { connect } from 'node:net'
import { suite, test } from 'node:test'
import { openEgressWorkspace } from '../support/egress-process.ts'
import { needs } from '../support/needs.ts'
import { leaveOpenFiles } from '../support/open-files.ts'
import { connectPeer, echo, noise, openPeerServer, type Peer, passMs, untilStill } from '../support/raw-socket.ts'
import { until } from '../support/until.ts'
import {
  ALLOWED,
  connectRequest,
  getRequest,
  IO_MODES,
  type IoMode,
  openHttpOrigin,
  openLab,
  openTcpServer,
} from './lab.ts'

const LONG = { timeout: 15 * 60_000 }

for (const io of IO_MODES) {
  suite(`limits, ${io}`, () => {
    testSlowPeers(io)
    testStreams(io)
    testHostilePeers(io)
    testDescriptorExhaustion(io)
  })
}

function testSlowPeers(io: IoMode): void {
  test('R1, R2: slow and missing request heads time out, and other clients are served meanwhile', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { headMs: 700 } })
    const origin = await openHttpOrigin(t)
    const silent: Peer[] = []
    for (let count = 0; count < 200; count++) silent.push(await connectPeer(t, lab.port))
    const trickling = await lab.client()
    const request = getRequest(origin.port)
    let at = 0
    const trickle = setInterval(() => trickling.send(request[at++] ?? 'x'), 50)
    t.after(() => clearInterval(trickle))
    assert.match(await lab.ask(getRequest(origin.port)), /^HTTP\/1.1 200 /)
    assert.match(await trickling.over(), /^HTTP\/1.1 408 /)
    await Promise.all(silent.map((client) => client.over()))
    await lab.line({ reason: 'head-timeout' })
    assert.equal(origin.requests.length, 1)
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
  })

  test('R1: a stalled body times out, and a slow one does not', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { headMs: 1000, idleMs: 1500, responseMs: 1500 } })
    const bodies: string[] = []
    const origin = await openHttpOrigin(t, (request, response) => {
      let text = ''
      request.on('data', (piece) => {
        text += piece
      })
      request.on('end', () => {
        bodies.push(text)
        response.end('ok')
      })
    })
    const post = getRequest(origin.port)
      .replace('GET', 'POST')
      .replace('Connection:', 'Content-Length: 20\r\nConnection:')
    const [stopping, trickling] = [await lab.client(), await lab.client()]
    stopping.send(`${post}half`)
    trickling.send(post)
    let sent = 0
    const trickle = setInterval(() => sent++ < 20 && trickling.send('x'), 100)
    t.after(() => clearInterval(trickle))
    assert.doesNotMatch(await stopping.over(), /^HTTP\/1.1 2/)
    assert.match(await trickling.over(), /^HTTP\/1.1 200 /)
    assert.deepEqual(bodies, ['x'.repeat(20)])
  })

  test(
    'R5: both sides of an idle tunnel have TCP keep-alive, so that a vanished peer is detected',
    needs('ip'),
    async (t) => {
      const lab = await openLab(t, { io })
      const { port } = await openPeerServer(t)
      await lab.tunnel(port)
      const probed = (filter: string): string[] =>
        execFileSync('ss', ['-tnoH', 'state', 'established', filter], { encoding: 'utf8' })
          .split('\n')
          .filter((line) => line.includes('timer:(keepalive,'))
      // After a write another TCP timer runs first.
      await until(() => [`sport = :${lab.port}`, `dport = :${port}`].every((filter) => probed(filter).length === 1))
    },
  )

  test('R4: a client that does not read a response slows down the origin', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const block = noise(1_048_576)
    const blocks = 64
    let sentBlocks = 0
    const port = await openTcpServer(t, (socket) => {
      const more = (): void => {
        while (sentBlocks < blocks) {
          sentBlocks++
          if (!socket.write(block)) return
        }
        socket.end()
      }
      socket.once('data', () => {
        socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${blocks * block.length}\r\n\r\n`)
        more()
      })
      socket.on('drain', more)
    })
    const client = await lab.client()
    client.keepsBytes = false
    client.socket.pause()
    const before = process.memoryUsage().rss
    client.send(getRequest(port))
    await until(() => sentBlocks > 0)
    await untilStill(() => sentBlocks)
    assert.ok(sentBlocks < blocks, 'the origin was not slowed down')
    assert.ok(process.memoryUsage().rss - before < 32 * 1024 * 1024)
    client.socket.resume()
    await client.over()
    assert.ok(client.received > blocks * block.length)
  })
}

function testStreams(io: IoMode): void {
  test('R10: an active event stream may last longer than every limit', LONG, async (t) => {
    const limits = {
      headMs: 1000,
      connectMs: 1000,
      dialMs: 1000,
      responseMs: 1000,
      keepAliveMs: 1000,
      idleMs: 1000,
      lingerMs: 1000,
    }
    const lab = await openLab(t, { io, limits })
    const origin = await openHttpOrigin(t, (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      let count = 0
      const tick = setInterval(() => {
        // The next event is sent only after the client has received this one.
        if (count > 0 && !client.text.includes(`data: ${count}\n`)) return
        response.write(`data: ${++count}\n\n`)
        if (count < 30) return
        clearInterval(tick)
        response.end()
      }, 60)
      t.after(() => clearInterval(tick))
    })
    const client = await lab.client()
    client.send(getRequest(origin.port))
    assert.match(await client.over(), /data: 30\n\n/)
    await lab.line({ status: 200, reason: 'allowed' })
  })

  test('a request to a silent origin times out', LONG, async (t) => {
    const lab = await openLab(t, { io, limits: { responseMs: 300 } })
    const origin = await openHttpOrigin(t, () => {})
    assert.match(
      await lab.ask(getRequest(origin.port)),
      /^HTTP\/1.1 504 .*\r\n(.*\r\n)*X-Proxy-Error: read-timeout\r\n/,
    )
  })

  test(
    'a stop finishes active transfers, accepts nothing new, and closes the rest at the drain limit',
    LONG,
    async (t) => {
      const lab = await openLab(t, { io, limits: { drainMs: 4000 } })
      let finish = (): void => {}
      const origin = await openHttpOrigin(t, (_, response) => {
        response.writeHead(200, { 'Content-Length': '10' })
        response.write('first')
        finish = () => response.end(' half')
      })
      const echoes = await openPeerServer(t, { serve: echo })
      const transfer = await lab.client()
      transfer.send(getRequest(origin.port))
      await transfer.says('first')
      const [idle, tunnel] = [await lab.client(), await lab.tunnel(echoes.port)]
      const stopped = lab.proxy.close()
      await idle.over()
      await assert.rejects(connectPeer(t, lab.port), { code: 'ECONNREFUSED' })
      tunnel.send('still here')
      assert.equal(await tunnel.says('still here'), 'still here')
      finish()
      assert.match(await transfer.over(), /first half$/)
      await stopped
      await tunnel.closed()
      await lab.line({ reason: 'stopped' })
    },
  )
}

function testHostilePeers(io: IoMode): void {
  test('R6: log entries are short single lines of JSON for any request', LONG, async (t) => {
    const lab = await openLab(t, { io, denyMessage: 'Ask "the operator"\nnow.' })
    await lab.proxy.sources.set({ ip: '127.0.0.1', id: 'job "1" \\ {}', allowlist: [ALLOWED] })
    const hosts = [
      'x'.repeat(60_000),
      `${'x.'.repeat(126)}test`,
      'a"b',
      'a\\b',
      'a\u001b[31mb',
      'a\u0000b',
      'a\u0085b',
      '{"verdict":"allow"}',
      'a%0d%0ab',
      '\u00ff\u00fe',
      'denied.test',
    ]
    for (const host of hosts) {
      assert.match(await lab.ask(connectRequest(443, host)), /^HTTP\/1.1 4\d\d /)
      assert.match(await lab.ask(getRequest(80, host)), /^HTTP\/1.1 4\d\d /)
    }
    await lab.ask('GET http://a\r\nX: "\r\n\r\n')
    await lab.ask('\u0016\u0003\u0001\u0000\u0005\u0001\u0000\u0000\u0001\u0000')
    const answer = await lab.ask(connectRequest(443, 'denied.test'))
    assert.match(answer, /\r\n\r\negress-proxy: [ -~]*/)
    assert.equal(answer.split('\r\n\r\n').length, 2)
    // lab.ts has parsed every line.
    await until(() => lab.lines.length >= 2 * hosts.length + 2)
    for (const line of lab.lines) {
      assert.ok(JSON.stringify(line).length < 1500)
      assert.notEqual(line.verdict, 'allow')
    }
  })

  test('R8: clients and origins may abort plain HTTP at any byte', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'
    let cut = 0
    const port = await openTcpServer(t, (socket) => {
      socket.once('data', () => {
        socket.write(answer.slice(0, cut), () => (cut % 2 === 0 ? socket.resetAndDestroy() : socket.end()))
      })
    })
    for (cut = 0; cut <= answer.length; cut += 3) {
      const text = await lab.ask(getRequest(port))
      // An incomplete response must not look complete.
      if (cut < answer.length - 4) assert.doesNotMatch(text, /\r\n0\r\n\r\n$/)
    }
    const origin = await openHttpOrigin(t)
    const request = `${getRequest(origin.port).replace('GET', 'POST').replace('Connection:', 'Content-Length: 40\r\nConnection:')}${'x'.repeat(40)}`
    for (let at = 0; at < request.length; at += 9) {
      const client = await connectPeer(t, lab.port)
      client.send(request.slice(0, at))
      if (at % 2 === 0) client.socket.resetAndDestroy()
      else client.socket.destroySoon()
    }
    await until(async () => (await lab.proxy.snapshot()).connections === 0)
    assert.match(await lab.ask(getRequest(origin.port)), /^HTTP\/1.1 200 /)
    assert.equal(lab.lines.filter(({ msg }) => msg !== undefined).length, 0)
  })
}

function testDescriptorExhaustion(io: IoMode): void {
  test('a dial without free descriptors is refused with 503 and the reason', {
    ...LONG,
    ...needs('kernel'),
  }, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openHttpOrigin(t)
    // Fills the DNS cache.
    assert.match(await lab.ask(getRequest(origin.port)), /^HTTP\/1.1 200 /)
    const client = await lab.client()
    await until(async () => (await lab.proxy.snapshot()).connections === 1)
    const restore = leaveOpenFiles(0)
    t.after(restore)
    client.send(connectRequest(origin.port))
    const answer = await client.over()
    restore()
    assert.match(answer, /^HTTP\/1.1 503 Service Unavailable \(out of file descriptors\)\r\n/)
    assert.match(
      answer,
      /X-Proxy-Error: out-of-files\r\n(.*\r\n)*\r\negress-proxy: the proxy can open no more files; try again in a moment\.\n$/,
    )
    await lab.line({ reason: 'out-of-files', verdict: 'error' })
  })

  test('with few descriptors one source leaves room for others and for the admin listener', LONG, async (t) => {
    const inside = ['sh', '-c', 'ulimit -n 90; exec "$@"', 'sh']
    const serving = await openEgressWorkspace(t, { EGRESS_IO: io }, inside).serve()
    await serving.register(['localhost'])
    const origin = await openHttpOrigin(t)
    const [host = '', port = ''] = (serving.listeners.get('forward') ?? '').split(':')
    for (let count = 0; count < 300; count++) {
      const greedy = connect({ host, port: Number(port), localAddress: '127.0.0.2' }).on('error', () => {})
      t.after(() => greedy.destroy())
    }
    const ask = async (): Promise<string> => {
      const client = await connectPeer(t, Number(port))
      client.send(getRequest(origin.port, 'localhost'))
      const answer = await client.over()
      client.socket.destroy()
      return answer
    }
    for (let round = 0; round < 5; round++) {
      assert.match(await ask(), /^HTTP\/1.1 200 /)
      const health = await fetch(`http://${serving.listeners.get('admin')}/health`)
      assert.deepEqual(await health.json(), { status: 'ok' })
    }
  })

  test('R3: without free descriptors existing tunnels work, new ones wait, and the proxy recovers', LONG, async (t) => {
    const lab = await openLab(t, { io })
    const origin = await openPeerServer(t, { serve: echo })
    const tunnel = await lab.tunnel(origin.port)
    const restore = leaveOpenFiles(1)
    t.after(restore)
    const starved = await connectPeer(t, lab.port)
    tunnel.send('old')
    assert.equal(await tunnel.says('old'), 'old')
    await passMs(300)
    restore()
    const client = await lab.tunnel(origin.port)
    client.sendLast('new')
    assert.equal(await client.over(), 'new')
    starved.socket.destroy()
    const warnings = () => lab.lines.filter(({ msg }) => typeof msg === 'string')
    if (io === 'epoll') await until(() => /no more files/.test(String(warnings()[0]?.msg)))
    assert.ok(warnings().length <= 1, JSON.stringify(warnings()))
  })
}
