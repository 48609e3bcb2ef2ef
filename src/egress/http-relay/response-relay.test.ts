import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import {
  get,
  OK,
  openHttpFixture,
  openReplyingOrigin,
  removeViaSuffix,
  requestFor,
  sendRequest,
  sendThreeRequests,
  suiteOnEachIo,
} from '../../../test/support/http-fixture.ts'
import { answerEach, rawOrigin } from '../../../test/support/raw-http.ts'
import { until } from '../../../test/support/until.ts'

suiteOnEachIo('hop-by-hop fields', (io) => {
  test('are removed from requests, also with several Connection fields', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const hops =
      'Connection: X-Secret, close\r\nX-Secret: 1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n' +
      'TE: gzip\r\nKeep-Alive: 5\r\nUpgrade: foo\r\nTrailer: X\r\nconnection: x-other\r\nX-OTHER: 2\r\nX-Kept: 3\r\n'
    await sendRequest(fixture, get(origin.port, '/', hops))
    const [, ...fields] = removeViaSuffix(origin.peers[0]?.text ?? '').split('\r\n')
    assert.deepEqual(fields.slice(1), ['X-Kept: 3', 'Connection: close', 'Via: 1.1 egress-proxy', '', ''])
  })

  test('are removed from responses, and so are fields reserved for this proxy', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const hops =
      'Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X\r\n' +
      'Upgrade: h2c\r\nX-Proxy-Error: blocked-by-allowlist\r\nProxy-Status: egress-proxy; error=x\r\n' +
      'Proxy-Status: cdn; hit\r\nVia: 1.1 cdn\r\n'
    const origin = await openReplyingOrigin(t, OK.replace('\r\n', `\r\n${hops}`))
    const answer = await sendRequest(fixture, get(origin.port))
    const [head] = removeViaSuffix(answer).split('\r\n\r\n')
    assert.deepEqual(head?.split('\r\n').slice(1), [
      'Proxy-Status: cdn; hit',
      'Via: 1.1 cdn',
      'Content-Length: 2',
      'Via: 1.1 egress-proxy',
    ])
  })

  test('200 Set-Cookie fields pass one by one', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const cookies = Array.from({ length: 200 }, (_, at) => `Set-Cookie: c${at}=${at}\r\n`).join('')
    const origin = await openReplyingOrigin(t, OK.replace('\r\n', `\r\n${cookies}`))
    assert.ok((await sendRequest(fixture, get(origin.port))).includes(cookies))
  })

  test('nothing is decoded, and nothing is added to a request', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const packed = gzipSync('hello'.repeat(100))
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`
    const origin = await openReplyingOrigin(t, head + packed.toString('latin1'))
    assert.ok((await sendRequest(fixture, get(origin.port))).endsWith(packed.toString('latin1')))
    assert.doesNotMatch(origin.peers[0]?.text ?? '', /accept-encoding|user-agent|forwarded|date/i)
  })
})

suiteOnEachIo('responses of old servers', (io) => {
  for (const [name, answer] of [
    ['a folded field', 'HTTP/1.1 200 OK\r\nX-A: 1,\r\n\t2\r\nContent-Length: 5\r\n\r\nhello'],
    ['line feeds only', 'HTTP/1.1 200 OK\nX-A: 1, 2\nContent-Length: 5\n\nhello'],
    ['both', 'HTTP/1.1 200 OK\nX-A: 1,\n 2\r\nContent-Length: 5\n\r\nhello'],
  ] as const) {
    test(`${name} reaches the client with one field per line, ending in CRLF`, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await openReplyingOrigin(t, answer)
      const one = 'HTTP/1\\.1 200 OK\r\nX-A: 1, 2\r\nContent-Length: 5\r\nVia: [^\r]*\r\n\r\nhello'
      // The next request is served, so the proxy knows where the response ends.
      assert.match(await sendRequest(fixture, get(origin.port) + get(origin.port)), new RegExp(`^${one}${one}$`))
    })
  }
})

suiteOnEachIo('invalid responses', (io) => {
  const CL5 = 'Content-Length: 5\r\n'
  const BAD: readonly [name: string, answer: string][] = [
    ['a status of 099', 'HTTP/1.1 099 No\r\n\r\n'],
    ['a status of four digits', 'HTTP/1.1 2000 No\r\n\r\n'],
    ['no status line', '<html>hello</html>\r\n\r\n'],
    ['HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['a control character in a field', 'HTTP/1.1 200 OK\r\nX-A: \x01\r\n\r\n'],
    ['a carriage return in a field', `HTTP/1.1 200 OK\r\nX-A: 1\rSet-Cookie: a\r\n${CL5}\r\n`],
    ['a fold after the status line', `HTTP/1.1 200 OK\r\n X-A: 1\r\n${CL5}\r\nhello`],
    ['whitespace before a colon', 'HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello'],
    ['a head of more than 64 KB', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n`],
    ['length and chunks', `HTTP/1.1 200 OK\r\n${CL5}Transfer-Encoding: chunked\r\n\r\nhello`],
    ['two lengths', `HTTP/1.1 200 OK\r\n${CL5}Content-Length: 6\r\n\r\nhello`],
    ['an invalid length', 'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello'],
    ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['an unknown coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['a flood of interim responses', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)],
  ]
  for (const [name, answer] of BAD) {
    test(name, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await openReplyingOrigin(t, answer)
      const response = await sendRequest(fixture, get(origin.port))
      assert.match(response, /(?:^|\r\n\r\n)HTTP\/1\.1 502 [\s\S]*\r\nX-Proxy-Error: bad-response\r\n/)
      assert.ok(response.split('HTTP/1.1 102').length <= 17)
      await until(() => origin.peers[0]?.isClosed === true)
      assert.equal((await fixture.waitForRecords())[0]?.reason, 'bad-response')
      const good = await openReplyingOrigin(t, OK)
      assert.match(await sendRequest(fixture, get(good.port)), /^HTTP\/1\.1 200/)
    })
  }

  test('an origin that ends within the head is 502', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => end.socket.end('HTTP/1.1 200 OK\r\nConte')
    })
    assert.match(await sendRequest(fixture, get(origin.port)), /^HTTP\/1\.1 502 /)
  })

  const CUT: readonly [name: string, answer: string, isReset: boolean][] = [
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart', false],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n5\r\n', false],
    ['a bad chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npartx', false],
  ]
  for (const [name, answer] of CUT) {
    test(`a response with ${name} that is cut does not look complete`, async (t) => {
      const fixture = await openHttpFixture(t, io)
      const origin = await rawOrigin(t, (end) => {
        end.onData = () => end.socket.end(answer)
      })
      const client = await fixture.connectClient()
      client.send(get(origin.port))
      const response = await client.over()
      assert.match(response, /^HTTP\/1\.1 200/)
      assert.doesNotMatch(response, /0\r\n\r\n$|HTTP\/1\.1 502/)
      assert.equal((await fixture.waitForRecords())[0]?.verdict, 'error')
    })
  }

  test('a response without a length that fails is reset for the client too', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => end.send('HTTP/1.1 200 OK\r\n\r\npart')
    })
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    await client.says('part')
    origin.peers[0]?.socket.resetAndDestroy()
    await until(() => client.isClosed)
    assert.equal(client.error, 'ECONNRESET')
  })

  test('excess bytes after a response are never the response to the next request', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
    const origin = await openReplyingOrigin(t, OK + evil)
    const client = await fixture.connectClient()
    await sendThreeRequests(client, origin.port)
    assert.doesNotMatch(client.text, /evil/)
    assert.equal(origin.peers.length, 3)
  })

  test('bytes between two requests end the origin connection', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await openReplyingOrigin(t, OK)
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    await client.says('ok')
    const before = performance.now()
    origin.peers[0]?.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    await until(() => origin.peers[0]?.hasEnded === true || origin.peers[0]?.isClosed === true)
    // An unused one would be closed after four seconds anyway.
    assert.ok(performance.now() - before < 3500)
    client.send(get(origin.port, '/', 'Connection: close\r\n'))
    assert.doesNotMatch(await client.over(), /evil/)
    assert.equal(origin.peers.length, 2)
  })
})

