import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  ask,
  get,
  OK,
  openHttpStage,
  plainVia,
  requestFor,
  saying,
  suiteOnBoth,
} from '../../../test/support/http-stage.ts'
import { answerEach, rawOrigin } from '../../../test/support/raw-http.ts'
import { until } from '../../../test/support/until.ts'

suiteOnBoth('empty lines before a request', (io) => {
  test('are skipped before the first and between two', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const lines = '\r\n\r\n\r\n'
    const answer = await ask(stage, `${lines}${get(origin.port)}${lines}${get(origin.port)}`)
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 200'])
    assert.equal(origin.ends[0]?.text.includes('\r\n\r\n\r\n'), false)
  })
})

suiteOnBoth('plain HTTP through the proxy', (io) => {
  test('a request goes to its origin with its fields as they were, and the answer comes back the same', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(
      t,
      'HTTP/1.1 200 Fine by me\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-oDd:   v  \r\nContent-Length: 2\r\n\r\nok',
    )
    const client = await stage.client()
    client.send(get(origin.port, '/a%20b/../c?d=%0d%0a#'.slice(0, -1), 'uSER-agent: x\r\nAccept: 1\r\naccept: 2\r\n'))
    const answer = await client.has('ok')
    assert.equal(
      plainVia(answer),
      'HTTP/1.1 200 Fine by me\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nX-oDd: v\r\nContent-Length: 2\r\nVia: 1.1 egress-proxy\r\n\r\nok',
    )
    assert.equal(
      plainVia(origin.ends[0]?.text ?? ''),
      `GET /a%20b/../c?d=%0d%0a HTTP/1.1\r\nHost: allowed.test:${origin.port}\r\nuSER-agent: x\r\nAccept: 1\r\naccept: 2\r\nVia: 1.1 egress-proxy\r\n\r\n`,
    )
    const [record] = await stage.records()
    assert.equal(record?.verdict, 'allow')
    assert.equal(record?.status, 200)
    assert.equal(record?.rule, 'allowed.test')
    assert.equal(record?.bytes_up, origin.ends[0]?.bytes)
  })

  test('one connection to the origin serves all requests of one client to it', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    for (let count = 1; count <= 3; count++) {
      client.send(get(origin.port))
      await until(() => client.text.split('\r\n\r\nok').length > count)
    }
    assert.equal(origin.ends.length, 1)
    assert.equal((await stage.records(3)).length, 3)
  })

  test('where room is short, no connection to an origin is kept for later', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { maxConnections: 1 } })
    const origin = await saying(t, OK)
    const client = await stage.client()
    for (let count = 1; count <= 3; count++) {
      client.send(get(origin.port))
      await until(() => client.text.split('\r\n\r\nok').length > count)
    }
    assert.equal(origin.ends.length, 3)
  })

  test('no more than two connections to origins are kept for a client', async (t) => {
    const stage = await openHttpStage(t, io)
    const origins = [await saying(t, OK), await saying(t, OK), await saying(t, OK)]
    const client = await stage.client()
    let count = 0
    for (const origin of [...origins, ...origins]) {
      client.send(get(origin.port))
      count++
      await until(() => client.text.split('\r\n\r\nok').length > count)
    }
    assert.deepEqual(
      origins.map(({ ends }) => ends.length),
      [2, 2, 2],
    )
  })

  test('H20: two clients never share a connection to an origin', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    for (let count = 0; count < 2; count++) {
      const client = await stage.client()
      client.send(get(origin.port))
      await client.has('ok')
    }
    assert.equal(origin.ends.length, 2)
  })

  test('three requests sent at once are answered in their order', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      answerEach(end, (request) => {
        const path = request.split(' ')[1] ?? ''
        return `HTTP/1.1 200 OK\r\nContent-Length: ${path.length}\r\n\r\n${path}`
      })
    })
    const client = await stage.client()
    client.send(
      get(origin.port, '/one') + get(origin.port, '/two') + get(origin.port, '/three', 'Connection: close\r\n'),
    )
    const bodies = (await client.over()).match(/\/(?:one|two|three)/g)
    assert.deepEqual(bodies, ['/one', '/two', '/three'])
  })
})

