import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  get,
  OK,
  openHttpFixture,
  openPendingRequest,
  openReplyingOrigin,
  removeViaSuffix,
  requestFor,
  sendRequest,
  sendThreeRequests,
  suiteOnEachIo,
} from '../../../test/support/http-fixture.ts'
import { answerEach, rawOrigin } from '../../../test/support/raw-http.ts'
import { until } from '../../../test/support/until.ts'

suiteOnEachIo('empty lines before a request', (io) => {
  test('are skipped before the first and between two', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const lines = '\r\n\r\n\r\n'
    const answer = await sendRequest(fixture, `${lines}${get(origin.port)}${lines}${get(origin.port)}`)
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200'])
    assert.equal(origin.peers[0]?.text.includes('\r\n\r\n\r\n'), false)
  })
})

suiteOnEachIo('plain HTTP through the proxy', (io) => {
  test('forwards a request with unchanged fields, and its response', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(
      t,
      'HTTP/1.1 200 Fine by me\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-oDd:   v  \r\nContent-Length: 2\r\n\r\nok',
    )
    const client = await fixture.connectClient()
    client.send(get(origin.port, '/a%20b/../c?d=%0d%0a#'.slice(0, -1), 'uSER-agent: x\r\nAccept: 1\r\naccept: 2\r\n'))
    const answer = await client.says('ok')
    assert.equal(
      removeViaSuffix(answer),
      'HTTP/1.1 200 Fine by me\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-oDd: v\r\nContent-Length: 2\r\nVia: 1.1 egress-proxy\r\n\r\nok',
    )
    assert.equal(
      removeViaSuffix(origin.peers[0]?.text ?? ''),
      `GET /a%20b/../c?d=%0d%0a HTTP/1.1\r\nHost: allowed.test:${origin.port}\r\nuSER-agent: x\r\nAccept: 1\r\naccept: 2\r\nVia: 1.1 egress-proxy\r\n\r\n`,
    )
    const [record] = await fixture.waitForRecords()
    assert.equal(record?.verdict, 'allow')
    assert.equal(record?.status, 200)
    assert.equal(record?.rule, 'allowed.test')
    assert.equal(record?.bytes_up, origin.peers[0]?.received)
  })

  test('reuses one origin connection for all requests of a client', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    await sendThreeRequests(client, origin.port)
    assert.equal(origin.peers.length, 1)
    assert.equal((await fixture.waitForRecords(3)).length, 3)
  })

  test('keeps no idle origin connections near capacity', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { maxConnections: 1 } })
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    await sendThreeRequests(client, origin.port)
    assert.equal(origin.peers.length, 3)
  })

  test('keeps at most two idle origin connections per client', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origins = [await openReplyingOrigin(t, OK), await openReplyingOrigin(t, OK), await openReplyingOrigin(t, OK)]
    const client = await fixture.connectClient()
    let count = 0
    for (const origin of [...origins, ...origins]) {
      client.send(get(origin.port))
      count++
      await until(() => client.text.split('\r\n\r\nok').length > count)
    }
    assert.deepEqual(
      origins.map(({ peers: ends }) => ends.length),
      [2, 2, 2],
    )
  })

  test('never shares an origin connection between clients', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    for (let count = 0; count < 2; count++) {
      const client = await fixture.connectClient()
      client.send(get(origin.port))
      await client.says('ok')
    }
    assert.equal(origin.peers.length, 2)
  })

  test('responds to pipelined requests in order', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      answerEach(end, (request) => {
        const path = request.split(' ')[1] ?? ''
        return `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`
      })
    })
    const client = await fixture.connectClient()
    client.send(
      get(origin.port, '/one') + get(origin.port, '/two') + get(origin.port, '/three', 'Connection: close\r\n'),
    )
    const bodies = (await client.over()).match(/\/(?:one|two|three)/g)
    assert.deepEqual(bodies, ['/one', '/two', '/three'])
  })
})

