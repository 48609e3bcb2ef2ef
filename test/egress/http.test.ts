// Plain HTTP between ordinary clients and servers through the proxy, in both I/O modes. Parser details are tested in src.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request as requestHttp,
  type ServerResponse,
} from 'node:http'
import type { Duplex } from 'node:stream'
import { type TestContext, test } from 'node:test'
import {
  get,
  type HttpFixture,
  OK,
  openHttpFixture,
  openPendingRequest,
  openReplyingOrigin,
  requestFor,
  sendRequest,
  suiteOnEachIo,
} from '../support/http-fixture.ts'
import { answerEach, rawOrigin } from '../support/raw-http.ts'
import { noise, type PeerServer } from '../support/raw-socket.ts'
import { until } from '../support/until.ts'
import { openHttpOrigin } from './lab.ts'

const LONG = { timeout: 15 * 60_000 }

interface RequestOptions {
  readonly method?: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: Buffer
}

/** Sends a request with Node's client. */
function send(
  fixture: HttpFixture,
  port: number,
  { method = 'GET', headers = {}, body }: RequestOptions,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = requestHttp({
    host: '127.0.0.1',
    port: fixture.port,
    localAddress: fixture.source,
    method,
    path: `http://allowed.test:${port}/`,
    headers: { Host: `allowed.test:${port}`, ...headers },
    agent: false,
  })
  request.on('response', resolve).on('error', reject).end(body)
  return promise
}

/** The number of received bytes, and whether they equal the content. */
async function compare(message: IncomingMessage, content: Buffer): Promise<string> {
  let at = 0
  let isSame = true
  for await (const piece of message) {
    isSame &&= content.subarray(at, at + piece.length).equals(piece)
    at += piece.length
  }
  return `${at} bytes, ${isSame ? 'the same' : 'different'}`
}

/** Waits until the value stays the same for many polls in a row. */
async function untilUnchanged(read: () => unknown): Promise<void> {
  let [same, before]: [number, unknown] = [0, undefined]
  await until(() => {
    const now = read()
    same = now === before ? same + 1 : 0
    before = now
    return same > 40
  })
}

// First and not concurrent, because it measures the memory of the whole process.
suiteOnEachIo(
  'a stream',
  (io) => {
    test('of several hundred megabytes passes at the pace of its reader with constant memory', LONG, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const [block, blocks] = [noise(1_000_000), 400]
      const origin = await openHttpOrigin(t, (_, response) => {
        let count = 0
        const writeBlocks = (): void => {
          while (count < blocks) {
            count++
            if (!response.write(block)) return
          }
          response.end()
        }
        response.on('drain', writeBlocks)
        writeBlocks()
      })
      const answer = await send(fixture, origin.port, {})
      let [received, before, most] = [0, 0, 0]
      let hasPaused = false
      for await (const piece of answer) {
        received += piece.length
        // The memory growth during warm-up is not caused by the stream.
        if (received < 100_000_000) before = Math.max(before, process.memoryUsage.rss())
        else most = Math.max(most, process.memoryUsage.rss())
        if (received < 100_000_000 || hasPaused) continue
        hasPaused = true
        await untilUnchanged(() => origin.requests[0]?.socket.bytesWritten)
      }
      assert.equal(received, blocks * block.length)
      assert.ok(most - before < 100_000_000, `${most - before} bytes more`)
    })
  },
  1,
)

suiteOnEachIo('bodies', (io) => {
  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
  for (const size of [0, 1, 65_536, 16_777_216]) {
    test(`of ${size} bytes are echoed unchanged with every method and both framings`, LONG, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const content = noise(size)
      const origin = await openHttpOrigin(t, (request, response) => {
        const { 'content-length': length, 'transfer-encoding': coding } = request.headers
        assert.equal(request.headers.connection, 'close')
        response.writeHead(200, length === undefined ? { 'Transfer-Encoding': coding } : { 'Content-Length': length })
        request.pipe(response)
      })
      for (const method of METHODS) {
        for (const framing of [{ 'Content-Length': size }, { 'Transfer-Encoding': 'chunked' }]) {
          const answer = await send(fixture, origin.port, { method, headers: framing, body: content })
          const expected = `${method === 'HEAD' ? 0 : size} bytes, the same`
          const name = `${method} ${Object.keys(framing)}`
          assert.equal(await compare(answer, content), expected, name)
          assert.equal(answer.complete, true, name)
          const isChunked = answer.headers['transfer-encoding'] === 'chunked'
          // A response without a body has no framing.
          if (method !== 'HEAD') assert.equal(isChunked, 'Transfer-Encoding' in framing, name)
        }
      }
      const { length } = METHODS
      assert.deepEqual(
        origin.requests.map(({ method }) => method),
        METHODS.flatMap((method) => [method, method]),
      )
      const ups = (await fixture.waitForRecords(2 * length)).map(({ bytes_up }) => Number(bytes_up))
      assert.ok(ups.every((up) => up >= size))
    })
  }
})