suiteOnBoth('the verdict on each request', (io) => {
  const DENIED = 'GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'

  test('H9: a second request to a denied host is judged on its own, and so is the third', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(get(origin.port) + DENIED + get(origin.port, '/', 'Connection: close\r\n'))
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 200', 'HTTP/1.1 403', 'HTTP/1.1 200'])
    assert.match(answer, /X-Proxy-Error: blocked-by-allowlist/)
    const verdicts = (await stage.records(3)).map(({ verdict }) => verdict)
    assert.deepEqual(verdicts, ['allow', 'deny', 'allow'])
  })

  test('ten thousand denied requests in one go get ten thousand answers', async (t) => {
    const stage = await openHttpStage(t, io)
    const client = await stage.client()
    client.send(DENIED)
    const [head = ''] = (await client.has('\r\n\r\n')).split('\r\n\r\n')
    const length = head.length + 4 + Number(/Content-Length: (\d+)/.exec(head)?.[1])
    client.send(DENIED.repeat(10_000))
    await until(() => client.bytes >= 10_001 * length || client.isClosed)
    assert.equal(client.bytes, 10_001 * length)
    assert.equal(client.isClosed, false)
  })

  test('H6: the target decides and not the Host field, which is rewritten', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const target = `http://ALLOWED.test.:${origin.port}`
    assert.match(await ask(stage, `GET ${target} HTTP/1.1\r\nhOST: denied.test\r\n\r\n`), /^HTTP\/1\.1 200/)
    assert.match(origin.ends[0]?.text ?? '', new RegExp(`^GET / HTTP/1.1\r\nhOST: allowed.test:${origin.port}\r\n`))
    assert.match(await ask(stage, DENIED), /^HTTP\/1\.1 403/)
  })

  test('E18: a redirect is passed on and not followed, and where it leads is judged', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, 'HTTP/1.1 302 Found\r\nLocation: http://denied.test/\r\nContent-Length: 0\r\n\r\n')
    const answer = await ask(stage, get(origin.port))
    assert.match(answer, /^HTTP\/1\.1 302 Found\r\nLocation: http:\/\/denied\.test\/\r\n/)
    assert.equal(origin.ends.length, 1)
  })

  test('H10: the body of a denied request is dropped and never read as a request', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const hidden = get(origin.port, '/hidden')
    const client = await stage.client()
    client.send(`POST http://denied.test/ HTTP/1.1\r\nHost: a\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}`)
    const answer = await client.over()
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 403'])
    assert.match(answer, /Connection: close/)
    assert.equal(origin.ends.length, 0)
  })

  test('a denied upload gets its answer at once, without 100, and is not read to its end', async (t) => {
    const stage = await openHttpStage(t, io)
    const client = await stage.client()
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

  test('a denied HEAD has no body, and a client that reads JSON gets JSON', async (t) => {
    const stage = await openHttpStage(t, io)
    const answer = await ask(stage, DENIED.replace('GET', 'HEAD'))
    assert.match(answer, /^HTTP\/1\.1 403 [\s\S]*\r\n\r\n$/)
    const json = await ask(stage, DENIED.replace('\r\n\r\n', '\r\nAccept: application/json\r\n\r\n'))
    assert.match(json, /"reason":"blocked-by-allowlist"/)
  })

  test('E17: a request that has passed this proxy before is refused', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const answer = await ask(stage, get(origin.port))
    const [, name = ''] = /\r\nVia: 1\.1 (egress-proxy-[a-z]{12})\r\n/.exec(answer) ?? []
    assert.match(origin.ends[0]?.text ?? '', new RegExp(`\r\nVia: 1\\.1 ${name}\r\n`))
    for (const via of [name, `1.0 other, 1.1 ${name} (x)`, `1.0 other, 1.1 ${name}, 1.1 another`]) {
      const loop = await ask(stage, get(origin.port, '/', `Via: ${via}\r\n`))
      assert.match(loop, /^HTTP\/1\.1 502 [\s\S]*X-Proxy-Error: proxy-loop/)
    }
  })

  test('a request that has passed another proxy of the same kind goes on', async (t) => {
    const [stage, other] = [await openHttpStage(t, io), await openHttpStage(t, io, { limits: {} })]
    const origin = await saying(t, OK)
    const answer = await ask(other, get(origin.port))
    const [, name = ''] = /\r\nVia: 1\.1 (\S+)\r\n/.exec(answer) ?? []
    for (const via of [name, 'egress-proxy', 'egress-proxy-aaaaaaaaaaaa'])
      assert.match(await ask(stage, get(origin.port, '/', `Via: 1.1 ${via}\r\n`)), /^HTTP\/1\.1 200/)
  })

  test('H17: TRACE and OPTIONS are answered where Max-Forwards ends, and passed on with one less before that', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const trace = requestFor('TRACE', origin.port, '/', 'Max-Forwards: 0\r\nCookie: secret\r\nX-A: 1\r\n')
    const echoed = await ask(stage, trace)
    assert.match(echoed, /^HTTP\/1\.1 200 OK\r\nContent-Type: message\/http\r\n[\s\S]*\r\n\r\nTRACE http:[\s\S]*X-A: 1/)
    assert.doesNotMatch(echoed, /secret/)
    await ask(stage, requestFor('OPTIONS', origin.port, '', 'Max-Forwards: 3\r\n'))
    assert.match(origin.ends[0]?.text ?? '', /^OPTIONS \* HTTP\/1\.1\r\n[\s\S]*Max-Forwards: 2\r\n/)
    await ask(stage, requestFor('FROB', origin.port, '/', 'Max-Forwards: 0\r\n'))
    assert.match(origin.ends[1]?.text ?? '', /^FROB \/ HTTP\/1\.1\r\n[\s\S]*Max-Forwards: 0\r\n/)
  })

  test('CONNECT after a plain request is handed over with what came behind it', async (t) => {
    const stage = await openHttpStage(t, io)
    const [origin, other] = [await saying(t, OK), await rawOrigin(t, (end) => end.send('hello'))]
    const client = await stage.client()
    client.send(`${get(origin.port)}CONNECT allowed.test:${other.port} HTTP/1.1\r\nHost: a\r\n\r\nearly`)
    assert.match(await client.has('hello'), /\r\n\r\nokHTTP\/1\.1 200 Connection Established\r\n\r\nhello$/)
    await until(() => other.ends[0]?.text === 'early')
    await until(() => origin.ends[0]?.hasEnded === true)
  })

  test('revoke ends a request that is under way, and nothing else', async (t) => {
    const stage = await openHttpStage(t, io, { allowlist: ['allowed.test', 'other.test'] })
    const origin = await saying(t, 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart')
    const [client, other, idle] = [await stage.client(), await stage.client(), await stage.client()]
    idle.send(get((await saying(t, OK)).port))
    await idle.has('ok')
    client.send(get(origin.port))
    await client.has('part')
    other.send(get(origin.port).replaceAll('allowed.test', 'other.test'))
    await other.has('part')
    await stage.allow('other.test')
    await until(() => client.isClosed && origin.ends[0]?.isClosed === true)
    assert.equal((await stage.records(2))[1]?.reason, 'revoked')
    origin.ends[1]?.send(' done')
    assert.match(await other.has('done'), /part done$/)
    idle.send(get(origin.port))
    assert.match(await idle.has('403'), /ok[\s\S]*HTTP\/1\.1 403/)
  })

  test('a proxy that stops ends idle clients, finishes what is under way, and begins nothing', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { drainMs: 60_000 } })
    const origin = await rawOrigin(t, () => {})
    const [idle, busy] = [await stage.client(), await stage.client()]
    idle.send('GET http://denied.test/ HTTP/1.1\r\nHost: a\r\n\r\n')
    await idle.has('403')
    busy.send(get(origin.port) + get(origin.port))
    await until(() => origin.ends[0]?.text.includes('\r\n\r\n') === true)
    const closed = stage.proxy.close()
    assert.match(await idle.over(), /403/)
    origin.ends[0]?.send(OK)
    assert.deepEqual((await busy.over()).match(/HTTP\/1\.1 \d+|Connection: close/g), [
      'HTTP/1.1 200',
      'Connection: close',
    ])
    for (const client of [idle, busy]) client.socket.end()
    await closed
  })
})

