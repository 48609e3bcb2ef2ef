import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { type IncomingHttpHeaders, request } from 'node:http'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { utf8 } from '../../lib/http/http.ts'
import { Refusal } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import { parseAllowlistEntry } from '../policy/allowlist-entry.ts'
import { readRegistration } from '../policy/registration.ts'
import { SourceRegistry } from '../policy/source-registry.ts'
import { RequestCounters } from '../reporting/counters.ts'
import { type AdminOptions, openAdminServer } from './admin-server.ts'
import { isListening } from './listener-probe.ts'
import type { AdminContext } from './routes.ts'

interface Reply {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: unknown
}

interface Ask {
  readonly method?: string
  readonly body?: string | Uint8Array
  readonly headers?: Record<string, string | string[]>
}

async function openTest(t: TestContext, over: Partial<AdminContext & AdminOptions> & { path?: string } = {}) {
  const warnings: string[] = []
  const faults: unknown[] = []
  const sources = await SourceRegistry.open(over.path, (sentence) => warnings.push(sentence))
  const counts = new RequestCounters()
  const present = { connections: 3, tunnels: 2, droppedLines: 1, bytesUp: 0, bytesDown: 0 }
  const parts: AdminContext = {
    sources,
    snapshot: async () => counts.snapshot(present),
    testForward: async () => 'alive',
    isDraining: () => false,
    ...over,
  }
  const options = { onFault: (_: string, error: unknown) => faults.push(error), ...over }
  const admin = await openAdminServer([{ host: '127.0.0.1', port: 0 }], parts, options)
  t.after(() => admin.close())
  const { port } = admin.endpoints[0] ?? assert.fail('it does not listen')
  const ask = (path: string, { method = 'GET', body, headers = {} }: Ask = {}): Promise<Reply> => {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>()
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, async (response) => {
      const text = Buffer.concat(await response.toArray()).toString()
      const isJson = response.headers['content-type']?.endsWith('json') && text !== ''
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text,
        body: isJson ? JSON.parse(text) : text,
      })
    })
    sent.on('error', (error) => reject(new Error(`${method} ${path}: ${error.message}`)))
    sent.end(body)
    return promise
  }
  const post = (path: string, body: unknown, headers: Record<string, string | string[]> = {}): Promise<Reply> => {
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const bytes = isRaw ? body : JSON.stringify(body)
    return ask(path, { method: 'POST', body: bytes, headers: { 'Content-Type': 'application/json', ...headers } })
  }
  return { admin, sources, counts, port, ask, post, warnings, faults }
}

async function dial(t: TestContext, port: number): Promise<Socket> {
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  return socket
}

/** Everything received until the other side closes. */
async function readAll(socket: Socket): Promise<string> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  await new Promise((resolve) => socket.once('close', resolve))
  return Buffer.concat(chunks).toString('latin1')
}

const GOOD = { ip: '10.0.0.5', id: 'job-1', allowlist: ['A.example.', 'b.example', 'a.example'] }
const STORED = { ip: '10.0.0.5', id: 'job-1', allowlist: ['a.example', 'b.example'] }

const codeOf = ({ headers, body }: Reply): unknown => {
  assert.equal(headers['content-type'], 'application/problem+json')
  assert.ok(typeof body === 'object' && body !== null)
  return Reflect.get(body, 'code')
}

test('answers register with what is stored, lists it sorted, and reports whether unregister removed it', async (t) => {
  const { ask, post } = await openTest(t)
  const registered = await post('/v1/register', GOOD)
  assert.equal(registered.status, 200)
  assert.equal(registered.headers['content-type'], 'application/json')
  assert.deepEqual(registered.body, STORED)
  await post('/v1/register', { ...GOOD, ip: '10.0.0.10' })
  await post('/v1/register', { ...GOOD, ip: '::ffff:10.0.0.9', allowlist: [] })
  const state = await ask('/v1/state')
  assert.equal(state.status, 200)
  assert.deepEqual(state.body, [STORED, { ...STORED, ip: '10.0.0.9', allowlist: [] }, { ...STORED, ip: '10.0.0.10' }])
  assert.deepEqual((await post('/v1/unregister', { ip: '::ffff:10.0.0.9' })).body, { removed: true })
  assert.deepEqual((await post('/v1/unregister', { ip: '10.0.0.9' })).body, { removed: false })
})