suiteOnEachIo('responses of an origin', (io) => {
  test('with server-sent events arrive event by event', async (t) => {
    const fixture = await openHttpFixture(t, io)
    for (const isChunked of [true, false]) {
      let response: ServerResponse | undefined
      const origin = await openHttpOrigin(t, (_, answer) => {
        answer.useChunkedEncodingByDefault = isChunked
        response = answer.writeHead(200, { 'Content-Type': 'text/event-stream' })
        answer.flushHeaders()
      })
      const answer = await send(fixture, origin.port, { headers: { Accept: 'text/event-stream' } })
      let text = ''
      answer.setEncoding('latin1').on('data', (piece: string) => {
        text += piece
      })
      for (let count = 1; count <= 30; count++) {
        response?.write(`data: event ${count}\n\n`)
        await until(() => text.endsWith(`event ${count}\n\n`))
      }
      response?.end()
      await once(answer, 'end')
      assert.equal(answer.complete, true)
    }
  })

  test('with a slow head and a slow body arrive completely', async (t) => {
    const { origin, client } = await openPendingRequest(t, io)
    for (const piece of ['HTTP/1.1 2', '00 OK\r\nContent-', 'Length: 4\r\n', '\r\n', 'sl', 'ow']) {
      origin.peers[0]?.send(piece)
      // A real delay, because slowness is under test.
      await new Promise((resolve) => setTimeout(resolve, 30))
    }
    assert.match(await client.says('slow'), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n\r\nslow$/)
  })

  const RESETS: readonly [when: string, sent: string][] = [
    ['before the response', ''],
    ['within the head', 'HTTP/1.1 200 OK\r\nCont'],
    ['within a body with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart'],
    ['within a chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart'],
    ['between two chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n'],
  ]
  for (const [when, sent] of RESETS) {
    test(`reset ${when} are incomplete for the client, and the next request works`, async (t) => {
      const { fixture, origin, client } = await openPendingRequest(t, io)
      const hasBody = sent.includes('part')
      if (sent !== '') origin.peers[0]?.send(sent)
      if (hasBody) await client.says('part')
      origin.peers[0]?.socket.resetAndDestroy()
      if (hasBody) {
        const received = await client.over()
        assert.match(received, /^HTTP\/1\.1 200 OK\r\n[\s\S]*part(?:\r\n)?$/)
      } else assert.match(await client.says('\r\n\r\n'), /^HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: (?:bad-r|connection-t)/)
      assert.equal((await fixture.waitForRecords())[0]?.verdict, 'error')
      assert.match(await sendRequest(fixture, get((await openReplyingOrigin(t, OK)).port)), /^HTTP\/1\.1 200 /)
    })
  }

  test('that refuse an upload reach the client although it is still sending', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => {
        if (!end.socket.writableEnded) end.socket.end('HTTP/1.1 413 No\r\nContent-Length: 8\r\n\r\ntoo much')
      }
    })
    const client = await fixture.connectClient()
    client.send(requestFor('PUT', origin.port, '/', 'Content-Length: 9000000\r\n', 'x'.repeat(100_000)))
    assert.match(await client.over(), /^HTTP\/1\.1 413 No\r\n[\s\S]*\r\n\r\ntoo much$/)
    client.socket.end(Buffer.alloc(5_000_000))
    await until(() => client.isClosed)
    assert.equal(client.error, undefined)
    await until(() => origin.peers[0]?.isClosed === true)
    assert.equal(origin.peers[0]?.error, 'ECONNRESET')
  })

  test('with a redirect are passed on and not followed', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const internal = await openReplyingOrigin(t, OK)
    for (const status of [301, 302, 303, 307, 308]) {
      for (const host of ['127.0.0.1', 'allowed.test', '[::1]']) {
        const location = `Location: http://${host}:${internal.port}/secret\r\n`
        const origin = await openReplyingOrigin(t, `HTTP/1.1 ${status} Moved\r\n${location}Content-Length: 0\r\n\r\n`)
        const answer = await sendRequest(fixture, get(origin.port))
        assert.ok(answer.startsWith(`HTTP/1.1 ${status} Moved\r\n${location}`), answer)
        assert.equal(origin.peers.length, 1)
      }
    }
    assert.equal(internal.peers.length, 0)
  })
})

