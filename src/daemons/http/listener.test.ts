import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isRefusal } from '../../../test/support/host.ts'
import { sendRaw, statusOf } from '../../../test/support/served-host.ts'
import { type HttpFault, type HttpListener, type HttpListenerOptions, openHttpListener } from './listener.ts'

interface Opened extends HttpListener {
  /** The paths that reached the app. */
  readonly seen: string[]
  readonly faults: HttpFault[]
}

async function open(t: TestContext, options: Partial<HttpListenerOptions> = {}): Promise<Opened> {
  const [seen, faults]: [string[], HttpFault[]] = [[], []]
  const listener = await openHttpListener({
    name: 'routd',
    setting: 'ROUTD_LISTEN',
    listen: { host: '127.0.0.1', port: 0 },
    fetch: async (request) => {
      seen.push(new URL(request.url).pathname)
      return new Response(await request.text().catch(() => 'broken off'))
    },
    onFault: (fault) => faults.push(fault),
    onBackgroundError: (error) => assert.fail(String(error)),
    ...options,
  })
  t.after(() => listener.close())
  return { ...listener, seen, faults }
}

const post = (...headers: string[]): string => `POST /first HTTP/1.1\r\nHost: a\r\n${headers.join('\r\n')}\r\n\r\n`
const get = (...headers: string[]): string => ['GET /first HTTP/1.1', ...headers, '', ''].join('\r\n')
const TAIL = 'GET /second HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'