test('warns about hosts that allow more than they seem to', async (t) => {
  const { ask, post, warnings } = await openTest(t)
  const allowlist = ['CO.UK.', 'github.io', 'localhost', 'bbc.co.uk']
  const stored = { ...STORED, allowlist: ['co.uk', 'github.io', 'localhost', 'bbc.co.uk'] }
  const said = [
    '"co.uk" allows every name below it, and anyone can register one',
    '"github.io" allows every name below it, and anyone can register one',
    '"localhost" has a single label; it also allows every name that ends in .localhost',
  ]
  assert.deepEqual((await post('/v1/register', { ...GOOD, allowlist })).body, { ...stored, warnings: said })
  assert.deepEqual(
    warnings,
    said.map((sentence) => `in the allowlist of 10.0.0.5: ${sentence}`),
  )
  assert.deepEqual((await ask('/v1/state')).body, [stored])
  const many = Array.from({ length: 30 }, (_, at) => `host${at}`)
  const { body } = await post('/v1/register', { ...GOOD, allowlist: many })
  assert.ok(typeof body === 'object' && body !== null && 'warnings' in body && Array.isArray(body.warnings))
  assert.deepEqual([body.warnings.length, body.warnings.at(-1)], [21, 'so do 10 more'])
})

suite('the secret', () => {
  const SECRET = 'correct-horse'
  const REFUSED: Record<string, Record<string, string | string[]>> = {
    none: {},
    'a wrong one': { Authorization: 'Bearer wrong-horse!!!' },
    'one of another length': { Authorization: 'Bearer c' },
    'a longer one': { Authorization: `Bearer ${SECRET}x` },
    'a very long one': { Authorization: `Bearer ${'x'.repeat(8000)}` },
    'an empty one': { Authorization: 'Bearer ' },
    'the bare word': { Authorization: 'Bearer' },
    'no scheme': { Authorization: SECRET },
    'another scheme': { Authorization: `Basic ${Buffer.from(`:${SECRET}`).toString('base64')}` },
    'two words': { Authorization: `Bearer ${SECRET} ${SECRET}` },
    'another case': { Authorization: `Bearer ${SECRET.toUpperCase()}` },
    'two headers': { Authorization: [`Bearer ${SECRET}`, `Bearer ${SECRET}`] },
    'two headers, a wrong one first': { Authorization: ['Bearer x', `Bearer ${SECRET}`] },
    'another header': { 'X-Authorization': `Bearer ${SECRET}` },
    'a proxy’s header': { 'Proxy-Authorization': `Bearer ${SECRET}` },
  }
  for (const [what, headers] of Object.entries(REFUSED)) {
    test(`answers 401 for ${what} and changes nothing`, async (t) => {
      const { post, sources } = await openTest(t, { secret: SECRET })
      for (const path of ['/v1/register', '/v1/unregister']) {
        const reply = await post(path, GOOD, headers)
        assert.equal(reply.status, 401)
        assert.equal(reply.headers['www-authenticate'], 'Bearer')
        assert.equal(codeOf(reply), 'unauthenticated')
        assert.ok(!reply.text.includes(SECRET))
      }
      assert.equal(sources.size, 0)
    })
  }

  test('accepts the right secret, whatever the case of the scheme', async (t) => {
    const { post } = await openTest(t, { secret: SECRET })
    for (const scheme of ['Bearer', 'bearer', 'BEARER', 'Bearer  '])
      assert.equal((await post('/v1/register', GOOD, { authorization: `${scheme} ${SECRET}` })).status, 200, scheme)
  })

  test('checks the secret before the body, and leaves reading open', async (t) => {
    const { ask, post } = await openTest(t, { secret: SECRET })
    assert.equal((await post('/v1/register', '{')).status, 401)
    assert.equal((await ask('/v1/register', { method: 'POST', body: 'x' })).status, 401)
    assert.equal((await ask('/v1/register')).status, 405)
    for (const path of ['/v1/state', '/v1/denied', '/health', '/healthz', '/metrics'])
      assert.equal((await ask(path)).status, 200, path)
  })

  test('is not required if it is empty', async (t) => {
    const { post } = await openTest(t, { secret: '' })
    assert.equal((await post('/v1/register', GOOD)).status, 200)
    assert.equal((await post('/v1/register', GOOD, { Authorization: 'Bearer anything' })).status, 200)
  })
})