suiteOnBoth('the connection of a client', (io) => {
  test('R1: a head that trickles is refused when its time is over, counted from its first byte', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { headMs: 300 } })
    const client = await stage.client()
    const head = 'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nX-Slow: '
    client.send(head)
    const timer = setInterval(() => client.socket.write('a'), 20)
    t.after(() => clearInterval(timer))
    assert.match(await client.over(), /^HTTP\/1\.1 408 /)
    clearInterval(timer)
    const [line] = await stage.records()
    assert.ok(Number(line?.ms) > 250, `${line?.ms} ms`)
  })

  test('a head that is late is not taken for the request before it', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { headMs: 300 } })
    const origin = await saying(t, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n')
    const client = await stage.client()
    client.send(requestFor('HEAD', origin.port))
    await client.has('\r\n\r\n')
    client.send('GET http://')
    // A HEAD would have been answered without the sentence.
    assert.match(await client.over(), /HTTP\/1\.1 408 [\s\S]*did not come in time/)
    const { reason, host, ms } = (await stage.records(2))[1] ?? {}
    assert.deepEqual([reason, host], ['head-timeout', undefined])
    assert.ok(Number(ms) > 250 && Number(ms) < 2000, `${ms} ms`)
  })

  test('the time for a head starts anew behind a request that was denied', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { headMs: 1500 } })
    const client = await stage.client()
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

  test('a head that comes byte by byte is read', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.socket.setNoDelay(true)
    for (const letter of get(origin.port)) {
      client.send(letter)
      await new Promise(setImmediate)
    }
    assert.match(await client.has('ok'), /^HTTP\/1\.1 200/)
  })

  test('an idle connection is closed after its time, and the origin before it', async (t) => {
    const stage = await openHttpStage(t, io, { limits: { keepAliveMs: 200 } })
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(get(origin.port))
    await client.over()
    await until(() => origin.ends[0]?.hasEnded === true)
    client.socket.end()
    await stage.empty()
  })

  test('a client that ends after its request still gets the whole answer', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => setTimeout(() => end.send(OK), 50)
    })
    assert.match(await ask(stage, get(origin.port)), /ok$/)
    await stage.empty()
  })

  test('HTTP/1.0: one request, an answer without chunks, and the end', async (t) => {
    const stage = await openHttpStage(t, io)
    const chunked =
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n'
    const origin = await saying(t, chunked)
    const client = await stage.client()
    client.send(`GET http://allowed.test:${origin.port}/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`)
    const answer = await client.over()
    assert.equal(plainVia(answer), 'HTTP/1.1 200 OK\r\nConnection: close\r\nVia: 1.1 egress-proxy\r\n\r\nabcde')
    assert.match(
      origin.ends[0]?.text ?? '',
      /^GET \/ HTTP\/1\.1\r\nHost: allowed\.test:\d+\r\nConnection: close\r\nVia: 1\.0/,
    )
  })

  test('a client that goes away while its request is under way takes it along', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, () => {})
    const client = await stage.client()
    client.send(get(origin.port))
    await until(() => origin.ends[0]?.text.includes('\r\n\r\n') === true)
    client.socket.resetAndDestroy()
    await until(() => origin.ends[0]?.isClosed === true)
    assert.equal((await stage.records())[0]?.reason, 'client-gone')
    await stage.empty()
  })
})