suiteOnEachIo('the end of a response', (io) => {
  test('HEAD, 204 and 304 have no body, whatever their fields say', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const answers = [
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n',
      'HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello',
    ]
    answers.push('HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n', OK)
    let count = 0
    const origin = await rawOrigin(t, (end) => answerEach(end, () => answers[count++] ?? OK))
    const client = await fixture.connectClient()
    const close = 'Connection: close\r\n'
    client.send(requestFor('HEAD', origin.port) + get(origin.port).repeat(2) + get(origin.port, '/', close))
    const response = await client.over()
    const via = 'Via: 1.1 egress-proxy\r\n'
    assert.equal(
      removeViaSuffix(response),
      `HTTP/1.1 200 OK\r\nContent-Length: 9\r\n${via}\r\nHTTP/1.1 204 No\r\n${via}\r\n` +
        `HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n${via}\r\n` +
        `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${close}${via}\r\nok`,
    )
  })

  test('trailers pass to a client that accepts them, and chunks are rewritten', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const body = '3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX-Sum: 1\r\nContent-Length: 3\r\n\r\n'
    const origin = await openReplyingOrigin(
      t,
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n${body}`,
    )
    const wanting = await sendRequest(fixture, get(origin.port, '/', 'TE: trailers\r\nConnection: TE\r\n'))
    assert.match(wanting, /\r\nTrailer: X-Sum\r\n[\s\S]*\r\n\r\n4\r\nabcd\r\n0\r\nX-Sum: 1\r\n\r\n$/)
    assert.match(origin.peers[0]?.text ?? '', /Connection: TE\r\nTE: trailers\r\n/)
    const plain = await sendRequest(fixture, get(origin.port))
    assert.doesNotMatch(plain, /X-Sum/)
    assert.match(plain, /\r\n\r\n4\r\nabcd\r\n0\r\n\r\n$/)
  })

  test('a response without a length ends with the connection', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.onData = () => end.socket.end('HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\nall of it')
    })
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    assert.equal(
      removeViaSuffix(await client.over()),
      'HTTP/1.1 200 OK\r\nContent-Type: x\r\nConnection: close\r\nVia: 1.0 egress-proxy\r\n\r\nall of it',
    )
    assert.equal((await fixture.waitForRecords())[0]?.verdict, 'allow')
  })

  test('a response that arrives byte by byte is the same', async (t) => {
    const fixture = await openHttpFixture(t, io)
    const text =
      'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n'
    const origin = await rawOrigin(t, (end) => {
      end.socket.setNoDelay(true)
      end.onData = async () => {
        for (const letter of text) {
          end.send(letter)
          await new Promise(setImmediate)
        }
      }
    })
    const client = await fixture.connectClient()
    client.send(get(origin.port))
    const response = removeViaSuffix(await client.says('0\r\n\r\n'))
    assert.match(response, /^HTTP\/1\.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
    const body = response.slice(response.lastIndexOf('egress-proxy\r\n\r\n') + 16)
    assert.equal(body.replace(/[0-9a-f]+\r\n|\r\n/g, ''), 'xyz')
  })
})