suite('requests from a browser', () => {
  test('answers 403 for an Origin at every path and changes nothing', async (t) => {
    const { ask, post, sources } = await openTest(t)
    for (const origin of ['http://evil.example', 'null', 'http://127.0.0.1']) {
      assert.equal(codeOf(await post('/v1/register', GOOD, { Origin: origin })), 'forbidden')
      assert.equal((await ask('/v1/state', { headers: { Origin: origin } })).status, 403)
    }
    assert.equal(sources.size, 0)
  })

  test('answers 403 for a host name that a stranger could point here, at every path', async (t) => {
    const { ask, post, sources } = await openTest(t, { hosts: ['admin.example'] })
    for (const Host of ['evil.example', 'evil.example:3129', '127.0.0.1.evil.example', 'sub.admin.example', 'a b']) {
      const refused = await post('/v1/register', GOOD, { Host })
      assert.equal(codeOf(refused), 'forbidden', Host)
      assert.match(refused.text, /the admin listener does not accept the host/)
      for (const path of ['/v1/state', '/v1/denied', '/health', '/healthz', '/metrics'])
        assert.equal((await ask(path, { headers: { Host } })).status, 403, `${Host} ${path}`)
    }
    assert.equal(sources.size, 0)
    for (const Host of [
      'localhost',
      'LOCALHOST:9',
      'a.localhost',
      'proxy:3129',
      '[::1]:80',
      '10.0.0.1',
      'Admin.Example.:1',
    ])
      assert.equal((await ask('/v1/state', { headers: { Host } })).status, 200, Host)
  })

  test('accepts any host name with the secret', async (t) => {
    const { ask, post } = await openTest(t, { secret: 'horse' })
    const headers = { Host: 'proxy.cluster.example', Authorization: 'Bearer horse' }
    assert.equal((await post('/v1/register', GOOD, headers)).status, 200)
    assert.equal((await ask('/v1/state', { headers })).status, 200)
    assert.equal((await ask('/v1/state', { headers: { ...headers, Authorization: 'Bearer cow' } })).status, 403)
  })

  test('answers 415 for a body that a form could send', async (t) => {
    const { ask, sources } = await openTest(t)
    const body = JSON.stringify(GOOD)
    for (const type of [
      '',
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'json',
    ])
      assert.equal(
        (await ask('/v1/register', { method: 'POST', body, headers: { 'Content-Type': type } })).status,
        415,
        type,
      )
    assert.equal((await ask('/v1/register', { method: 'POST', body })).status, 415)
    const latin = { 'Content-Type': 'application/json; charset=latin1' }
    assert.equal((await ask('/v1/register', { method: 'POST', body, headers: latin })).status, 415)
    assert.equal(sources.size, 0)
    const exact = { 'content-type': 'Application/JSON; charset=UTF-8' }
    assert.equal((await ask('/v1/register', { method: 'POST', body, headers: exact })).status, 200)
  })

  test('sends no CORS headers', async (t) => {
    const { ask } = await openTest(t)
    const reply = await ask('/v1/register', { method: 'OPTIONS', headers: { 'Access-Control-Request-Method': 'POST' } })
    assert.equal(reply.status, 405)
    assert.equal(reply.headers['access-control-allow-origin'], undefined)
  })
})

