import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  get,
  OK,
  openHttpFixture,
  openHttpParts,
  openReplyingOrigin,
  removeViaSuffix,
  requestFor,
  sendRequest,
  suiteOnEachIo,
} from '../../../test/support/http-fixture.ts'
import { answerEach, rawOrigin } from '../../../test/support/raw-http.ts'
import type { Peer } from '../../../test/support/raw-socket.ts'
import { until } from '../../../test/support/until.ts'
import { forwardTarget } from '../http/target.ts'

/** Responds once this part was received. */
function answerAfter(end: Peer, part: string, answer: string): void {
  let isAnswered = false
  end.onData = () => {
    if (isAnswered || !end.text.includes(part)) return
    isAnswered = true
    end.send(answer)
  }
}

suiteOnEachIo('a request body', (io) => {
  test('with a length passes unchanged, and the next request is found after it', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => answerEach(end, () => OK))
    const client = await fixture.connectClient()
    const post = requestFor('POST', origin.port, '/', 'Content-Length: 5\r\n', 'hello')
    client.send(post + get(origin.port, '/next', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.equal(answer.match(/HTTP\/1\.1 200/g)?.length, 2)
    assert.match(
      origin.peers[0]?.text ?? '',
      /\r\nContent-Length: 5\r\nVia: 1\.1 egress-proxy-[a-z]{12}\r\n\r\nhelloGET \/next /,
    )
  })

  test('with Chunked in any case is chunked: the content passes without extensions and trailers', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, '0\r\n\r\n', OK))
    const client = await fixture.connectClient()
    const body = '3;a=b\r\nabc\r\n00002\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n'
    client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: cHunKed\r\n', body))
    await client.says('ok')
    const [, sent] = removeViaSuffix(origin.peers[0]?.text ?? '').split('egress-proxy\r\n\r\n')
    assert.equal(sent, '5\r\nabcde\r\n0\r\n\r\n')
    assert.match(origin.peers[0]?.text ?? '', /Transfer-Encoding: chunked\r\n/)
  })

  const CHUNKS: readonly [name: string, body: string][] = [
    ['a size that overflows', 'ffffffffffffffff1\r\nab\r\n'],
    ['0x before the size', '0x2\r\nab\r\n'],
    ['a signed size', '+2\r\nab\r\n'],
    ['whitespace after the size', '2 \r\nab\r\n'],
    ['no size', '\r\nab\r\n'],
    ['a line feed in an extension', '2;a\nb\r\nab\r\n'],
    ['a bare line feed after the size', '2\nab\r\n'],
    ['no line end after the data', '2\r\nabc\r\n'],
    ['an extension of 64 KB', `2;${'a'.repeat(65_536)}\r\nab\r\n`],
    ['an invalid trailer', '0\r\nX A: 1\r\n\r\n'],
    ['trailers of 64 KB', `0\r\nX: ${'a'.repeat(65_536)}\r\n\r\n`],
  ]
  for (const [name, body] of CHUNKS) {
    test(name, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await rawOrigin(t, () => {})
      const client = await fixture.connectClient()
      client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', `1\r\nx\r\n${body}`))
      const answer = await client.over()
      assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*Connection: close/)
      await until(() => origin.peers[0]?.isClosed === true)
      assert.doesNotMatch(origin.peers[0]?.text ?? '', /\r\n0\r\n\r\n$/)
    })
  }

  test('of 16 MB passes both ways in both framings unchanged', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const content = randomBytes(16_777_216)
    const digest = createHash('sha256').update(content).digest('hex')
    for (const framing of ['Content-Length: 16777216', 'Transfer-Encoding: chunked']) {
      const hash = createHash('sha256')
      const origin = await rawOrigin(t, (end) => {
        const { socket } = end
        let isBody = false
        // Echoes everything after the head, framing included.
        socket.on('data', (piece: Buffer) => {
          const at = isBody ? 0 : piece.indexOf('\r\n\r\n') + 4
          if (!isBody) end.send(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`)
          isBody = true
          if (!socket.write(Buffer.from(piece.subarray(at)))) socket.pause()
        })
        socket.on('drain', () => socket.resume())
      })
      const client = await fixture.connectClient()
      const isChunked = framing.includes('chunked')
      client.send(requestFor('PUT', origin.port, '/', `${framing}\r\nConnection: close\r\n`))
      let rest = Buffer.alloc(0)
      let isBody = false
      client.socket.on('data', (piece: Buffer) => {
        rest = Buffer.concat([rest, piece])
        const at = isBody ? -1 : rest.indexOf('\r\n\r\n')
        if (at >= 0) rest = rest.subarray(at + 4)
        isBody ||= at >= 0
        if (!isBody) return
        if (isChunked) rest = unchunk(rest, hash)
        else {
          hash.update(rest)
          rest = Buffer.alloc(0)
        }
      })
      client.send(
        isChunked ? Buffer.concat([Buffer.from('1000000\r\n'), content, Buffer.from('\r\n0\r\n\r\n')]) : content,
      )
      await client.over()
      assert.equal(hash.digest('hex'), digest, framing)
    }
  })

  test('that is cut off does not look complete to the origin', async (t) => {
    for (const framing of ['Transfer-Encoding: chunked', 'Content-Length: 1000']) {
      for (const cut of ['end', 'resetAndDestroy'] as const) {
        const fixture = await openHttpFixture(t, io)
        const origin = await rawOrigin(t, () => {})
        const client = await fixture.connectClient()
        client.send(requestFor('POST', origin.port, '/', `${framing}\r\n`, '3\r\nabc\r\n'))
        await until(() => origin.peers[0]?.text.includes('abc') === true)
        client.socket[cut]()
        await until(() => origin.peers[0]?.isClosed === true)
        assert.equal(origin.peers[0]?.error, 'ECONNRESET')
        assert.doesNotMatch(origin.peers[0]?.text ?? '', /\r\n0\r\n\r\n/)
      }
    }
  })

  test('that is incomplete when the origin has responded and ended does not look complete either', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => {
        if (end.text.includes('abc') && !end.socket.writableEnded) end.socket.end(OK)
      }
    })
    const client = await fixture.connectClient()
    client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', '3\r\nabc\r\n'))
    assert.match(await client.over(), /ok$/)
    await until(() => origin.peers[0]?.isClosed === true)
    assert.equal(origin.peers[0]?.error, 'ECONNRESET')
  })

  test('followed by the end of the client gets its response', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, 'abc\r\n0\r\n\r\n', OK))
    const post = requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\n\r\n')
    assert.match(await sendRequest(fixture, post), /ok$/)
  })

  test('is not read faster than the origin reads, nor a response faster than the client', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const deaf = await rawOrigin(t, ({ socket }) => void socket.pause())
    const client = await fixture.connectClient()
    client.send(requestFor('PUT', deaf.port, '/', 'Content-Length: 200000000\r\n'))
    const piece = Buffer.alloc(1_000_000)
    let sent = 0
    const more = (): void => {
      while (sent < 200) {
        sent++
        if (!client.socket.write(piece)) return
      }
    }
    client.socket.on('drain', more)
    more()
    const flood = await rawOrigin(t, (end) => {
      const { socket } = end
      const pour = (): void => {
        while (socket.writable && socket.write(piece));
      }
      socket.on('drain', pour)
      end.onData = () => {
        end.onData = () => {}
        end.send('HTTP/1.1 200 OK\r\n\r\n')
        pour()
      }
    })
    const reader = await fixture.connectClient()
    reader.send(get(flood.port))
    reader.socket.pause()
    await until(() => (flood.peers[0]?.socket.bytesWritten ?? 0) > 0)
    // No event marks that nothing moves: three equal samples in a row must do.
    let same = 0
    let before = -1
    await until(() => {
      const now = client.socket.bytesWritten - client.socket.writableLength + (flood.peers[0]?.socket.bytesWritten ?? 0)
      same = now === before ? same + 1 : 0
      before = now
      return same > 30
    })
    assert.ok(sent < 100, `${sent} MB went to an origin that reads nothing`)
    const poured = flood.peers[0]?.socket.bytesWritten ?? 0
    assert.ok(poured > 0 && poured < 100_000_000, `${poured} bytes went to a client that reads nothing`)
  })
})

suiteOnEachIo('100-continue', (io) => {
  const EXPECT = 'Expect: 100-continue\r\nContent-Length: 5\r\n'

  test('the 100 of the origin reaches the client, then the body the origin', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      answerAfter(end, '\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n')
    })
    const client = await fixture.connectClient()
    client.send(requestFor('POST', origin.port, '/', EXPECT))
    assert.equal(await client.says('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n')
    assert.match(origin.peers[0]?.text ?? '', /Expect: 100-continue\r\n/)
    client.send(`hello${get(origin.port, '/next')}`)
    await until(() => origin.peers[0]?.text.endsWith('hello') === true)
    origin.peers[0]?.send(OK)
    await until(() => origin.peers[0]?.text.includes('GET /next') === true)
    assert.doesNotMatch(client.text, /Connection: close/)
  })

  test('an origin that refuses at once ends the connection, because the body may or may not follow', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, 'HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n')
    const client = await fixture.connectClient()
    client.send(requestFor('POST', origin.port, '/', EXPECT))
    assert.match(await client.over(), /^HTTP\/1\.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n/)
  })

  test('an origin that responds early and goes on reading gets the whole body', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(requestFor('POST', origin.port, '/', 'Content-Length: 10\r\n', 'hello'))
    await client.says('ok')
    client.send(`world${get(origin.port, '/next')}`)
    await until(() => origin.peers[0]?.text.includes('helloworldGET /next') === true)
  })
})

suiteOnEachIo('an unknown expectation', (io) => {
  for (const fields of [
    'Expect: foo\r\n',
    'Expect: 100-continue, foo\r\n',
    'Expect: 100-continue\r\nExpect: foo\r\n',
  ]) {
    test(`${JSON.stringify(fields)} is 417 and does not reach the origin`, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await openReplyingOrigin(t, OK)
      const answer = await sendRequest(fixture, get(origin.port, '/', fields) + get(origin.port, '/next'))
      assert.match(answer, /^HTTP\/1\.1 417 Expectation Failed\r\n[\s\S]*X-Proxy-Error: bad-request\r\n/)
      assert.match(answer, /egress-proxy: the only supported Expect header is 100-continue\.\n/)
      assert.match(answer, /HTTP\/1\.1 200 OK/)
      assert.match(origin.peers[0]?.text ?? '', /^GET \/next /)
      const denied = `GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n${fields}\r\n`
      assert.match(await sendRequest(fixture, denied), /^HTTP\/1\.1 403 /)
    })
  }

  test('is ignored and removed in HTTP/1.0', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const request = get(origin.port, '/', 'Expect: foo\r\n').replace('HTTP/1.1', 'HTTP/1.0')
    assert.match(await sendRequest(fixture, request), /^HTTP\/1\.1 200 /)
    assert.doesNotMatch(origin.peers[0]?.text ?? '', /expect/i)
  })
})

suiteOnEachIo('an origin that does not respond', (io) => {
  test('a kept connection that was closed is replaced once if the request can be retried', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end, number) => {
      answerEach(end, (_, count) => {
        if (number > 1 || count === 1) return OK
        end.socket.destroy()
        return ''
      })
    })
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    await client.says('ok')
    client.send(get(origin.port, '/', 'Connection: close\r\n'))
    assert.equal((await client.over()).match(/HTTP\/1\.1 200/g)?.length, 2)
    assert.equal(origin.peers.length, 2)
  })

  test('requests that cannot be retried are not, and there is no second retry', async (t) => {
    for (const method of ['POST', 'GET']) {
      const fixture = await openHttpFixture(t, io)
      const origin = await rawOrigin(t, (end, number) => {
        answerEach(end, (_, count) => {
          if (number === 1 && count === 1) return OK
          end.socket.destroy()
          return ''
        })
      })
      const client = await fixture.connectClient()
      client.send(get(origin.port))
      await client.says('ok')
      client.send(requestFor(method, origin.port, '/', 'Connection: close\r\n'))
      assert.match(await client.over(), /HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: connection-terminated/)
      assert.equal(origin.peers.length, method === 'POST' ? 1 : 2)
    }
  })

  test('a refused connection is 502, and the client may go on', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(get(1) + get(origin.port, '/', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 502', 'HTTP/1.1 200'])
    assert.match(answer, /X-Proxy-Error: connection-refused/)
  })

  test('a timeout is 504, counted from the end of the request', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { responseMs: 200 } })
    const origin = await rawOrigin(t, () => {})
    assert.match(await sendRequest(fixture, get(origin.port)), /^HTTP\/1\.1 504 [\s\S]*X-Proxy-Error: read-timeout/)
    await until(() => origin.peers[0]?.isClosed === true)
  })

  test('a response that makes progress is never cut, a stalled one is', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { responseMs: 1000, idleMs: 1000 } })
    let count = 0
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => {
        end.send('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
        const timer = setInterval(() => (++count > 30 ? clearInterval(timer) : end.send(`event ${count}\n`)), 50)
        t.after(() => clearInterval(timer))
      }
    })
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    await client.says('event 30')
    await until(() => client.isClosed)
    assert.equal((await fixture.waitForRecords())[0]?.reason, 'idle')
  })
})

suiteOnEachIo('an upgrade', (io) => {
  const UPGRADE = 'Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n'
  const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n'

  test('a websocket handshake is forwarded, and bytes pass both ways after 101', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, '\r\n\r\n', `${SWITCH}first`))
    const client = await fixture.connectClient()
    client.send(get(origin.port, '/chat', UPGRADE))
    const answer = await client.says('first')
    assert.match(
      answer,
      /^HTTP\/1\.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\nfirst$/,
    )
    assert.match(origin.peers[0]?.text ?? '', /Connection: upgrade\r\nUpgrade: websocket\r\nVia/)
    client.send('ping')
    await until(() => origin.peers[0]?.text.endsWith('ping') === true)
    origin.peers[0]?.send('pong')
    await client.says('pong')
    client.socket.end()
    await until(() => origin.peers[0]?.hasEnded === true)
    origin.peers[0]?.socket.end('last')
    assert.match(await client.over(), /last$/)
    await fixture.untilEmpty()
    assert.equal((await fixture.waitForRecords())[0]?.status, 101)
  })

  test('an origin that declines gets its normal response through', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(get(origin.port, '/', UPGRADE) + get(origin.port, '/', 'Connection: close\r\n'))
    assert.equal((await client.over()).match(/HTTP\/1\.1 200/g)?.length, 2)
  })

  test('an unrequested 101 is 502, and so is another protocol', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, SWITCH)
    assert.match(await sendRequest(fixture, get(origin.port)), /^HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: bad-response/)
    const other = get(origin.port, '/', 'Connection: upgrade\r\nUpgrade: h2c\r\n')
    assert.match(await sendRequest(fixture, other), /^HTTP\/1\.1 502 /)
  })
})

test('a request that times out during its retry is not sent', async (t) => {
  const options = { responseMs: 500, hasManualLookups: true }
  const parts = await openHttpParts(t, { mode: 'http', readTarget: forwardTarget }, options)
  const origin = await rawOrigin(t, (end, number) => {
    answerEach(end, (_, count) => {
      if (number > 1 || count === 1) return OK
      end.socket.destroy()
      return ''
    })
  })
  const client = await parts.connectClient()
  client.send(get(origin.port))
  await until(() => {
    parts.completeLookups()
    return client.text.endsWith('ok')
  })
  client.send(get(origin.port, '/late'))
  await client.says('X-Proxy-Error: read-timeout')
  // Runs after the timeout of the previous one.
  client.send(get(origin.port, '/next', 'Connection: close\r\n'))
  await until(() => {
    parts.completeLookups()
    return client.hasEnded
  })
  assert.deepEqual(client.text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 504', 'HTTP/1.1 200'])
  assert.equal(origin.peers.length, 2)
})

/** Hashes the content of complete chunks and returns the rest. */
function unchunk(bytes: Buffer, hash: ReturnType<typeof createHash>): Buffer<ArrayBuffer> {
  let at = 0
  for (;;) {
    const line = bytes.indexOf('\r\n', at)
    const size = line < 0 ? Number.NaN : Number.parseInt(bytes.toString('latin1', at, line), 16)
    if (!(size > 0) || line + 2 + size + 2 > bytes.length) return Buffer.from(bytes.subarray(at))
    hash.update(bytes.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}