suiteOnEachIo('aborted connections', (io) => {
  const ABORTS = ['end', 'destroy', 'resetAndDestroy'] as const
  const ANSWER = `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n`

  test('R8: of a client at any byte leave nothing behind', LONG, async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => answerEach(end, () => ANSWER))
    const post = requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', '5\r\nhello\r\n0\r\n\r\n')
    const text = post + get(origin.port) + requestFor('PUT', origin.port, '/', 'Content-Length: 9\r\n', 'whole one')
    const cut = async (at: number): Promise<void> => {
      const client = await fixture.connectClient()
      client.send(text.slice(0, at))
      client.socket[ABORTS[at % ABORTS.length] ?? 'end']()
      await until(() => client.isClosed || client.hasEnded)
      client.socket.destroy()
    }
    for (let at = 0; at < text.length; at += 8)
      await Promise.all(Array.from({ length: 8 }, (_, more) => cut(Math.min(at + more, text.length))))
    await fixture.untilEmpty()
    await until(() => origin.peers.every(({ hasEnded, isClosed }) => hasEnded || isClosed))
    assert.match(await sendRequest(fixture, get(origin.port)), /HTTP\/1\.1 200 OK/)
  })

  test('R8: of an origin at any byte never look like a complete response', LONG, async (t) => {
    const fixture = await openHttpFixture(t, io)
    for (let at = 0; at <= ANSWER.length; at++) {
      const origin = await rawOrigin(t, (end) => {
        end.onData = () => {
          end.onData = () => {}
          end.socket.write(ANSWER.slice(0, at), () => end.socket[ABORTS[at % ABORTS.length] ?? 'end']())
        }
      })
      const client = await fixture.connectClient()
      client.send(get(origin.port, '/', 'Connection: close\r\n'))
      const received = await client.over()
      const isWhole = /HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n0\r\n\r\n$/.test(received)
      // A reset may discard bytes that were sent before it.
      if (at < ANSWER.length) assert.equal(isWhole, false, `${at}`)
      else assert.ok(isWhole || ABORTS[at % ABORTS.length] === 'resetAndDestroy')
      client.socket.destroy()
    }
    await fixture.untilEmpty()
  })
})