test('answers 405 with Allow for another method and 404 for another path', async (t) => {
  const { ask, post, sources } = await openTest(t)
  for (const path of ['/v1/register', '/v1/unregister'])
    for (const method of ['GET', 'HEAD', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE']) {
      const reply = await ask(path, { method })
      assert.equal(reply.status, 405, `${method} ${path}`)
      assert.equal(reply.headers.allow, 'POST')
    }
  for (const path of ['/v1/state', '/v1/denied', '/health', '/healthz', '/metrics']) {
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const reply = await ask(path, { method })
      assert.equal(reply.status, 405, `${method} ${path}`)
      assert.equal(reply.headers.allow, 'GET, HEAD')
    }
    const head = await ask(path, { method: 'HEAD' })
    assert.deepEqual([head.status, head.text], [200, ''])
  }
  for (const path of [
    ...[
      '/',
      '//v1/state',
      '/v1/state/',
      '/v1//state',
      '/V1/state',
      '/v1/state%2f',
      '/v1',
      '/health/',
      '/v1/../v1/state',
    ],
    ...[
      '/__proto__',
      '/constructor',
      '/v1/register/',
      '/v1/state;x',
      'http://127.0.0.1/v1/state',
      '/%76%31/state',
      '*',
    ],
  ]) {
    const reply = await ask(path)
    assert.equal(reply.status, 404, path)
    assert.equal(codeOf(reply), 'not_found')
    if (path !== '*') assert.equal((await post(path, GOOD)).status, 404, path)
  }
  assert.equal((await ask('/v1/state?x=1')).status, 200)
  assert.equal(sources.size, 0)
})