suiteOnEachIo('the policy check of each request', (io) => {
  const DENIED = 'GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

  test('applies to the second and third request on a connection too', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(get(origin.port) + DENIED + get(origin.port, '/', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 403', 'HTTP/1.1 200'])
    assert.match(answer, /X-Proxy-Error: blocked-by-allowlist/)
    const verdicts = (await fixture.waitForRecords(3)).map(({ verdict }) => verdict)
    assert.deepEqual(verdicts, ['allow', 'deny', 'allow'])
  })

  test('responds to ten thousand pipelined denied requests', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const client = await fixture.connectClient()
    client.send(DENIED)
    const [head = ''] = (await client.says('\r\n\r\n')).split('\r\n\r\n')
    const length = head.length + 4 + Number(/Content-Length: (\d+)/.exec(head)?.[1])
    client.send(DENIED.repeat(10_000))
    await until(() => client.received >= 10_001 * length || client.isClosed)
    assert.equal(client.received, 10_001 * length)
    assert.equal(client.isClosed, false)
  })

  test('uses the target and not the Host field, which is rewritten', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const target = `http://ALLOWED.test.:${origin.port}`
    assert.match(await sendRequest(fixture, `GET ${target} HTTP/1.1\r\nhOST: denied.test\r\n\r\n`), /^HTTP\/1\.1 200/)
    assert.match(origin.peers[0]?.text ?? '', new RegExp(`^GET / HTTP/1.1\r\nhOST: allowed.test:${origin.port}\r\n`))
    assert.match(await sendRequest(fixture, DENIED), /^HTTP\/1\.1 403/)
  })

  test('a redirect is passed on and not followed, and its target is checked', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(
      t,
      'HTTP/1.1 302 Found\r\nLocation: http://denied.test/\r\nContent-Length: 0\r\n\r\n',
    )
    const answer = await sendRequest(fixture, get(origin.port))
    assert.match(answer, /^HTTP\/1\.1 302 Found\r\nLocation: http:\/\/denied\.test\/\r\n/)
    assert.equal(origin.peers.length, 1)
  })

  test('discards the body of a denied request and never parses it as a request', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const hidden = get(origin.port, '/hidden')
    const client = await fixture.connectClient()
    client.send(`POST http://denied.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`)
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 403'])
    assert.match(answer, /Connection: close/)
    assert.equal(origin.peers.length, 0)
  })

  test('responds to a denied upload at once, without 100, before its end', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const client = await fixture.connectClient()
    client.send(
      'POST http://denied.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n',
    )
    assert.match(await client.over(), /^HTTP\/1\.1 403 /)
    await until(() => {
      client.send(Buffer.alloc(100_000))
      return client.isClosed
    })
    assert.ok(client.socket.bytesRead < 2000)
  })

  test('a denied HEAD has no body, and a client that accepts JSON gets JSON', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const answer = await sendRequest(fixture, DENIED.replace('GET', 'HEAD'))
    assert.match(answer, /^HTTP\/1\.1 403 [\s\S]*\r\n\r\n$/)
    const json = await sendRequest(fixture, DENIED.replace('\r\n\r\n', '\r\nAccept: application/json\r\n\r\n'))
    assert.match(json, /"reason":"blocked-by-allowlist"/)
  })

  test('refuses a request that has already passed this proxy', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const answer = await sendRequest(fixture, get(origin.port))
    const [, name = ''] = /\r\nVia: 1\.1 (egress-proxy-[a-z]{12})\r\n/.exec(answer) ?? []
    assert.match(origin.peers[0]?.text ?? '', new RegExp(`\r\nVia: 1\\.1 ${name}\r\n`))
    for (const via of [name, `1.0 other, 1.1 ${name} (x)`, `1.0 other, 1.1 ${name}, 1.1 another`]) {
      const loop = await sendRequest(fixture, get(origin.port, '/', `Via: ${via}\r\n`))
      assert.match(loop, /^HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: proxy-loop/)
    }
  })

  test('forwards a request that has passed another proxy of the same kind', async (t) => {
    const [fixture, other] = [await openHttpFixture(t, io), await openHttpFixture(t, io, { limits: {} })]
    const origin = await openReplyingOrigin(t, OK)
    const answer = await sendRequest(other, get(origin.port))
    const [, name = ''] = /\r\nVia: 1\.1 (\S+)\r\n/.exec(answer) ?? []
    for (const via of [name, 'egress-proxy', 'egress-proxy-aaaaaaaaaaaa'])
      assert.match(await sendRequest(fixture, get(origin.port, '/', `Via: 1.1 ${via}\r\n`)), /^HTTP\/1\.1 200/)
  })

  test('responds to TRACE and OPTIONS with Max-Forwards 0 and otherwise decrements it', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const trace = requestFor('TRACE', origin.port, '/', 'Max-Forwards: 0\r\nCookie: secret\r\nX-A: 1\r\n')
    const echoed = await sendRequest(fixture, trace)
    assert.match(echoed, /^HTTP\/1\.1 200 OK\r\nContent-Type: message\/http\r\n[\s\S]*\r\n\r\nTRACE http:[\s\S]*X-A: 1/)
    assert.doesNotMatch(echoed, /secret/)
    await sendRequest(fixture, requestFor('OPTIONS', origin.port, '', 'Max-Forwards: 3\r\n'))
    assert.match(origin.peers[0]?.text ?? '', /^OPTIONS \* HTTP\/1\.1\r\n[\s\S]*Max-Forwards: 2\r\n/)
    await sendRequest(fixture, requestFor('FROB', origin.port, '/', 'Max-Forwards: 0\r\n'))
    assert.match(origin.peers[1]?.text ?? '', /^FROB \/ HTTP\/1\.1\r\n[\s\S]*Max-Forwards: 0\r\n/)
  })

  test('hands CONNECT after a plain request over with the bytes after it', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const [origin, other] = [await openReplyingOrigin(t, OK), await rawOrigin(t, (end) => end.send('hello'))]
    const client = await fixture.connectClient()
    client.send(`${get(origin.port)}CONNECT allowed.test:${other.port} HTTP/1.1\r\nHost: a\r\n\r\nearly`)
    assert.match(await client.says('hello'), /\r\n\r\nokHTTP\/1\.1 200 Connection Established\r\n\r\nhello$/)
    await until(() => other.peers[0]?.text === 'early')
    await until(() => origin.peers[0]?.hasEnded === true)
  })

  test('a revoked request in progress is ended, and nothing else', async (t) => {
    const fixture = await openHttpFixture(t, io, { allowlist: ['allowed.test', 'other.test'] })
    const origin = await openReplyingOrigin(t, 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart')
    const [client, other, idle] = [
      await fixture.connectClient(),
      await fixture.connectClient(),
      await fixture.connectClient(),
    ]
    idle.send(get((await openReplyingOrigin(t, OK)).port))
    await idle.says('ok')
    client.send(get(origin.port))
    await client.says('part')
    other.send(get(origin.port).replaceAll('allowed.test', 'other.test'))
    await other.says('part')
    await fixture.allow('other.test')
    await until(() => client.isClosed && origin.peers[0]?.isClosed === true)
    assert.equal((await fixture.waitForRecords(2))[1]?.reason, 'revoked')
    origin.peers[1]?.send(' done')
    assert.match(await other.says('done'), /part done$/)
    idle.send(get(origin.port))
    assert.match(await idle.says('403'), /ok[\s\S]*HTTP\/1\.1 403/)
  })

  test('a stopping proxy closes idle clients, finishes requests in progress, and starts none', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { drainMs: 60_000 } })
    const origin = await rawOrigin(t, () => {})
    const [idle, busy] = [await fixture.connectClient(), await fixture.connectClient()]
    idle.send('GET http://denied.test/ HTTP/1.1\r\nHost: a\r\n\r\n')
    await idle.says('403')
    busy.send(get(origin.port) + get(origin.port))
    await until(() => origin.peers[0]?.text.includes('\r\n\r\n') === true)
    const closed = fixture.proxy.close()
    assert.match(await idle.over(), /403/)
    origin.peers[0]?.send(OK)
    assert.deepEqual((await busy.over()).match(/HTTP\/1\.1 \d+|Connection: close/g), [
      'HTTP/1.1 200',
      'Connection: close',
    ])
    for (const client of [idle, busy]) client.socket.end()
    await closed
  })
})