suiteOnEachIo('the absolute form', (io) => {
  test('keeps path and query unchanged and normalizes only the host', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const authority = `allowed.test:${origin.port}`
    const cases: readonly [target: string, path: string][] = [
      [`http://${authority}`, '/'],
      [`http://${authority}/`, '/'],
      [`HTTP://ALLOWED.Test:${origin.port}/A`, '/A'],
      [`http://allowed.test.:${origin.port}/`, '/'],
      [`http://${authority}//`, '//'],
      [`http://${authority}//other.test/x`, '//other.test/x'],
      [`http://${authority}/../a/./b//`, '/../a/./b//'],
      [`http://${authority}?q`, '/?q'],
      [`http://${authority}?`, '/?'],
      [`http://${authority}/?a=http://denied.test/@`, '/?a=http://denied.test/@'],
      [`http://${authority}/%2e%2E/%00?%0d%0a`, '/%2e%2E/%00?%0d%0a'],
      [`http://${authority}/\xe4\xf6`, '/\xe4\xf6'],
    ]
    for (const [at, [target, path]] of cases.entries()) {
      assert.match(await sendRequest(fixture, `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`), /^HTTP\/1\.1 200 /, target)
      const seen = origin.peers[at]?.text.split('\r\n').slice(0, 2)
      assert.deepEqual(seen, [`GET ${path} HTTP/1.1`, `Host: ${authority}`], target)
    }
  })

  test('means port 80 without a port, and an invalid port is refused', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const none = ['allowed.test', 'allowed.test:', 'allowed.test/', 'allowed.test?q']
    for (const target of none) await sendRequest(fixture, `GET http://${target} HTTP/1.1\r\nHost: x\r\n\r\n`)
    for (const { host, port, rule } of await fixture.waitForRecords(none.length))
      assert.deepEqual([host, port, rule], ['allowed.test', 80, 'allowed.test'])
    for (const bad of ['allowed.test:0', 'allowed.test:65536', 'allowed.test:8x', 'allowed.test:-1'])
      assert.match(
        await sendRequest(fixture, `GET http://${bad}/ HTTP/1.1\r\nHost: x\r\n\r\n`),
        /^HTTP\/1\.1 400 /,
        bad,
      )
  })

  test('with an IP address is denied; with user info or a fragment it is refused', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const cases: readonly [target: string, status: number][] = [
      [`http://[::1]:${origin.port}/`, 403],
      [`http://[::ffff:127.0.0.1]:${origin.port}/`, 403],
      [`http://127.0.0.1:${origin.port}/`, 403],
      [`http://2130706433:${origin.port}/`, 403],
      [`http://user@allowed.test:${origin.port}/`, 400],
      [`http://allowed.test@127.0.0.1:${origin.port}/`, 400],
      [`http://allowed.test:${origin.port}/#f`, 400],
      [`http://allowed.test:${origin.port}#@denied.test/`, 400],
      [`http://allowed.test:${origin.port}\\@denied.test/`, 400],
      [`http:///allowed.test:${origin.port}/`, 400],
      [`http:/allowed.test:${origin.port}/`, 400],
      [`http://::1:${origin.port}/`, 400],
      ['http://', 400],
    ]
    for (const [target, status] of cases) {
      const answer = await sendRequest(fixture, `GET ${target} HTTP/1.1\r\nHost: allowed.test:${origin.port}\r\n\r\n`)
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `), target)
    }
    assert.equal(origin.peers.length, 0)
  })
})

suiteOnEachIo('a client that expects 100-continue', (io) => {
  const BODY = randomBytes(100_000)

  async function upload(fixture: HttpFixture, port: number, framing: OutgoingHttpHeaders) {
    const request = requestHttp({
      host: '127.0.0.1',
      port: fixture.port,
      localAddress: fixture.source,
      method: 'POST',
      path: `http://allowed.test:${port}/`,
      headers: { Host: `allowed.test:${port}`, Expect: '100-continue', ...framing },
      agent: false,
    })
    request.flushHeaders()
    const events: string[] = []
    request.on('continue', () => {
      events.push('continue')
      request.end(BODY)
    })
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    request.on('response', resolve).on('error', reject)
    return { request, events, answered: promise }
  }

  for (const framing of [{ 'Content-Length': BODY.length }, { 'Transfer-Encoding': 'chunked' }]) {
    test(`sends its body when the origin responds with 100 (${Object.keys(framing)})`, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await openHttpOrigin(t, (request, response) => {
        request.pipe(response)
      })
      const { answered, events } = await upload(fixture, origin.port, framing)
      assert.equal(await compare(await answered, BODY), `${BODY.length} bytes, the same`)
      assert.deepEqual(events, ['continue'])
      assert.equal(origin.requests[0]?.headers.expect, '100-continue')
    })
  }

  test('receives a refusal of the origin and sends no body', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const server = createServer()
    server.on('checkContinue', (_, response: ServerResponse) => response.writeHead(413).end('too much'))
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => {
      server.closeAllConnections()
      server.close()
    })
    const at = server.address()
    const port = at !== null && typeof at === 'object' ? at.port : 0
    const { answered, events, request } = await upload(fixture, port, { 'Content-Length': BODY.length })
    const answer = await answered
    assert.equal(answer.statusCode, 413)
    assert.equal(answer.headers.connection, 'close')
    assert.equal(await compare(answer, Buffer.from('too much')), '8 bytes, the same')
    assert.deepEqual(events, [])
    request.destroy()
  })

  test('can send its body without a response of the origin', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => {
        if (end.text.endsWith('hello')) end.send(OK)
      }
    })
    const client = await fixture.connectClient()
    client.send(requestFor('POST', origin.port, '/', 'Expect: 100-continue\r\nContent-Length: 5\r\n'))
    await until(() => origin.peers[0]?.text.includes('\r\n\r\n') === true)
    assert.equal(client.text, '')
    client.send(`hello${get(origin.port, '/next')}`)
    await until(() => origin.peers[0]?.text.includes('GET /next') === true)
    assert.match(
      await client.says('\r\n\r\nok'),
      /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\nVia: 1\.1 egress-proxy-[a-z]{12}\r\n\r\nok$/,
    )
  })
})