suite('bodies', () => {
  const deep = '['.repeat(400_000) + ']'.repeat(400_000)
  const BAD: Record<string, string | Uint8Array> = {
    'no body': '',
    'no JSON': '{',
    'text after it': `${JSON.stringify(GOOD)} x`,
    'two of them': JSON.stringify(GOOD) + JSON.stringify(GOOD),
    'a byte order mark': `\uFEFF${JSON.stringify(GOOD)}`,
    'no UTF-8': Uint8Array.of(0x7b, 0xff, 0x7d),
    'UTF-16': Buffer.from(JSON.stringify(GOOD), 'utf16le'),
    'a list': JSON.stringify([GOOD]),
    null: 'null',
    'nothing in it': '{}',
    'no ip': JSON.stringify({ id: 'a', allowlist: [] }),
    'ip null': JSON.stringify({ ...GOOD, ip: null }),
    'ip a number': JSON.stringify({ ...GOOD, ip: 167772165 }),
    'an ip with a leading zero': JSON.stringify({ ...GOOD, ip: '010.0.0.5' }),
    'an ip with a blank': JSON.stringify({ ...GOOD, ip: '10.0.0.5 ' }),
    'an ip with a mask': JSON.stringify({ ...GOOD, ip: '10.0.0.5/32' }),
    'an ip with a zone': JSON.stringify({ ...GOOD, ip: 'FE80::1%eth0' }),
    'the ip __proto__': JSON.stringify({ ...GOOD, ip: '__proto__' }),
    'no id': JSON.stringify({ ip: '10.0.0.5', allowlist: [] }),
    'an empty id': JSON.stringify({ ...GOOD, id: '' }),
    'no allowlist': JSON.stringify({ ip: '10.0.0.5', id: 'a' }),
    'allowlist null': JSON.stringify({ ...GOOD, allowlist: null }),
    'allowlist a text': JSON.stringify({ ...GOOD, allowlist: 'a.example' }),
    'allowlist of numbers': JSON.stringify({ ...GOOD, allowlist: [1] }),
    'a URL': JSON.stringify({ ...GOOD, allowlist: ['a.example', 'https://a'] }),
    'a port': JSON.stringify({ ...GOOD, allowlist: ['a.example', 'a.example:443'] }),
    'a wildcard': JSON.stringify({ ...GOOD, allowlist: ['*.a.example'] }),
    'a range': JSON.stringify({ ...GOOD, allowlist: ['10.0.0.0/8'] }),
    everything: JSON.stringify({ ...GOOD, allowlist: ['*'] }),
    nothing: JSON.stringify({ ...GOOD, allowlist: [''] }),
    'an unknown field': JSON.stringify({ ...GOOD, hosts: [] }),
    'a member __proto__': '{"__proto__":{"ip":"10.0.0.5"},"id":"a","allowlist":[]}',
    'a member that is given twice': '{"ip":"10.0.0.1","ip":"10.0.0.2","id":"a","allowlist":[]}',
    'a list that is given twice': '{"ip":"10.0.0.1","id":"a","allowlist":["a.example"],"allow\\u006cist":[]}',
    'a long name that is given twice': `{"${'a'.repeat(100_000)}":1,"${'a'.repeat(100_000)}":1}`,
    'lists in lists': deep,
    'lists in lists for an allowlist': `{"ip":"10.0.0.5","id":"a","allowlist":${deep}}`,
    'half a million hosts': `{"ip":"10.0.0.5","id":"a","allowlist":[${'0,'.repeat(500_000)}0]}`,
  }
  test('answers 400 for each invalid body and changes nothing', async (t) => {
    const { ask, post, sources } = await openTest(t)
    await post('/v1/register', GOOD)
    for (const [what, body] of Object.entries(BAD)) {
      const reply = await post('/v1/register', body)
      assert.equal(reply.status, 400, `${what}: ${reply.text}`)
      assert.equal(codeOf(reply), 'invalid')
      assert.ok(reply.text.length < 5000, what)
      assert.deepEqual(sources.list(), [STORED], what)
      const other = await post('/v1/unregister', body)
      assert.equal(other.status, 400, what)
    }
    assert.equal((await post('/v1/unregister', { ip: '10.0.0.5', id: 'job-1' })).status, 400)
    assert.deepEqual((await ask('/v1/state')).body, [STORED])
  })

  test('answers 413 for more than a mebibyte, declared or not, and keeps listening', async (t) => {
    const { ask, post, sources, port } = await openTest(t)
    const filler = ' '.repeat(1_048_576)
    const exact = JSON.stringify(GOOD) + filler.slice(JSON.stringify(GOOD).length)
    assert.equal((await post('/v1/register', exact)).status, 200)
    assert.equal(codeOf(await post('/v1/register', `${exact} `)), 'too_large')
    assert.equal((await post('/v1/register', `${exact} `, { 'Transfer-Encoding': 'chunked' })).status, 413)
    const declared = await dial(t, port)
    declared.write(
      `POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n`,
    )
    const [first] = await once(declared, 'data')
    assert.match(String(first), /^HTTP\/1\.1 413 /)
    assert.deepEqual((await ask('/v1/state')).body, [STORED])
    assert.equal(sources.size, 1)
  })

  test('answers 413 for 100 MB without keeping them in memory', async (t) => {
    const { post, sources } = await openTest(t)
    assert.equal((await post('/v1/register', Buffer.alloc(104_857_600, 0x20))).status, 413)
    assert.equal(sources.size, 0)
  })

  test('answers 413 for endless chunks and closes the connection at its timeout', async (t) => {
    const { port, ask } = await openTest(t, { requestMs: 800, headMs: 400 })
    const socket = await dial(t, port)
    const all = readAll(socket)
    socket.write(
      'POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    )
    const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
    const send = (): void => {
      if (socket.writable) socket.write(chunk, () => setImmediate(send))
    }
    send()
    const answers = (await all).match(/^HTTP\/1\.1 \d+/gm)
    // A reset may drop the response; there is never a second one.
    if (answers) assert.deepEqual(answers, ['HTTP/1.1 413'])
    assert.equal((await ask('/health')).status, 200)
  })

  test('answers 408 for a body or head that does not arrive, and closes a connection without a byte', async (t) => {
    const { port, sources } = await openTest(t, { requestMs: 500, headMs: 250 })
    const head =
      'POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"ip":'
    for (const bytes of [head, head.slice(0, 30), 'POST']) {
      const socket = await dial(t, port)
      socket.write(bytes)
      assert.match(await readAll(socket), /^HTTP\/1\.1 408 Request Timeout\r\n.*application\/problem\+json/s)
    }
    const silent = await dial(t, port)
    await readAll(silent)
    assert.equal(sources.size, 0)
  })

  test('changes nothing if the body ends early', async (t) => {
    const { port, sources, faults, ask } = await openTest(t)
    const socket = await dial(t, port)
    const body = JSON.stringify(GOOD)
    socket.write(
      `POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length + 1}\r\n\r\n${body}`,
    )
    socket.destroy()
    await ask('/health')
    assert.deepEqual([sources.size, faults], [0, []])
  })
})

test('answers 400 for anything but HTTP, and for CONNECT, and closes', async (t) => {
  const { port, ask } = await openTest(t)
  for (const bytes of [
    '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
    'HELLO\r\n\r\n',
    'GET /v1/state HTTP/1.1\r\n\r\n',
    'GET /v1/state HTTP/1.1\r\nHost : x\r\n\r\n',
    'POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'POST /v1/register HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx',
    'CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`,
  ]) {
    const socket = await dial(t, port)
    socket.write(bytes, 'latin1')
    assert.match(await readAll(socket), /^HTTP\/1\.1 4(00|31) /, JSON.stringify(bytes.slice(0, 60)))
  }
  assert.equal((await ask('/health')).status, 200)
})

suite('health', () => {
  test('reports alive, dead, switched off and stopping', async (t) => {
    const state = { forward: 'alive' as Awaited<ReturnType<AdminContext['testForward']>>, isDraining: false }
    const { ask } = await openTest(t, { testForward: async () => state.forward, isDraining: () => state.isDraining })
    const seen = async (): Promise<unknown> => {
      const { status, body, headers } = await ask('/health')
      assert.equal(headers['cache-control'], 'no-store')
      return [status, body]
    }
    assert.deepEqual(await seen(), [200, { status: 'ok' }])
    state.forward = 'dead'
    assert.deepEqual(await seen(), [503, { status: 'proxy_down' }])
    state.forward = 'none'
    assert.deepEqual(await seen(), [200, { status: 'ok', proxy: 'disabled' }])
    state.isDraining = true
    assert.deepEqual(await seen(), [503, { status: 'draining' }])
  })

  test('tells a listener from a closed port, also for all addresses', async (t) => {
    for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
      const server = createServer((socket) => socket.destroy()).listen(0, host)
      t.after(() => server.close())
      await once(server, 'listening')
      const bound = server.address()
      assert.ok(bound !== null && typeof bound === 'object')
      assert.equal(await isListening({ address: host, port: bound.port }), true, host)
      server.close()
      await once(server, 'close')
      assert.equal(await isListening({ address: host, port: bound.port }), false, host)
    }
  })
})