suiteOnEachIo('a client connection', (io) => {
  test('with a slow head is refused after the timeout, counted from the first byte', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { headMs: 300 } })
    const client = await fixture.connectClient()
    const head = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX-Slow: '
    client.send(head)
    const timer = setInterval(() => client.socket.write('a'), 20)
    t.after(() => clearInterval(timer))
    assert.match(await client.over(), /^HTTP\/1\.1 408 /)
    clearInterval(timer)
    const [line] = await fixture.waitForRecords()
    assert.ok(Number(line?.ms) > 250, `${line?.ms} ms`)
  })

  test('with a late head is not logged as the previous request', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { headMs: 300 } })
    const origin = await openReplyingOrigin(t, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n')
    const client = await fixture.connectClient()
    client.send(requestFor('HEAD', origin.port))
    await client.says('\r\n\r\n')
    client.send('GET http://')
    // The response to HEAD would have no body.
    assert.match(await client.over(), /HTTP\/1\.1 408 [\s\S]*not received in time/)
    const { reason, host, ms } = (await fixture.waitForRecords(2))[1] ?? {}
    assert.deepEqual([reason, host], ['head-timeout', undefined])
    assert.ok(Number(ms) > 250 && Number(ms) < 2000, `${ms} ms`)
  })

  test('restarts the head timeout after a denied request', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { headMs: 1500 } })
    const client = await fixture.connectClient()
    const [start, end] = ['GET http://denied.test/ HTTP/1.1\r\n', 'Host: a\r\n\r\n']
    client.send(start)
    const began = performance.now()
    let count = 0
    await until(() => {
      if (client.text.split('HTTP/1.1 403').length > count) {
        count++
        client.send(end + start)
      }
      return performance.now() - began > 2500 || client.isClosed || client.hasEnded
    })
    assert.equal(client.hasEnded, false)
    assert.match(await client.over(), /HTTP\/1\.1 408/)
  })

  test('may send its head byte by byte', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.socket.setNoDelay(true)
    for (const letter of get(origin.port)) {
      client.send(letter)
      await new Promise(setImmediate)
    }
    assert.match(await client.says('ok'), /^HTTP\/1\.1 200/)
  })

  test('is closed when idle, and its origin connection before it', async (t) => {
    const fixture = await openHttpFixture(t, io, { limits: { keepAliveMs: 200 } })
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    await client.over()
    await until(() => origin.peers[0]?.hasEnded === true)
    client.socket.end()
    await fixture.untilEmpty()
  })

  test('that half-closes after its request still gets the whole response', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => setTimeout(() => end.send(OK), 50)
    })
    assert.match(await sendRequest(fixture, get(origin.port)), /ok$/)
    await fixture.untilEmpty()
  })

  test('with HTTP/1.0 gets one response without chunks, then the end', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const chunked =
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n'
    const origin = await openReplyingOrigin(t, chunked)
    const client = await fixture.connectClient()
    client.send(`GET http://allowed.test:${origin.port}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`)
    const answer = await client.over()
    assert.equal(removeViaSuffix(answer), 'HTTP/1.1 200 OK\r\nConnection: close\r\nVia: 1.1 egress-proxy\r\n\r\nabcde')
    assert.match(
      origin.peers[0]?.text ?? '',
      /^GET \/ HTTP\/1\.1\r\nHost: allowed\.test:\d+\r\nConnection: close\r\nVia: 1\.0/,
    )
  })

  test('that closes during a request cancels it', async (t) => {
    const { fixture, origin, client } = await openPendingRequest(t, io)
    client.socket.resetAndDestroy()
    await until(() => origin.peers[0]?.isClosed === true)
    assert.equal((await fixture.waitForRecords())[0]?.reason, 'client-gone')
    await fixture.untilEmpty()
  })
})