/** Encodes a WebSocket frame; clients mask theirs. */
function encodeFrame(opcode: number, payload: Buffer, isMasked: boolean): Buffer {
  const { length } = payload
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10)
  head[0] = 0x80 | opcode
  head[1] = (isMasked ? 0x80 : 0) | (length < 126 ? length : length < 65_536 ? 126 : 127)
  if (head.length === 4) head.writeUInt16BE(length, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2)
  if (!isMasked) return Buffer.concat([head, payload])
  const mask = randomBytes(4)
  const masked = Buffer.from(payload.map((byte, at) => byte ^ (mask[at & 3] ?? 0)))
  return Buffer.concat([head, mask, masked])
}

/** Calls back with each complete frame, unmasked. */
function readFrames(socket: Duplex, first: Buffer, onFrame: (opcode: number, payload: Buffer) => void): void {
  let rest = Buffer.alloc(0)
  const read = (piece: Buffer): void => {
    rest = Buffer.concat([rest, piece])
    for (;;) {
      const short = (rest[1] ?? 0) & 127
      const size = short < 126 ? 2 : short === 126 ? 4 : 10
      const isMasked = ((rest[1] ?? 0) & 128) > 0
      const from = size + (isMasked ? 4 : 0)
      if (rest.length < from) return
      const length = size === 2 ? short : size === 4 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2))
      if (rest.length < from + length) return
      const mask = rest.subarray(size, from)
      const payload = Buffer.from(rest.subarray(from, from + length).map((byte, at) => byte ^ (mask[at & 3] ?? 0)))
      const opcode = (rest[0] ?? 0) & 15
      rest = Buffer.from(rest.subarray(from + length))
      onFrame(opcode, payload)
    }
  }
  socket.on('data', read)
  if (first.length > 0) read(first)
}

const [TEXT, CLOSE, PING, PONG] = [1, 8, 9, 10]