suite('reports for the operator', () => {
  const exchange = { mode: 'connect', bytesUp: 10, bytesDown: 20, ms: 5 } as const

  test('lists denied hosts with their source, newest first', async (t) => {
    const { ask, counts } = await openTest(t)
    const denied = { ...exchange, source: '10.0.0.5', id: 'job', verdict: 'deny', port: 443 } as const
    counts.add({ ...denied, host: 'a.example', reason: 'blocked-by-allowlist' }, 1000)
    counts.add({ ...denied, host: 'b.example', reason: 'blocked-by-allowlist' }, 2000)
    counts.add({ ...denied, host: 'a.example', reason: 'blocked-by-allowlist' }, 3000)
    for (const sni of ['c.example', 'd.example', 'c.example'])
      counts.add({ ...denied, host: 'a.example', sni, reason: 'sni-denied' }, 4000)
    const a = { ip: '10.0.0.5', id: 'job', host: 'a.example', port: 443, reason: 'blocked-by-allowlist', count: 2 }
    const hidden = {
      ...a,
      reason: 'sni-denied',
      first_at: '1970-01-01T00:00:04.000Z',
      last_at: '1970-01-01T00:00:04.000Z',
    }
    assert.deepEqual((await ask('/v1/denied')).body, [
      { ...hidden, sni: 'c.example', count: 2 },
      { ...hidden, sni: 'd.example', count: 1 },
      { ...a, first_at: '1970-01-01T00:00:01.000Z', last_at: '1970-01-01T00:00:03.000Z' },
      { ...a, host: 'b.example', count: 1, first_at: '1970-01-01T00:00:02.000Z', last_at: '1970-01-01T00:00:02.000Z' },
    ])
  })

  test('serves Prometheus metrics with the registry and without hosts', async (t) => {
    const { ask, post, counts } = await openTest(t)
    await post('/v1/register', GOOD)
    counts.add(
      { ...exchange, source: '10.0.0.5', host: 'a.example', verdict: 'deny', reason: 'blocked-by-allowlist' },
      1,
    )
    const { headers, text } = await ask('/metrics')
    assert.equal(headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8')
    assert.match(text, /^egress_registry_entries 1$/m)
    assert.match(text, /^egress_decisions_total\{mode="connect",decision="deny",reason="blocked-by-allowlist"\} 1$/m)
    assert.ok(!text.includes('a.example') && !text.includes('10.0.0.5'))
  })
})

test('answers 503 with Retry-After if the registry cannot be stored, and logs the path', async (t) => {
  const dir = join(tempDir(t), 'gone')
  mkdirSync(dir)
  const { ask, post, warnings } = await openTest(t, { path: join(dir, 'state.json') })
  assert.equal((await post('/v1/register', GOOD)).status, 200)
  rmSync(dir, { recursive: true })
  const reply = await post('/v1/register', { ...GOOD, allowlist: ['other.example'] })
  assert.equal(reply.status, 503)
  assert.ok(reply.headers['retry-after'])
  assert.ok(!reply.text.includes(dir) && warnings.join().includes(dir))
  assert.equal((await post('/v1/unregister', { ip: '10.0.0.5' })).status, 503)
  assert.deepEqual((await ask('/v1/state')).body, [STORED])
})

test('answers an unexpected error with 500 and an incident id', async (t) => {
  const { ask, faults } = await openTest(t, { snapshot: () => Promise.reject(new Error('secret inside')) })
  const reply = await ask('/metrics')
  assert.equal(reply.status, 500)
  assert.equal(codeOf(reply), 'internal')
  assert.ok(!reply.text.includes('secret inside'))
  assert.match(String(faults[0]), /secret inside/)
})

test('answers two concurrent registers on one connection in order', async (t) => {
  const { port, sources } = await openTest(t)
  const socket = await dial(t, port)
  const all = readAll(socket)
  const post = (allowlist: string[], close: boolean): string => {
    const body = JSON.stringify({ ...GOOD, allowlist })
    return `POST /v1/register HTTP/1.1\r\nHost: x\r\n${close ? 'Connection: close\r\n' : ''}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }
  socket.write(post(['first.example'], false) + post(['last.example'], true))
  const text = await all
  assert.ok(text.indexOf('first.example') > 0 && text.indexOf('first.example') < text.indexOf('last.example'))
  assert.deepEqual(sources.find('10.0.0.5')?.allowlist, ['last.example'])
})

suite('listening', async () => {
  const parts: AdminContext = {
    sources: await SourceRegistry.open(undefined, () => {}),
    snapshot: () => Promise.reject(new Error('not asked')),
    testForward: async () => 'none',
    isDraining: () => false,
  }
  const onFault = (_: string, error: unknown): never => assert.fail(String(error))

  test('refuses a port in use with its address, and leaves nothing open', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1')
    t.after(() => taken.close())
    await once(taken, 'listening')
    const bound = taken.address()
    assert.ok(bound !== null && typeof bound === 'object')
    const listens = [
      { host: '127.0.0.1', port: 0 },
      { host: '127.0.0.1', port: bound.port },
    ]
    await assert.rejects(
      openAdminServer(listens, parts, { onFault }),
      (error) => error instanceof Refusal && error.message.includes(`127.0.0.1:${bound.port}: the port is in use`),
    )
  })

  test('skips addresses that the machine does not have, unless there is only one', async () => {
    // From the documentation range, which no machine has.
    const missing = { host: '192.0.2.1', port: 0 }
    for (const listens of [
      [{ host: '127.0.0.1', port: 0 }, missing],
      [missing, { host: '127.0.0.1', port: 0 }],
    ]) {
      const admin = await openAdminServer(listens, parts, { onFault })
      assert.deepEqual(
        admin.endpoints.map(({ address }) => address),
        ['127.0.0.1'],
      )
      await admin.close()
    }
    await assert.rejects(openAdminServer([missing], parts, { onFault }), /does not have the address/)
    await assert.rejects(openAdminServer([missing, missing], parts, { onFault }), /does not have the address/)
  })

  test('closes idle connections and finishes requests in progress', async () => {
    const gate = Promise.withResolvers<'none'>()
    const asked = Promise.withResolvers<void>()
    const testForward = (): Promise<'none'> => {
      asked.resolve()
      return gate.promise
    }
    const admin = await openAdminServer([{ host: '127.0.0.1', port: 0 }], { ...parts, testForward }, { onFault })
    const [{ port } = assert.fail()] = admin.endpoints
    const idle = connect(port, '127.0.0.1')
    await once(idle, 'connect')
    const answered = fetch(`http://127.0.0.1:${port}/health`)
    await asked.promise
    const closed = admin.close()
    gate.resolve('none')
    assert.equal((await answered).status, 200)
    await closed
    idle.destroy()
  })
})