const MALFORMED: Record<string, string | Uint8Array> = {
  'both lengths': `${post('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
  'two lengths in the other order': `${post('Transfer-Encoding: chunked', 'Content-Length: 5')}0\r\n\r\n`,
  'two lengths': post('Content-Length: 0', `Content-Length: ${TAIL.length}`),
  'two equal lengths': `${post('Content-Length: 2', 'Content-Length: 2')}ab`,
  'a list of lengths': `${post('Content-Length: 2, 2')}ab`,
  'a negative length': post('Content-Length: -1'),
  'a length with a plus': post('Content-Length: +5'),
  'a hexadecimal length': post('Content-Length: 0x10'),
  'a length of 20 digits': post('Content-Length: 99999999999999999999'),
  'a length with a space before the colon': post('Content-Length : 5'),
  'an unknown coding': post('Transfer-Encoding: xchunked'),
  'a coding after chunked': post('Transfer-Encoding: chunked, identity'),
  'two codings': `${post('Transfer-Encoding: chunked', 'Transfer-Encoding: identity')}0\r\n\r\n`,
  'a coding before chunked': `${post('Transfer-Encoding: gzip, chunked')}0\r\n\r\n`,
  'a coding in HTTP/1.0': 'POST /first HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
  'an invalid chunk size': `${post('Transfer-Encoding: chunked')}zz\r\n`,
  'a folded header': get('Host: a', 'X: 1', ' 2'),
  'two Hosts': get('Host: a', 'Host: b'),
  'two equal Hosts': get('Host: a', 'Host: a'),
  'no Host': get(),
  'an empty Host': get('Host:'),
  'a Host that is none': get('Host: a/b@c d'),
  'another host in its target': 'GET http://b/first HTTP/1.1\r\nHost: a\r\n\r\n',
  'credentials in its target': 'GET http://me:secret@a/first HTTP/1.1\r\nHost: a\r\n\r\n',
  'a space in the name of a header': get('Host: a', 'X Y: 1'),
  'a NUL in a header': get('Host: a', 'X: a\0b'),
  'a lone CR in a header': get('Host: a', 'X: a\rb'),
  'lines without CR': 'GET /first HTTP/1.1\nHost: a\n\n',
  'HTTP/0.9': 'GET /first\r\n\r\n',
  'HTTP/1.9': 'GET /first HTTP/1.9\r\nHost: a\r\n\r\n',
  'HTTP/2 without asking': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'the bytes of TLS': Buffer.from('16030100a5010000a10303', 'hex'),
  'no path': 'OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n',
  'a wish for a tunnel': 'CONNECT b:22 HTTP/1.1\r\nHost: b:22\r\n\r\n',
}

for (const [what, bytes] of Object.entries(MALFORMED)) {
  test(`a request with ${what} is 400, and the bytes after it are not read as a request`, async (t) => {
    const { url, seen } = await open(t)
    const answer = await sendRaw(url, bytes, TAIL)
    assert.equal(statusOf(answer), 400, answer)
    assert.match(answer, /\r\nConnection: close\r\n/i)
    assert.match(answer, /application\/problem\+json/)
    assert.equal(answer.match(/HTTP\/1\.1 /g)?.length, 1)
    assert.deepEqual(
      seen.filter((path) => path === '/second'),
      [],
    )
  })
}

test('accepts a hundred headers and refuses one more', async (t) => {
  const { url, seen, faults } = await open(t)
  const more = (count: number): string => get('Host: a', 'Connection: close', ...Array(count - 2).fill('X: 1'))
  assert.equal(statusOf(await sendRaw(url, more(100))), 200)
  assert.equal(statusOf(await sendRaw(url, more(101))), 431)
  assert.equal(statusOf(await sendRaw(url, more(900))), 431)
  assert.equal(statusOf(await sendRaw(url, get('Host: a', `X: ${'a'.repeat(17_000)}`))), 431)
  assert.equal(statusOf(await sendRaw(url, `GET /${'a'.repeat(17_000)} HTTP/1.1\r\nHost: a\r\n\r\n`)), 431)
  assert.deepEqual(seen, ['/first'])
  assert.deepEqual(new Set(faults.map(({ status }) => status)), new Set([431]))
})

test('accepts an absolute-form target with the same host as Host', async (t) => {
  const { url, seen } = await open(t)
  const answer = await sendRaw(url, 'GET http://A:80/first HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n')
  assert.equal(statusOf(answer), 200)
  assert.deepEqual(seen, ['/first'])
})

test('an unknown expectation is 417 and is logged', async (t) => {
  const { url, seen, faults } = await open(t)
  const answer = await sendRaw(url, post('Expect: tea', 'Content-Length: 2'), `{}${TAIL}`)
  assert.equal(statusOf(answer), 417)
  assert.match(answer, /application\/problem\+json/)
  assert.deepEqual([seen, faults.map(({ status }) => status)], [[], [417]])
})

test('an upgrade request is ignored', async (t) => {
  const { url } = await open(t)
  assert.equal(statusOf(await sendRaw(url, get('Host: a', 'Connection: Upgrade, close', 'Upgrade: h2c'))), 200)
})

test('an HTTP/1.0 request gets one response and the connection closes', async (t) => {
  const { url } = await open(t)
  const answer = await sendRaw(url, 'GET /first HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n')
  assert.equal(statusOf(answer), 200)
})

test('request headers that arrive too slowly are 408', async (t) => {
  const { url, seen } = await open(t, { limits: { headMs: 60, requestMs: 60 } })
  assert.equal(statusOf(await sendRaw(url, 'GET /first HTTP/1.1\r\nHost: a\r\nX: ')), 408)
  assert.equal(statusOf(await sendRaw(url, 'G')), 408)
  assert.deepEqual(seen, [])
})

test('a request body that arrives too slowly is 408', async (t) => {
  const { url } = await open(t, { limits: { headMs: 60, requestMs: 60 } })
  assert.equal(statusOf(await sendRaw(url, `${post('Content-Length: 10')}abcd`)), 408)
})

test('a form may arrive for as long as it makes progress', async (t) => {
  const formRate = { bytes: 4, ms: 100 }
  const { url, faults } = await open(t, { limits: { headMs: 60, requestMs: 60, formRate } })
  const form = (length: number): string =>
    post('Content-Type: multipart/form-data; boundary=b', `Content-Length: ${length}`, 'Connection: close')
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  t.after(() => void socket.destroy())
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  const closed = once(socket, 'close')
  socket.write(form(60))
  for (let sent = 0; sent < 60; sent += 6) {
    assert.equal(answer, '')
    socket.write('abcdef')
    await pause(50)
  }
  await closed
  assert.match(answer, /^HTTP\/1\.1 200 .*\r\n\r\n(?:abcdef){10}$/s)
  assert.equal(statusOf(await sendRaw(url, `${form(60)}abcdef`)), 408)
  assert.deepEqual(
    faults.map(({ status }) => status),
    [408],
  )
})

test('a malformed request does not corrupt the response to the request before it', async (t) => {
  const { url } = await open(t)
  const answer = await sendRaw(url, get('Host: a'), 'no HTTP at all\r\n\r\n')
  assert.ok([200, 400].includes(statusOf(answer)), answer)
  assert.ok(answer.length < 2000)
})

test('the error for a port in use names the daemon, the address and the setting', async (t) => {
  const { url } = await open(t)
  const port = Number(new URL(url).port)
  const address = `127.0.0.1:${port}`
  await assert.rejects(
    open(t, { listen: { host: '127.0.0.1', port } }),
    isRefusal('unavailable', `routd cannot listen on ${address}: the port is in use`),
  )
  await assert.rejects(
    open(t, { listen: { host: '192.0.2.1', port: 0 } }),
    isRefusal('unavailable', 'this machine does not have the address'),
  )
})

test('the URL of a wildcard address can be connected to', async (t) => {
  const { url } = await open(t, { listen: { host: '0.0.0.0', port: 0 } })
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
  assert.equal((await fetch(url)).status, 200)
})

/** An app whose responses wait until they are released. */
function held() {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
  const fetch = async (): Promise<Response> => {
    arrive()
    await promise
    return new Response('done')
  }
  return { fetch, arrived, release: resolve }
}

test('a client that closes its half after the request gets its response', async (t) => {
  const { fetch: slow, arrived, release } = held()
  const { url } = await open(t, { fetch: slow })
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let answer = ''
  socket.on('data', (chunk) => {
    answer += chunk
  })
  socket.end(get('Host: a'))
  await arrived
  await new Promise((resolve) => setTimeout(resolve, 20))
  release()
  await once(socket, 'close')
  assert.equal(statusOf(answer), 200)
  assert.match(answer, /done/)
})

test('a client that closes its half during a response counts as disconnected', async (t) => {
  const closed = Promise.withResolvers<void>()
  const { url } = await open(t, {
    rawHandler: (_, response) => {
      response.writeHead(200)
      response.write('begun')
      response.once('close', () => closed.resolve())
      return true
    },
  })
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.write(get('Host: a'))
  await once(socket, 'data')
  socket.end()
  await closed.promise
})

const refuseUnread: Partial<HttpListenerOptions> = {
  rawHandler: (_, response) => {
    response.writeHead(413, { Connection: 'close', 'Content-Length': 4 }).end('much')
    return true
  },
}

test('a client that is still sending its body reads the response instead of a reset', async (t) => {
  const { url, faults } = await open(t, refuseUnread)
  for (let round = 0; round < 20; round++) {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const failed: Error[] = []
    socket.on('error', (error) => failed.push(error))
    const size = 3_000_000
    socket.write(post(`Content-Length: ${size}`))
    // The response is complete before the first byte of the body is sent, and is read after the last one.
    await once(socket, 'readable')
    await new Promise((resolve) => socket.write(Buffer.alloc(size / 2), resolve))
    await new Promise((resolve) => socket.write(Buffer.alloc(size / 2), resolve))
    assert.match(String(socket.read()), /^HTTP\/1.1 413 .*\r\n\r\nmuch$/s)
    socket.resume()
    await once(socket, 'close')
    assert.deepEqual(failed, [])
  }
  assert.deepEqual(faults, [])
})

test('a request behind a refused body is not handled', async (t) => {
  const paths: unknown[] = []
  const { url } = await open(t, {
    rawHandler: (request, response, origin) => {
      paths.push(request.url)
      return refuseUnread.rawHandler?.(request, response, origin) ?? false
    },
  })
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(post('Content-Length: 5'))
  await once(socket, 'readable')
  socket.write(`abcde${TAIL}`)
  socket.resume()
  await once(socket, 'close')
  assert.deepEqual(paths, ['/first'])
})

test('a refused body is discarded only for a limited time', async (t) => {
  const { url } = await open(t, { ...refuseUnread, limits: { discardMs: 50 } })
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true })
  const failed = once(socket, 'error')
  socket.write(post('Content-Length: 1000000000'))
  // The response and the end of the server's half arrive at once; then only the limit closes the connection.
  socket.resume()
  await once(socket, 'end')
  const sending = setInterval(() => socket.write('x'), 5)
  t.after(() => clearInterval(sending))
  const [error] = await failed
  assert.match(error.code, /^(EPIPE|ECONNRESET)$/)
})

test('a client that does not read its response for too long is disconnected, a slow reader is not', async (t) => {
  const body = new Uint8Array(32 * 1024 * 1024)
  const { url } = await open(t, { limits: { unreadMs: 1000 }, fetch: () => new Response(body) })
  const ask = async () => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    t.after(() => void socket.destroy())
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
    return socket
  }
  const [silent, reader] = [await ask(), await ask()]
  let read = 0
  reader.on('data', ({ length }) => {
    read += length
  })
  const sleeper = silent.pause()
  await once(reader, 'close')
  assert.ok(read > body.length)
  await pause(3000)
  let unread = 0
  sleeper.on('data', ({ length }) => {
    unread += length
  })
  const closed = new Promise((resolve) => sleeper.on('close', resolve))
  sleeper.resume()
  await closed
  assert.ok(unread < body.length, 'what the kernel held, and no more')
})

test('stopping finishes running requests and accepts no new ones', async (t) => {
  const { fetch: slow, arrived, release } = held()
  const { url, close } = await open(t, { fetch: slow })
  const answer = fetch(url)
  await arrived
  const closing = close()
  await assert.rejects(fetch(url, { headers: { Connection: 'close' } }))
  release()
  // Clients must not send another request on a connection that is closing.
  assert.equal((await answer).headers.get('connection'), 'close')
  assert.equal(await (await answer).text(), 'done')
  await closing
})

test('stopping does not wait for idle connections', async (t) => {
  const { url, close } = await open(t)
  const { hostname, port } = new URL(url)
  const [fresh, kept] = [connect(Number(port), hostname), connect(Number(port), hostname)]
  await Promise.all([once(fresh, 'connect'), once(kept, 'connect')])
  kept.write(get('Host: a'))
  await once(kept, 'data')
  const gone = [once(fresh, 'close'), once(kept, 'close')]
  fresh.resume()
  kept.resume()
  await close()
  await Promise.all(gone)
})

test('stopping closes connections that do not finish in time', async (t) => {
  const { fetch: slow, arrived, release } = held()
  t.after(() => release())
  const { url, close } = await open(t, { fetch: slow, limits: { drainMs: 50 } })
  const answer = fetch(url)
  answer.catch(() => {})
  await arrived
  await close()
  await assert.rejects(answer)
})

test('an exception in a handler ends its connection, and the listener goes on', async (t) => {
  const errors: unknown[] = []
  const { url } = await open(t, {
    rawHandler: ({ url }) => {
      if (url === '/odd') throw new TypeError('odd request')
      return false
    },
    onBackgroundError: (error) => errors.push(error),
  })
  await assert.rejects(fetch(`${url}/odd`))
  assert.equal((await fetch(`${url}/good`)).status, 200)
  assert.deepEqual(errors.map(String), ['TypeError: odd request'])
})