/** Echoes text, responds to pings and close frames. */
async function openSocketOrigin(t: TestContext): Promise<number> {
  const server = createServer()
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, first: Buffer) => {
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`
    const accept = createHash('sha1').update(key).digest('base64')
    const lines = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']
    socket.on('error', () => {})
    socket.write(`${[...lines, `Sec-WebSocket-Accept: ${accept}`].join('\r\n')}\r\n\r\n`)
    readFrames(socket, first, (opcode, payload) => {
      socket.write(encodeFrame(opcode === PING ? PONG : opcode, payload, false))
      if (opcode === CLOSE) socket.end()
    })
    t.after(() => void socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const at = server.address()
  return at !== null && typeof at === 'object' ? at.port : 0
}

suiteOnEachIo('a WebSocket', (io) => {
  test('opens, echoes messages of every size, responds to a ping, and closes', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const port = await openSocketOrigin(t)
    const key = randomBytes(16).toString('base64')
    const request = requestHttp({
      host: '127.0.0.1',
      port: fixture.port,
      localAddress: fixture.source,
      path: `http://allowed.test:${port}/chat`,
      headers: {
        Host: `allowed.test:${port}`,
        Connection: 'Upgrade',
        Upgrade: 'websocket',
        'Sec-WebSocket-Version': 13,
        'Sec-WebSocket-Key': key,
      },
      agent: false,
    }).end()
    const [answer, socket, first]: [IncomingMessage, Duplex, Buffer] = await once(request, 'upgrade').then(
      ([a, s, f]) => [a, s, f],
    )
    t.after(() => void socket.destroy())
    assert.equal(answer.statusCode, 101)
    const accept = createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
    assert.equal(answer.headers['sec-websocket-accept'], accept)
    const frames: { opcode: number; payload: Buffer }[] = []
    readFrames(socket, first, (opcode, payload) => frames.push({ opcode, payload }))
    const messages = [0, 1, 125, 126, 65_535, 65_536, 1_000_000].map((size) => noise(size))
    for (const [at, message] of messages.entries()) {
      socket.write(encodeFrame(TEXT, message, true))
      await until(() => frames.length > at)
      assert.ok(frames[at]?.opcode === TEXT && frames[at].payload.equals(message), `${message.length} bytes`)
    }
    socket.write(encodeFrame(PING, Buffer.from('still there?'), true))
    await until(() => frames.length > messages.length)
    assert.equal(frames.at(-1)?.opcode, PONG)
    const ended = once(socket, 'end')
    socket.write(encodeFrame(CLOSE, Buffer.from([3, 232]), true))
    await ended
    assert.equal(frames.at(-1)?.opcode, CLOSE)
    socket.end()
    const [{ status, verdict, bytes_down } = {}] = await fixture.waitForRecords()
    assert.deepEqual([status, verdict], [101, 'allow'])
    assert.ok(Number(bytes_down) > 1_100_000)
  })

  test('loses no messages that the client sends before the upgrade response', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const port = await openSocketOrigin(t)
    const client = await fixture.connectClient()
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${'a'.repeat(22)}==\r\n`
    client.send(Buffer.concat([Buffer.from(get(port, '/', fields)), encodeFrame(TEXT, Buffer.from('one'), true)]))
    client.send(encodeFrame(TEXT, Buffer.from('two'), true))
    await client.says('two')
    client.send(encodeFrame(TEXT, Buffer.from('three'), true))
    await client.says('three')
    client.send(encodeFrame(CLOSE, Buffer.from('bye'), true))
    assert.match(await client.over(), /^HTTP\/1\.1 101 [\s\S]*\r\n\r\n\x81\x03one\x81\x03two\x81\x05three\x88\x03bye$/)
  })

  test('to a denied host is refused with 403', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const port = await openSocketOrigin(t)
    const fields = `Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${'a'.repeat(22)}==\r\n`
    const request = get(port, '/', fields).replaceAll('allowed.test', 'denied.test')
    assert.match(await sendRequest(fixture, request), /^HTTP\/1\.1 403 /)
  })
})

/** Responds to each request with the number of its connection, and keeps the connection open. */
function numberingOrigin(t: TestContext): Promise<PeerServer> {
  return rawOrigin(t, (end, number) => {
    const mark = `connection ${number}\n`
    answerEach(end, () => `HTTP/1.1 200 OK\r\nContent-Length: ${mark.length}\r\n\r\n${mark}`)
  })
}

suiteOnEachIo('two sources', (io) => {
  test('H20: never share a connection to an origin, not even two clients of one source', async (t) => {
    const stages = [await openHttpFixture(t, io), await openHttpFixture(t, io)]
    const origin = await numberingOrigin(t)
    const clients = await Promise.all(stages.flatMap((fixture) => [fixture.connectClient(), fixture.connectClient()]))
    // One after the other, so that idle connections are available for sharing.
    for (let round = 1; round <= 10; round++) {
      for (const [at, client] of clients.entries()) {
        client.send(get(origin.port, '/', `X-Client: ${at}\r\n`))
        await until(() => client.text.split('connection ').length > round)
      }
    }
    assert.equal(origin.peers.length, clients.length)
    for (const { text } of origin.peers) {
      const names = new Set([...text.matchAll(/X-Client: \d/g)].map(([name]) => name))
      assert.equal(names.size, 1)
    }
    for (const { text } of clients) assert.equal(new Set(text.match(/connection \d+/g)).size, 1)
  })

  test('H9: have each request checked against their own list, also with pipelining', async (t) => {
    const stages = [
      await openHttpFixture(t, io, { allowlist: ['allowed.test'] }),
      await openHttpFixture(t, io, { allowlist: ['other.test'] }),
    ]
    const origin = await numberingOrigin(t)
    const names = ['allowed.test', 'other.test', 'denied.test', 'other.test', 'allowed.test']
    const requests = names.map((name) => get(origin.port).replaceAll('allowed.test', name)).join('')
    const clients = await Promise.all(stages.flatMap((fixture) => [fixture.connectClient(), fixture.connectClient()]))
    for (const client of clients) client.send(requests.repeat(20))
    for (const [at, client] of clients.entries()) {
      await until(() => client.text.match(/HTTP\/1\.1 \d+/g)?.length === 100)
      const expected = names.map((name) => (name === (at < 2 ? 'allowed.test' : 'other.test') ? 200 : 403))
      const all = Array.from({ length: 20 }, () => expected).flat()
      assert.deepEqual(
        client.text.match(/HTTP\/1\.1 \d+/g)?.map((line) => Number(line.slice(-3))),
        all,
      )
    }
    assert.equal(origin.peers.length, clients.length)
  })
})