/** Texts close to the body of a register request. */
function nearlyBodies() {
  const ip = fc.oneof(
    fc.constantFrom(
      '10.0.0.5',
      '::1',
      '::ffff:10.0.0.5',
      '010.0.0.5',
      '10.0.0.5/8',
      'fe80::1%1',
      '',
      '0.0.0.0',
      '__proto__',
    ),
    fc.ipV4(),
    fc.ipV6(),
    fc.string({ maxLength: 12 }),
  )
  const host = fc.oneof(
    fc.constantFrom(
      'a.example',
      'A.EXAMPLE.',
      '*',
      '*.a.example',
      '',
      '.',
      'com',
      'a:1',
      'http://a',
      '1.2.3.4',
      'localhost',
    ),
    fc.string({ maxLength: 10 }),
    fc.string({ unit: 'binary', maxLength: 10 }),
  )
  const odd = fc.constantFrom<unknown>(null, 1, true, {}, [], [[]], 'x', -0, { ip: 'x' })
  const or = <T>(value: fc.Arbitrary<T>) => fc.oneof({ weight: 6, arbitrary: value }, { weight: 1, arbitrary: odd })
  const body = fc
    .record(
      {
        ip: or(ip),
        id: or(fc.string({ maxLength: 6 })),
        allowlist: or(fc.array(or(host), { maxLength: 4 })),
        more: odd,
      },
      { requiredKeys: [] },
    )
    .map(({ more, ...rest }) => (more === 1 ? { ...rest, more } : rest))
  const edit = fc.record({
    at: fc.nat(),
    cut: fc.nat(3),
    put: fc.constantFrom('', '"', '{', ']', ',', '\0', '\\u0000', 'é', '1e999'),
  })
  return fc.oneof(
    { weight: 6, arbitrary: body.map((value) => JSON.stringify(value)) },
    {
      weight: 3,
      arbitrary: fc.tuple(body, edit).map(([value, { at, cut, put }]) => {
        const text = JSON.stringify(value)
        const place = at % (text.length + 1)
        return text.slice(0, place) + put + text.slice(place + cut)
      }),
    },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  )
}