suiteOnBoth('framing attacks on the forward port', (io) => {
  const BAD: readonly [name: string, status: number, head: string][] = [
    ['H1: Content-Length and Transfer-Encoding', 400, 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n'],
    ['H2: two different lengths', 400, 'Content-Length: 5\r\nContent-Length: 6\r\n'],
    ['H2: two equal lengths', 400, 'Content-Length: 5\r\ncontent-length: 5\r\n'],
    ['H2: a list of lengths', 400, 'Content-Length: 5, 5\r\n'],
    ['H2: a signed length', 400, 'Content-Length: +5\r\n'],
    ['H2: a hexadecimal length', 400, 'Content-Length: 0x5\r\n'],
    ['H2: a length with a blank behind it', 400, 'Content-Length: 5 \r\n'],
    ['H2: an empty length', 400, 'Content-Length:\r\n'],
    ['H2: a length beyond counting', 400, 'Content-Length: 99999999999999999999\r\n'],
    ['H3: xchunked', 400, 'Transfer-Encoding: xchunked\r\n'],
    ['H3: identity, chunked', 501, 'Transfer-Encoding: identity, chunked\r\n'],
    ['H3: chunked, chunked', 501, 'Transfer-Encoding: chunked, chunked\r\n'],
    ['H3: chunked, identity', 400, 'Transfer-Encoding: chunked, identity\r\n'],
    ['H3: two fields', 400, 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n'],
    ['H3: a tab before it', 400, 'Transfer-Encoding:\tchunked\r\n'],
    ['H3: a vertical tab before it', 400, 'Transfer-Encoding: \x0bchunked\r\n'],
    ['H5: a folded line', 400, 'X-A: 1\r\n 2\r\n'],
    ['H5: a line feed alone', 400, 'X-A: 1\nX-B: 2\r\n'],
    ['H5: a carriage return alone', 400, 'X-A: 1\rX-B: 2\r\n'],
    ['H5: a blank before the colon', 400, 'X-A : 1\r\n'],
    ['H5: a NUL', 400, 'X-A: 1\x002\r\n'],
    ['H5: an empty name', 400, ': 1\r\n'],
    ['H5: no colon', 400, 'X-A\r\n'],
    ['H6: two Host fields', 400, 'Host: allowed.test\r\n'],
    ['H12: Connection that names Host', 400, 'Connection: close, host\r\n'],
    ['H12: Connection that names Content-Length', 400, 'Connection: Content-Length\r\nContent-Length: 3\r\n'],
    ['H12: Connection that names Transfer-Encoding', 400, 'Connection: transfer-encoding\r\n'],
    ['H19: 2000 fields', 431, 'X-A: 1\r\n'.repeat(2000)],
    ['H19: a head of 1 MB', 431, `X-A: ${'a'.repeat(1_000_000)}\r\n`],
    ['H19: a head of more than 64 KB', 431, `X-A: ${'a'.repeat(65_500)}\r\n`],
  ]
  for (const [name, status, fields] of BAD) {
    test(name, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await saying(t, OK)
      const client = await stage.client()
      client.send(`${get(origin.port, '/', fields)}0\r\n\r\n${get(origin.port, '/second')}`)
      const answer = await client.over()
      assert.match(
        answer,
        new RegExp(`^HTTP/1\\.1 ${status} [\\s\\S]*\r\nX-Proxy-Error: bad-request\r\n[\\s\\S]*Connection: close\r\n`),
      )
      assert.equal(answer.split('HTTP/1.1 ').length, 2, 'one answer, and nothing behind it')
      assert.equal(origin.ends.length, 0, 'nothing was dialled')
      const denied = 'GET http://denied.test/ HTTP/1.1\r\nHost: a\r\n\r\n'
      const later = await ask(stage, `${denied}${get(origin.port, '/', fields)}0\r\n\r\n${get(origin.port, '/second')}`)
      assert.deepEqual(later.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 403', `HTTP/1.1 ${status}`], 'nor behind another')
      assert.equal(origin.ends.length, 0)
      assert.match(await ask(stage, get(origin.port)), /^HTTP\/1\.1 200 /)
    })
  }

  const LINES: readonly [name: string, status: number, request: string][] = [
    [
      'H3: Transfer-Encoding in HTTP/1.0',
      400,
      'POST http://allowed.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n',
    ],
    ['H5: line feeds only', 400, 'GET http://allowed.test/ HTTP/1.1\nHost: allowed.test\n\n'],
    ['H7: HTTP/1.1 without Host', 400, 'GET http://allowed.test/ HTTP/1.1\r\n\r\n'],
    ['H8: the origin form', 400, 'GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['H13: a blank in the target', 400, 'GET http://allowed.test/a b HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['H13: a carriage return in the target', 400, 'GET http://allowed.test/a\rb HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a method that is none', 400, 'G@T http://allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['H17: the preface of HTTP/2', 505, 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['H17: OPTIONS *', 400, 'OPTIONS * HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['H19: a request line of 64 KB', 414, `GET http://allowed.test/${'a'.repeat(65_536)} HTTP/1.1\r\nHost: a\r\n\r\n`],
    ['HTTP/0.9', 400, 'GET http://allowed.test/\r\n'],
    ['TLS', 400, '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['E16: https:// without CONNECT', 400, 'GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['E16: ftp://', 400, 'GET ftp://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['E16: file://', 400, 'GET file:///etc/passwd HTTP/1.1\r\nHost: allowed.test\r\n\r\n'],
    ['a Host field that is no host', 400, 'GET http://allowed.test/ HTTP/1.1\r\nHost: a b\r\n\r\n'],
    ['a name and password in the target', 400, 'GET http://u:p@allowed.test/ HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['a fragment in the target', 400, 'GET http://allowed.test/#a HTTP/1.1\r\nHost: a\r\n\r\n'],
  ]
  for (const [name, status, request] of LINES) {
    test(name, async (t) => {
      const stage = await openHttpStage(t, io)
      const client = await stage.client()
      client.send(request)
      const answer = await client.over()
      assert.match(answer, new RegExp(`^HTTP/1\\.1 ${status} `))
      assert.equal((await stage.records())[0]?.verdict, 'error')
    })
  }
})
