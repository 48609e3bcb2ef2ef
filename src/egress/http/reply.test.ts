import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
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

suiteOnBoth('fields that are meant for one connection', (io) => {
  test('H11: they stay behind in requests, however often Connection occurs', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const hops =
      'Connection: X-Secret, close\r\nX-Secret: 1\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\n' +
      'TE: gzip\r\nKeep-Alive: 5\r\nUpgrade: foo\r\nTrailer: X\r\nconnection: x-other\r\nX-OTHER: 2\r\nX-Kept: 3\r\n'
    await ask(stage, get(origin.port, '/', hops))
    const [, ...fields] = plainVia(origin.ends[0]?.text ?? '').split('\r\n')
    assert.deepEqual(fields.slice(1), ['X-Kept: 3', 'Connection: close', 'Via: 1.1 egress-proxy', '', ''])
  })

  test('H11: and in answers, with what only this proxy may say', async (t) => {
    const stage = await openHttpStage(t, io)
    const hops =
      'Connection: X-Secret\r\nX-Secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nTrailer: X\r\n' +
      'Upgrade: h2c\r\nX-Proxy-Error: blocked-by-allowlist\r\nProxy-Status: egress-proxy; error=x\r\n' +
      'Proxy-Status: cdn; hit\r\nVia: 1.1 cdn\r\n'
    const origin = await saying(t, OK.replace('\r\n', `\r\n${hops}`))
    const answer = await ask(stage, get(origin.port))
    const [head] = plainVia(answer).split('\r\n\r\n')
    assert.deepEqual(head?.split('\r\n').slice(1), [
      'Proxy-Status: cdn; hit',
      'Via: 1.1 cdn',
      'Content-Length: 2',
      'Via: 1.1 egress-proxy',
    ])
  })

  test('200 Set-Cookie fields pass one by one', async (t) => {
    const stage = await openHttpStage(t, io)
    const cookies = Array.from({ length: 200 }, (_, at) => `Set-Cookie: c${at}=${at}\r\n`).join('')
    const origin = await saying(t, OK.replace('\r\n', `\r\n${cookies}`))
    assert.ok((await ask(stage, get(origin.port))).includes(cookies))
  })

  test('R9: nothing is decoded, and nothing is added to a request', async (t) => {
    const stage = await openHttpStage(t, io)
    const packed = gzipSync('hello'.repeat(100))
    const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`
    const origin = await saying(t, head + packed.toString('latin1'))
    assert.ok((await ask(stage, get(origin.port))).endsWith(packed.toString('latin1')))
    assert.doesNotMatch(origin.ends[0]?.text ?? '', /accept-encoding|user-agent|forwarded|date/i)
  })
})

suiteOnBoth('answers of old servers', (io) => {
  for (const [name, answer] of [
    ['H14: a folded field', 'HTTP/1.1 200 OK\r\nX-A: 1,\r\n\t2\r\nContent-Length: 5\r\n\r\nhello'],
    ['H14: line feeds only', 'HTTP/1.1 200 OK\nX-A: 1, 2\nContent-Length: 5\n\nhello'],
    ['H14: both', 'HTTP/1.1 200 OK\nX-A: 1,\n 2\r\nContent-Length: 5\n\r\nhello'],
  ] as const) {
    test(`${name} reaches the client with a field on each line, ending in CRLF`, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await saying(t, answer)
      const one = 'HTTP/1\\.1 200 OK\r\nX-A: 1, 2\r\nContent-Length: 5\r\nVia: [^\r]*\r\n\r\nhello'
      // The next request is served after it: the proxy knows where the answer ends.
      assert.match(await ask(stage, get(origin.port) + get(origin.port)), new RegExp(`^${one}${one}$`))
    })
  }
})

suiteOnBoth('bad answers', (io) => {
  const CL5 = 'Content-Length: 5\r\n'
  const BAD: readonly [name: string, answer: string][] = [
    ['H14: a status of 099', 'HTTP/1.1 099 No\r\n\r\n'],
    ['H14: a status of four digits', 'HTTP/1.1 2000 No\r\n\r\n'],
    ['H14: no status line', '<html>hello</html>\r\n\r\n'],
    ['H14: HTTP/2', 'HTTP/2.0 200 OK\r\n\r\n'],
    ['H14: a control character in a field', 'HTTP/1.1 200 OK\r\nX-A: \x01\r\n\r\n'],
    ['H14: a carriage return in a field', `HTTP/1.1 200 OK\r\nX-A: 1\rSet-Cookie: a\r\n${CL5}\r\n`],
    ['H14: a fold after the status line', `HTTP/1.1 200 OK\r\n X-A: 1\r\n${CL5}\r\nhello`],
    ['H14: a blank before a colon', 'HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello'],
    ['H14: a head of more than 64 KB', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n`],
    ['H15: length and chunks', `HTTP/1.1 200 OK\r\n${CL5}Transfer-Encoding: chunked\r\n\r\nhello`],
    ['H15: two lengths', `HTTP/1.1 200 OK\r\n${CL5}Content-Length: 6\r\n\r\nhello`],
    ['H15: a length that is none', 'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello'],
    ['H15: chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
    ['H15: an unknown coding', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n'],
    ['H16: a flood of interim answers', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(100)],
  ]
  for (const [name, answer] of BAD) {
    test(name, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await saying(t, answer)
      const told = await ask(stage, get(origin.port))
      assert.match(told, /(?:^|\r\n\r\n)HTTP\/1\.1 502 [\s\S]*\r\nX-Proxy-Error: bad-response\r\n/)
      assert.ok(told.split('HTTP/1.1 102').length <= 17)
      await until(() => origin.ends[0]?.isClosed === true)
      assert.equal((await stage.records())[0]?.reason, 'bad-response')
      const good = await saying(t, OK)
      assert.match(await ask(stage, get(good.port)), /^HTTP\/1\.1 200/)
    })
  }

  test('H15: an origin that ends within the head is 502', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => end.socket.end('HTTP/1.1 200 OK\r\nConte')
    })
    assert.match(await ask(stage, get(origin.port)), /^HTTP\/1\.1 502 /)
  })

  const CUT: readonly [name: string, answer: string, isReset: boolean][] = [
    ['a length', 'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\npart', false],
    ['chunks', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npart\r\n5\r\n', false],
    ['a bad chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npartx', false],
  ]
  for (const [name, answer] of CUT) {
    test(`H15: an answer with ${name} that is cut does not look complete`, async (t) => {
      const stage = await openHttpStage(t, io)
      const origin = await rawOrigin(t, (end) => {
        end.heard = () => end.socket.end(answer)
      })
      const client = await stage.client()
      client.send(get(origin.port))
      const told = await client.over()
      assert.match(told, /^HTTP\/1\.1 200/)
      assert.doesNotMatch(told, /0\r\n\r\n$|HTTP\/1\.1 502/)
      assert.equal((await stage.records())[0]?.verdict, 'error')
    })
  }

  test('H15: an answer without a length that breaks is broken for the client, too', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => end.send('HTTP/1.1 200 OK\r\n\r\npart')
    })
    const client = await stage.client()
    client.send(get(origin.port))
    await client.has('part')
    origin.ends[0]?.socket.resetAndDestroy()
    await until(() => client.isClosed)
    assert.equal(client.error, 'ECONNRESET')
  })

  test('what an origin sends beyond its answer is never the answer to the next request', async (t) => {
    const stage = await openHttpStage(t, io)
    const evil = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil'
    const origin = await saying(t, OK + evil)
    const client = await stage.client()
    for (let count = 1; count <= 3; count++) {
      client.send(get(origin.port))
      await until(() => client.text.split('\r\n\r\nok').length > count)
    }
    assert.doesNotMatch(client.text, /evil/)
    assert.equal(origin.ends.length, 3)
  })

  test('what an origin sends between two requests ends its connection', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await saying(t, OK)
    const client = await stage.client()
    client.send(get(origin.port))
    await client.has('ok')
    const before = performance.now()
    origin.ends[0]?.send('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil')
    await until(() => origin.ends[0]?.hasEnded === true || origin.ends[0]?.isClosed === true)
    // Unused it would be left after four seconds anyway.
    assert.ok(performance.now() - before < 3500)
    client.send(get(origin.port, '/', 'Connection: close\r\n'))
    assert.doesNotMatch(await client.over(), /evil/)
    assert.equal(origin.ends.length, 2)
  })
})