suite('fuzz', () => {
  test('reads thousands of bodies as a canonical entry or a refusal', () => {
    let taken = 0
    const tries = runs(2000, 20_000)
    fc.assert(
      fc.property(nearlyBodies(), (text) => {
        try {
          const entry = readRegistration(parseJson(utf8(Buffer.from(text))))
          taken++
          assert.deepEqual(readRegistration(entry), entry, 'it is not in its one spelling')
          for (const host of entry.allowlist) assert.deepEqual('fault' in parseAllowlistEntry(host), false, host)
          assert.match(entry.ip, /^[0-9a-f.:]+$/)
        } catch (error) {
          assert.ok(error instanceof Refusal && error.code === 'invalid', String(error))
        }
      }),
      { numRuns: tries },
    )
    assert.ok(taken > tries / 100, `only ${taken} were good: the rest proves little`)
  })

  test('changes the registry exactly when it answers 200, for 1,000 bodies over a socket', async (t) => {
    const { post, sources } = await openTest(t)
    const statuses = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(nearlyBodies(), async (text) => {
        const before = sources.list()
        const { status, body } = await post('/v1/register', text)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        if (status === 200) {
          assert.ok(typeof body === 'object' && body !== null)
          const stored = sources.find(String(Reflect.get(body, 'ip')))
          assert.ok(stored)
          assert.deepEqual({ ...body, ...stored }, body, 'but for warnings, it is what was answered')
        } else {
          assert.equal(status, 400)
          assert.deepEqual(sources.list(), before)
        }
      }),
      { numRuns: 1000 },
    )
    assert.ok((statuses.get(200) ?? 0) > 5 && (statuses.get(400) ?? 0) > 5, JSON.stringify([...statuses]))
  })
})
