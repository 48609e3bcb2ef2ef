import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import {
  ask,
  get,
  OK,
  openHttpParts,
  openHttpStage,
  plainVia,
  requestFor,
  saying,
  suiteOnBoth,
} from '../../../test/support/http-stage.ts'
import { answerEach, type RawEnd, rawOrigin } from '../../../test/support/raw-http.ts'
import { until } from '../../../test/support/until.ts'
import { forwardTarget } from './target.ts'

/** Answers when it has seen this. */
function answerAfter(end: RawEnd, part: string, answer: string): void {
  let isAnswered = false
  end.heard = () => {
    if (isAnswered || !end.text.includes(part)) return
    isAnswered = true
    end.send(answer)
  }
}

suiteOnBoth('the body of a request', (io) => {
  test('with a length it passes unchanged, and the next request is found behind it', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => answerEach(end, () => OK))
    const client = await stage.client()
    const post = requestFor('POST', origin.port, '/', 'Content-Length: 5\r\n', 'hello')
    client.send(post + get(origin.port, '/next', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.equal(answer.match(/HTTP\/1\.1 200/g)?.length, 2)
    assert.match(
      origin.ends[0]?.text ?? '',
      /\r\nContent-Length: 5\r\nVia: 1\.1 egress-proxy-[a-z]{12}\r\n\r\nhelloGET \/next /,
    )
  })

  test('H3: Chunked in any case is chunked: extensions and trailers stay behind, the content passes', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, '0\r\n\r\n', OK))
    const client = await stage.client()
    const body = '3;a=b\r\nabc\r\n00002\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n'
    client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: cHunKed\r\n', body))
    await client.has('ok')
    const [, sent] = plainVia(origin.ends[0]?.text ?? '').split('egress-proxy\r\n\r\n')
    assert.equal(sent, '5\r\nabcde\r\n0\r\n\r\n')
    assert.match(origin.ends[0]?.text ?? '', /Transfer-Encoding: chunked\r\n/)
  })

  const CHUNKS: readonly [name: string, body: string][] = [
    ['a size that overflows', 'ffffffffffffffff1\r\nab\r\n'],
    ['0x before the size', '0x2\r\nab\r\n'],
    ['a signed size', '+2\r\nab\r\n'],
    ['a blank behind the size', '2 \r\nab\r\n'],
    ['no size', '\r\nab\r\n'],
    ['a line feed in an extension', '2;a\nb\r\nab\r\n'],
    ['a line feed alone behind the size', '2\nab\r\n'],
    ['no end of line behind the data', '2\r\nabc\r\n'],
    ['an extension of 64 KB', `2;${'a'.repeat(65_536)}\r\nab\r\n`],
    ['a trailer that is no field', '0\r\nX A: 1\r\n\r\n'],
    ['trailers of 64 KB', `0\r\nX: ${'a'.repeat(65_536)}\r\n\r\n`],
  ]
  for (const [name, body] of CHUNKS) {
    test(`H4: ${name}`, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await rawOrigin(t, () => {})
      const client = await stage.client()
      client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', `1\r\nx\r\n${body}`))
      const answer = await client.over()
      assert.match(answer, /^HTTP\/1\.1 400 [\s\S]*Connection: close/)
      await until(() => origin.ends[0]?.isClosed === true)
      assert.doesNotMatch(origin.ends[0]?.text ?? '', /\r\n0\r\n\r\n$/)
    })
  }

  test('16 MB pass both ways in both framings, and every byte is the same', async (t) => {
    const stage = await openHttpStage(t, io)
    const content = randomBytes(16_777_216)
    const digest = createHash('sha256').update(content).digest('hex')
    for (const framing of ['Content-Length: 16777216', 'Transfer-Encoding: chunked']) {
      const hash = createHash('sha256')
      const origin = await rawOrigin(t, (end) => {
        const { socket } = end
        let isBody = false
        // An echo: what comes behind the head goes back as it is, framing included.
        socket.on('data', (piece: Buffer) => {
          const at = isBody ? 0 : piece.indexOf('\r\n\r\n') + 4
          if (!isBody) end.send(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`)
          isBody = true
          if (!socket.write(Buffer.from(piece.subarray(at)))) socket.pause()
        })
        socket.on('drain', () => socket.resume())
      })
      const client = await stage.client()
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

  test('H18: an upload that is cut off does not look complete to the origin', async (t) => {
    for (const framing of ['Transfer-Encoding: chunked', 'Content-Length: 1000']) {
      for (const cut of ['end', 'resetAndDestroy'] as const) {
        const stage = await openHttpStage(t, io)
        const origin = await rawOrigin(t, () => {})
        const client = await stage.client()
        client.send(requestFor('POST', origin.port, '/', `${framing}\r\n`, '3\r\nabc\r\n'))
        await until(() => origin.ends[0]?.text.includes('abc') === true)
        client.socket[cut]()
        await until(() => origin.ends[0]?.isClosed === true)
        assert.equal(origin.ends[0]?.error, 'ECONNRESET')
        assert.doesNotMatch(origin.ends[0]?.text ?? '', /\r\n0\r\n\r\n/)
      }
    }
  })

  test('H18: nor does one whose origin has answered and ended before it was whole', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => {
        if (end.text.includes('abc') && !end.socket.writableEnded) end.socket.end(OK)
      }
    })
    const client = await stage.client()
    client.send(requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', '3\r\nabc\r\n'))
    assert.match(await client.over(), /ok$/)
    await until(() => origin.ends[0]?.isClosed === true)
    assert.equal(origin.ends[0]?.error, 'ECONNRESET')
  })

  test('a client that ends behind its whole body is answered', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, 'abc\r\n0\r\n\r\n', OK))
    const post = requestFor('POST', origin.port, '/', 'Transfer-Encoding: chunked\r\n', '3\r\nabc\r\n0\r\n\r\n')
    assert.match(await ask(stage, post), /ok$/)
  })

  test('R4: an origin that does not read stops the client, and a client that does not read stops the origin', async (t) => {
    const stage = await openHttpStage(t, io)
    const deaf = await rawOrigin(t, ({ socket }) => void socket.pause())
    const client = await stage.client()
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
      end.heard = () => {
        end.heard = () => {}
        end.send('HTTP/1.1 200 OK\r\n\r\n')
        pour()
      }
    })
    const reader = await stage.client()
    reader.send(get(flood.port))
    reader.socket.pause()
    await until(() => (flood.ends[0]?.socket.bytesWritten ?? 0) > 0)
    // Nothing is announced when nothing moves: three looks in a row must see the same.
    let same = 0
    let before = -1
    await until(() => {
      const now = client.socket.bytesWritten - client.socket.writableLength + (flood.ends[0]?.socket.bytesWritten ?? 0)
      same = now === before ? same + 1 : 0
      before = now
      return same > 30
    })
    assert.ok(sent < 100, `${sent} MB went to an origin that reads nothing`)
    const poured = flood.ends[0]?.socket.bytesWritten ?? 0
    assert.ok(poured > 0 && poured < 100_000_000, `${poured} bytes went to a client that reads nothing`)
  })
})

suiteOnBoth('100-continue', (io) => {
  const EXPECT = 'Expect: 100-continue\r\nContent-Length: 5\r\n'

  test('the word of the origin reaches the client, and then the body the origin', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      answerAfter(end, '\r\n\r\n', 'HTTP/1.1 100 Continue\r\n\r\n')
    })
    const client = await stage.client()
    client.send(requestFor('POST', origin.port, '/', EXPECT))
    assert.equal(await client.has('\r\n\r\n'), 'HTTP/1.1 100 Continue\r\n\r\n')
    assert.match(origin.ends[0]?.text ?? '', /Expect: 100-continue\r\n/)
    client.send(`hello${get(origin.port, '/next')}`)
    await until(() => origin.ends[0]?.text.endsWith('hello') === true)
    origin.ends[0]?.send(OK)
    await until(() => origin.ends[0]?.text.includes('GET /next') === true)
    assert.doesNotMatch(client.text, /Connection: close/)
  })

  test('an origin that refuses at once ends the connection: whether the body follows nobody knows', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, 'HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n')
    const client = await stage.client()
    client.send(requestFor('POST', origin.port, '/', EXPECT))
    assert.match(await client.over(), /^HTTP\/1\.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n/)
  })

  test('an origin that answers early and goes on reading gets the whole body', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(requestFor('POST', origin.port, '/', 'Content-Length: 10\r\n', 'hello'))
    await client.has('ok')
    client.send(`world${get(origin.port, '/next')}`)
    await until(() => origin.ends[0]?.text.includes('helloworldGET /next') === true)
  })
})

suiteOnBoth('an expectation that no proxy knows', (io) => {
  for (const fields of [
    'Expect: foo\r\n',
    'Expect: 100-continue, foo\r\n',
    'Expect: 100-continue\r\nExpect: foo\r\n',
  ]) {
    test(`${JSON.stringify(fields)} is 417, and the origin hears nothing of it`, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await saying(t, OK)
      const answer = await ask(stage, get(origin.port, '/', fields) + get(origin.port, '/next'))
      assert.match(answer, /^HTTP\/1\.1 417 Expectation Failed\r\n[\s\S]*X-Proxy-Error: bad-request\r\n/)
      assert.match(answer, /egress-proxy: the field Expect asks for something other than 100-continue\.\n/)
      assert.match(answer, /HTTP\/1\.1 200 OK/)
      assert.match(origin.ends[0]?.text ?? '', /^GET \/next /)
      const denied = `GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n${fields}\r\n`
      assert.match(await ask(stage, denied), /^HTTP\/1\.1 403 /)
    })
  }

  test('HTTP/1.0 has none, and the field goes no further', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const request = get(origin.port, '/', 'Expect: foo\r\n').replace('HTTP/1.1', 'HTTP/1.0')
    assert.match(await ask(stage, request), /^HTTP\/1\.1 200 /)
    assert.doesNotMatch(origin.ends[0]?.text ?? '', /expect/i)
  })
})

suiteOnBoth('an origin that does not answer', (io) => {
  test('a kept connection that died is replaced once, where the request can be sent again', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end, number) => {
      answerEach(end, (_, count) => {
        if (number > 1 || count === 1) return OK
        end.socket.destroy()
        return ''
      })
    })
    const client = await stage.client()
    client.send(get(origin.port))
    await client.has('ok')
    client.send(get(origin.port, '/', 'Connection: close\r\n'))
    assert.equal((await client.over()).match(/HTTP\/1\.1 200/g)?.length, 2)
    assert.equal(origin.ends.length, 2)
  })

  test('what cannot be sent again is not, and what dies a second time neither', async (t) => {
    for (const method of ['POST', 'GET']) {
      const stage = await openHttpStage(t, io)
      const origin = await rawOrigin(t, (end, number) => {
        answerEach(end, (_, count) => {
          if (number === 1 && count === 1) return OK
          end.socket.destroy()
          return ''
        })
      })
      const client = await stage.client()
      client.send(get(origin.port))
      await client.has('ok')
      client.send(requestFor(method, origin.port, '/', 'Connection: close\r\n'))
      assert.match(await client.over(), /HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: connection-terminated/)
      assert.equal(origin.ends.length, method === 'POST' ? 1 : 2)
    }
  })

  test('one that refuses the connection is 502, and the client may go on', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(get(1) + get(origin.port, '/', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 502', 'HTTP/1.1 200'])
    assert.match(answer, /X-Proxy-Error: connection-refused/)
  })

  test('one that takes too long is 504, with the limit counted from the end of the request', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { responseMs: 200 } })
    const origin = await rawOrigin(t, () => {})
    assert.match(await ask(stage, get(origin.port)), /^HTTP\/1\.1 504 [\s\S]*X-Proxy-Error: read-timeout/)
    await until(() => origin.ends[0]?.isClosed === true)
  })

  test('R10: no limit cuts an answer that moves, and one that does not move for long is cut', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { responseMs: 1000, idleMs: 1000 } })
    let count = 0
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => {
        end.send('HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n')
        const timer = setInterval(() => (++count > 30 ? clearInterval(timer) : end.send(`event ${count}\n`)), 50)
        t.after(() => clearInterval(timer))
      }
    })
    const client = await stage.client()
    client.send(get(origin.port))
    await client.has('event 30')
    await until(() => client.isClosed)
    assert.equal((await stage.records())[0]?.reason, 'idle')
  })
})

suiteOnBoth('a change of protocol', (io) => {
  const UPGRADE = 'Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n'
  const SWITCH = 'HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n'

  test('a websocket is asked for again, and after 101 bytes pass both ways', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => answerAfter(end, '\r\n\r\n', `${SWITCH}first`))
    const client = await stage.client()
    client.send(get(origin.port, '/chat', UPGRADE))
    const answer = await client.has('first')
    assert.match(
      answer,
      /^HTTP\/1\.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\nfirst$/,
    )
    assert.match(origin.ends[0]?.text ?? '', /Connection: upgrade\r\nUpgrade: websocket\r\nVia/)
    client.send('ping')
    await until(() => origin.ends[0]?.text.endsWith('ping') === true)
    origin.ends[0]?.send('pong')
    await client.has('pong')
    client.socket.end()
    await until(() => origin.ends[0]?.hasEnded === true)
    origin.ends[0]?.socket.end('last')
    assert.match(await client.over(), /last$/)
    await stage.empty()
    assert.equal((await stage.records())[0]?.status, 101)
  })

  test('an origin that does not want to answers as ever', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(get(origin.port, '/', UPGRADE) + get(origin.port, '/', 'Connection: close\r\n'))
    assert.equal((await client.over()).match(/HTTP\/1\.1 200/g)?.length, 2)
  })

  test('H16: 101 that nobody asked for is 502, and so is another protocol', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, SWITCH)
    assert.match(await ask(stage, get(origin.port)), /^HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: bad-response/)
    const other = get(origin.port, '/', 'Connection: upgrade\r\nUpgrade: h2c\r\n')
    assert.match(await ask(stage, other), /^HTTP\/1\.1 502 /)
  })
})

test('a request whose time is over while it is tried once more is sent to nobody', async (t) => {
  const options = { responseMs: 500, asksLong: true }
  const parts = await openHttpParts(t, { mode: 'http', targetOf: forwardTarget }, options)
  const origin = await rawOrigin(t, (end, number) => {
    answerEach(end, (_, count) => {
      if (number > 1 || count === 1) return OK
      end.socket.destroy()
      return ''
    })
  })
  const client = await parts.client()
  client.send(get(origin.port))
  await until(() => {
    parts.resolve()
    return client.text.endsWith('ok')
  })
  client.send(get(origin.port, '/late'))
  await client.has('X-Proxy-Error: read-timeout')
  // What this one waits for, the one before it would be told of first.
  client.send(get(origin.port, '/next', 'Connection: close\r\n'))
  await until(() => {
    parts.resolve()
    return client.hasEnded
  })
  assert.deepEqual(client.text.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 504', 'HTTP/1.1 200'])
  assert.equal(origin.ends.length, 2)
})

/** Hashes the content of whole chunks and gives back the rest. */
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