suiteOnEachIo('framing attacks on the forward port', (io) => {
  const BAD: readonly [name: string, status: number, head: string][] = [
    ['Content-Length and Transfer-Encoding', 400, 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'],
    ['two different lengths', 400, 'Content-Length: 5\r\nContent-Length: 6\r\n'],
    ['two equal lengths', 400, 'Content-Length: 5\r\ncontent-length: 5\r\n'],
    ['a list of lengths', 400, 'Content-Length: 5, 5\r\n'],
    ['a signed length', 400, 'Content-Length: +5\r\n'],
    ['a hexadecimal length', 400, 'Content-Length: 0x5\r\n'],
    ['whitespace after a length', 400, 'Content-Length: 5 \r\n'],
    ['an empty length', 400, 'Content-Length:\r\n'],
    ['a length that is too large', 400, 'Content-Length: 99999999999999999999\r\n'],
    ['xchunked', 400, 'Transfer-Encoding: xchunked\r\n'],
    ['identity, chunked', 501, 'Transfer-Encoding: identity, chunked\r\n'],
    ['chunked, chunked', 501, 'Transfer-Encoding: chunked, chunked\r\n'],
    ['chunked, identity', 400, 'Transfer-Encoding: chunked, identity\r\n'],
    ['two Transfer-Encoding headers', 400, 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'],
    ['a tab before it', 400, 'Transfer-Encoding:\tchunked\r\n'],
    ['a vertical tab before it', 400, 'Transfer-Encoding: \x0bchunked\r\n'],
    ['a folded line', 400, 'X-A: 1\r\n 2\r\n'],
    ['a bare line feed', 400, 'X-A: 1\nX-B: 2\r\n'],
    ['a bare carriage return', 400, 'X-A: 1\rX-B: 2\r\n'],
    ['whitespace before the colon', 400, 'X-A : 1\r\n'],
    ['a NUL', 400, 'X-A: 1\x002\r\n'],
    ['an empty name', 400, ': 1\r\n'],
    ['no colon', 400, 'X-A\r\n'],
    ['two Host headers', 400, 'Host: allowed.test\r\n'],
    ['Connection that lists Host', 400, 'Connection: close, host\r\n'],
    ['Connection that lists Content-Length', 400, 'Connection: Content-Length\r\nContent-Length: 3\r\n'],
    ['Connection that lists Transfer-Encoding', 400, 'Connection: transfer-encoding\r\n'],
    ['2000 headers', 431, 'X-A: 1\r\n'.repeat(2000)],
    ['a head of 1 MB', 431, `X-A: ${'a'.repeat(1_000_000)}\r\n`],
    ['a head of more than 64 KB', 431, `X-A: ${'a'.repeat(65_500)}\r\n`],
  ]
  for (const [name, status, fields] of BAD) {
    test(name, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await openReplyingOrigin(t, OK)
      const client = await fixture.connectClient()
      client.send(`${get(origin.port, '/', fields)}0\r\n\r\n${get(origin.port, '/second')}`)
      const answer = await client.over()
      assert.match(
        answer,
        new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*\r\nX-Proxy-Error: bad-request\r\n[\\s\\S]*Connection: close\r\n`),
      )
      assert.equal(answer.split('HTTP/1.1 ').length, 2, 'one response and nothing after it')
      assert.equal(origin.peers.length, 0, 'nothing was dialled')
      const denied = 'GET http://denied.test/ HTTP/1.1\r\nHost: a\r\n\r\n'
      const later = await sendRequest(
        fixture,
        `${denied}${get(origin.port, '/', fields)}0\r\n\r\n${get(origin.port, '/second')}`,
      )
      assert.deepEqual(
        later.match(/HTTP\/1\.1 \d+/g),
        ['HTTP/1.1 403', `HTTP/1.1 ${status}`],
        'nor after another request',
      )
      assert.equal(origin.peers.length, 0)
      assert.match(await sendRequest(fixture, get(origin.port)), /^HTTP\/1\.1 200 /)
    })
  }

  const LINES: readonly [name: string, status: number, request: string][] = [
    ['Transfer-Encoding in HTTP/1.0', 400, 'POST http://allowed.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n'],
    ['line feeds only', 400, 'GET http://allowed.test/ HTTP/1.1\nHost: allowed.test\n\n'],
    ['HTTP/1.1 without Host', 400, 'GET http://allowed.test/ HTTP/1.1\r\n\r\n'],
    ['the origin form', 400, 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['a space in the target', 400, 'GET http://allowed.test/a b HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a carriage return in the target', 400, 'GET http://allowed.test/a\rb HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['an invalid method', 400, 'G@T http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['the preface of HTTP/2', 505, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['OPTIONS *', 400, 'OPTIONS * HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['a request line of 64 KB', 414, `GET http://allowed.test/${'a'.repeat(65_536)} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['HTTP/0.9', 400, 'GET http://allowed.test/\r\n'],
    ['TLS', 400, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['https:// without CONNECT', 400, 'GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['ftp://', 400, 'GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['file://', 400, 'GET file:///etc/passwd HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['an invalid Host header', 400, 'GET http://allowed.test/ HTTP/1.1\r\nHost: a b\r\n\r\n'],
    ['a name and password in the target', 400, 'GET http://u:p@allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a fragment in the target', 400, 'GET http://allowed.test/#a HTTP/1.1\r\nHost: a\r\n\r\n'],
  ]
  for (const [name, status, request] of LINES) {
    test(name, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const client = await fixture.connectClient()
      client.send(request)
      const answer = await client.over()
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `))
      assert.equal((await fixture.waitForRecords())[0]?.verdict, 'error')
    })
  }
})