suiteOnBoth('where an answer ends', (io) => {
  test('H16: HEAD, 204 and 304 have no body, whatever their fields say', async (t) => {
    const stage = await openHttpStage(t, io)
    const answers = [
      'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n',
      'HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\nhello',
    ]
    answers.push('HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n', OK)
    let asked = 0
    const origin = await rawOrigin(t, (end) => answerEach(end, () => answers[asked++] ?? OK))
    const client = await stage.client()
    const close = 'Connection: close\r\n'
    client.send(requestFor('HEAD', origin.port) + get(origin.port).repeat(2) + get(origin.port, '/', close))
    const told = await client.over()
    const via = 'Via: 1.1 egress-proxy\r\n'
    assert.equal(
      plainVia(told),
      `HTTP/1.1 200 OK\r\nContent-Length: 9\r\n${via}\r\nHTTP/1.1 204 No\r\n${via}\r\n` +
        `HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n${via}\r\n` +
        `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n${close}${via}\r\nok`,
    )
  })

  test('trailers pass to a client that wants them, and the chunks are cut anew', async (t) => {
    const stage = await openHttpStage(t, io)
    const body = '3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nX-Sum: 1\r\nContent-Length: 3\r\n\r\n'
    const origin = await saying(t, `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n${body}`)
    const wanting = await ask(stage, get(origin.port, '/', 'TE: trailers\r\nConnection: TE\r\n'))
    assert.match(wanting, /\r\nTrailer: X-Sum\r\n[\s\S]*\r\n\r\n4\r\nabcd\r\n0\r\nX-Sum: 1\r\n\r\n$/)
    assert.match(origin.ends[0]?.text ?? '', /Connection: TE\r\nTE: trailers\r\n/)
    const plain = await ask(stage, get(origin.port))
    assert.doesNotMatch(plain, /X-Sum/)
    assert.match(plain, /\r\n\r\n4\r\nabcd\r\n0\r\n\r\n$/)
  })

  test('an answer without a length ends with the connection', async (t) => {
    const stage = await openHttpStage(t, io)
    const origin = await rawOrigin(t, (end) => {
      end.heard = () => end.socket.end('HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\nall of it')
    })
    const client = await stage.client()
    client.send(get(origin.port))
    assert.equal(
      plainVia(await client.over()),
      'HTTP/1.1 200 OK\r\nContent-Type: x\r\nConnection: close\r\nVia: 1.0 egress-proxy\r\n\r\nall of it',
    )
    assert.equal((await stage.records())[0]?.verdict, 'allow')
  })

  test('an answer that comes byte by byte is the same', async (t) => {
    const stage = await openHttpStage(t, io)
    const text =
      'HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n'
    const origin = await rawOrigin(t, (end) => {
      end.socket.setNoDelay(true)
      end.heard = async () => {
        for (const letter of text) {
          end.send(letter)
          await new Promise(setImmediate)
        }
      }
    })
    const client = await stage.client()
    client.send(get(origin.port))
    const told = plainVia(await client.has('0\r\n\r\n'))
    assert.match(told, /^HTTP\/1\.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP\/1\.1 200 OK\r\n/)
    const body = told.slice(told.lastIndexOf('egress-proxy\r\n\r\n') + 16)
    assert.equal(body.replace(/[0-9a-f]+\r\n|\r\n/g, ''), 'xyz')
  })
})
