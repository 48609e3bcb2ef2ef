import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { serve } from '@hono/node-server'
import fc from 'fast-check'
import { Hono } from 'hono'
import { REFUSALS, Refusal, type RefusalCode, refuse } from '../refusal.ts'
import {
  BODY_MAX,
  contentType,
  createErrorHandler,
  createNotFoundHandler,
  Problem,
  prefersHtml,
  problemResponse,
  readJsonObject,
} from './http.ts'

interface Logged {
  id: string
  error: unknown
}

function app(logged: Logged[] = []): Hono {
  const app = new Hono()
  app.onError(createErrorHandler((id, error) => logged.push({ id, error })))
  app.notFound(createNotFoundHandler(app))
  // As in a daemon, with middleware before all routes.
  app.use(async (_, next) => next())
  app.get('/thing', (c) => c.json({ a: 1 }))
  app.patch('/thing', async (c) => c.json(await readJsonObject(c.req.raw)))
  app.post('/thing', async (c) => c.json(await readJsonObject(c.req.raw)))
  app.get('/refuse/:code', (c) => refuse(c.req.param('code') as RefusalCode, 'for a reason', 'try another'))
  app.get('/throw', () => {
    throw new Error(`insert into secrets failed at ${import.meta.filename}`)
  })
  return app
}

async function read(answer: Response): Promise<Problem> {
  assert.equal(answer.headers.get('content-type'), 'application/problem+json')
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  const body = Problem.strict().parse(await answer.json())
  assert.equal(body.status, answer.status)
  assert.equal(body.type, `urn:problem:${body.code}`)
  return body
}

function post(body: RequestInit['body'], type?: string, more: Record<string, string> = {}): RequestInit {
  return { method: 'POST', body: body ?? null, headers: { ...(type ? { 'Content-Type': type } : {}), ...more } }
}

for (const [code, { http, title }] of Object.entries(REFUSALS)) {
  test(`returns the refusal ${code} as a problem document with status ${http}`, async () => {
    const answer = await app().request(`/refuse/${code}`)
    assert.equal(answer.status, http)
    assert.deepEqual(await read(answer.clone()), {
      type: `urn:problem:${code}`,
      title,
      status: http,
      detail: 'for a reason',
      code,
      hint: 'try another',
    })
    const retryAfter = Number(answer.headers.get('retry-after'))
    assert.equal(retryAfter >= 1, http === 429 || http === 503)
    assert.equal(answer.headers.get('www-authenticate'), http === 401 ? 'Bearer' : null)
  })
}

test('lets a refusal set its own Retry-After', () => {
  const answer = problemResponse(new Refusal('rate_limited', 'slowly'), { 'Retry-After': '17' })
  assert.equal(answer.headers.get('retry-after'), '17')
})

test('answers an unexpected error with an incident id and no details', async () => {
  const logged: Logged[] = []
  const answer = await app(logged).request('/throw')
  const text = await answer.clone().text()
  const { code, incident } = await read(answer)
  assert.equal(answer.status, 500)
  assert.equal(code, 'internal')
  assert.equal(logged.length, 1)
  assert.equal(logged[0]?.id, incident)
  assert.match(String(logged[0]?.error), /insert into secrets/)
  assert.doesNotMatch(text, /insert|secrets|http\.test|node:|at /)
})

test('does not log a refusal as an incident', async () => {
  const logged: Logged[] = []
  await app(logged).request('/refuse/conflict')
  assert.deepEqual(logged, [])
})

suite('paths and methods', () => {
  test('answers 404 for an unknown path', async () =>
    assert.equal((await read(await app().request('/other'))).code, 'not_found'))

  for (const method of ['PUT', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    test(`answers 405 with Allow for ${method} at a known path`, async () => {
      const answer = await app().request('/thing', { method })
      assert.equal((await read(answer.clone())).code, 'not_allowed')
      assert.equal(answer.headers.get('allow'), 'GET, POST, PATCH')
    })
  }

  test('treats a trailing slash as another path', async () =>
    assert.equal((await app().request('/thing/')).status, 404))

  test('answers HEAD like GET without the body', async () => {
    const answer = await app().request('/thing', { method: 'HEAD' })
    assert.equal(answer.status, 200)
    assert.equal(await answer.text(), '')
  })

  test('answers 405 for HEAD without a GET route', async () => {
    const only = new Hono()
    only.notFound(createNotFoundHandler(only)).post('/only', (c) => c.text('posted'))
    const answer = await only.request('/only', { method: 'HEAD' })
    assert.equal(answer.status, 405)
    assert.equal(answer.headers.get('allow'), 'POST')
  })
})

const JSON_TYPE = 'application/json'
const BODIES: Record<string, [init: RequestInit, status: number, detail?: RegExp]> = {
  'an object': [post('{"a": 1}', JSON_TYPE), 200],
  'no body at all': [post(undefined), 200],
  'no bytes under a JSON type': [post('', JSON_TYPE), 200],
  'a type in capitals with a quoted charset': [post('{}', 'APPLICATION/JSON; Charset="UTF-8"'), 200],
  'a type with an endless parameter': [post('{}', `application/json; x=${'y'.repeat(8192)}`), 200],
  'a body without a type': [post(new TextEncoder().encode('{}')), 415, /must be JSON/],
  'a form': [post('a=1', 'application/x-www-form-urlencoded'), 415],
  'text that looks like JSON': [post('{}', 'text/plain'), 415],
  'a type that only starts like JSON': [post('{}', 'application/jsonp'), 415],
  'an unsupported patch format': [post('{}', 'application/merge-patch+json'), 415],
  'another charset': [post('{}', 'application/json;charset=utf-16'), 415, /not in utf-16/],
  'half an object': [post('{"a": 1', JSON_TYPE), 400, /not JSON/],
  'text after the object': [post('{} x', JSON_TYPE), 400, /not JSON \(at character 3\)/],
  'a comment': [post('{/* a */}', JSON_TYPE), 400],
  NaN: [post('{"a": NaN}', JSON_TYPE), 400],
  'single quotes': [post("{'a': 1}", JSON_TYPE), 400],
  'a byte order mark': [post(new Uint8Array([0xef, 0xbb, 0xbf, 0x7b, 0x7d]), JSON_TYPE), 400],
  'bytes that are not UTF-8': [post(new Uint8Array([0x22, 0xff, 0x22]), JSON_TYPE), 400, /not UTF-8/],
  'an overlong encoding': [post(new Uint8Array([0x22, 0xc0, 0xaf, 0x22]), JSON_TYPE), 400, /not UTF-8/],
  null: [post('null', JSON_TYPE), 400, /must be a JSON object/],
  'a list': [post('[]', JSON_TYPE), 400, /must be a JSON object/],
  'a text': [post('"a"', JSON_TYPE), 400, /must be a JSON object/],
  'lists 64 deep': [post(`{"a":${'['.repeat(63)}${']'.repeat(63)}}`, JSON_TYPE), 200],
  'lists 65 deep': [post(`{"a":${'['.repeat(64)}${']'.repeat(64)}}`, JSON_TYPE), 400, /nested deeper than 64 levels$/],
  'a hundred thousand lists in each other': [
    post('['.repeat(100_000) + ']'.repeat(100_000), JSON_TYPE),
    400,
    /nested deeper than 64 levels$/,
  ],
  'a hundred thousand lists beside each other': [
    post(`[${'[],'.repeat(100_000)}[]]`, JSON_TYPE),
    400,
    /has more than 20000 values$/,
  ],
  'as many bytes as allowed': [post(`{"a":"${'x'.repeat(BODY_MAX - 8)}"}`, JSON_TYPE), 200],
  'one byte more': [post(`{"a":"${'x'.repeat(BODY_MAX - 7)}"}`, JSON_TYPE), 413, /larger than 1048576 bytes/],
  'a declared length beyond the cap': [post('{}', JSON_TYPE, { 'Content-Length': '1048577' }), 413],
  'more bytes than were declared': [post(' '.repeat(BODY_MAX + 1), JSON_TYPE, { 'Content-Length': '2' }), 413],
}

suite('request bodies', () => {
  for (const [sentence, [init, status, detail = /./]] of Object.entries(BODIES)) {
    test(`${sentence}: ${status}`, async () => {
      const answer = await app().request('/thing', init)
      assert.equal(answer.status, status)
      if (status >= 400) assert.match((await read(answer)).detail, detail)
    })
  }

  test('uses the last of duplicate members', async () => {
    assert.deepEqual(await (await app().request('/thing', post('{"a":1,"a":2}', JSON_TYPE))).json(), { a: 2 })
  })

  test('reads a member called __proto__ without changing a prototype', async () => {
    const request = new Request('http://x/', post('{"__proto__":{"isAdmin":true}}', JSON_TYPE))
    const members = await readJsonObject(request)
    assert.deepEqual(Object.keys(members), ['__proto__'])
    assert.equal(Object.getPrototypeOf(members), Object.prototype)
    assert.equal('isAdmin' in {}, false)
  })

  test('cuts a message that would repeat a whole body', async () => {
    const answer = problemResponse(new Refusal('invalid', 'unknown field "x"; '.repeat(50_000)))
    assert.ok((await answer.text()).length < 3_000)
  })

  test('refuses an endless stream without reading it forever', async () => {
    let sent = 0
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        sent += 65_536
        controller.enqueue(new Uint8Array(65_536))
      },
    })
    const init = { ...post(endless, JSON_TYPE), duplex: 'half' } as RequestInit
    assert.equal((await app().request('/thing', init)).status, 413)
    assert.ok(sent <= 17 * BODY_MAX + 3 * 65_536, `${sent} bytes were read`)
  })

  test('blames the client for a stream that ends early', async () => {
    const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error('gone')) })
    const init = { ...post(broken, JSON_TYPE), duplex: 'half' } as RequestInit
    const answer = await app().request('/thing', init)
    assert.match((await read(answer)).detail, /^request body ended early$/)
  })
})

suite('on a socket', () => {
  async function open(t: TestContext): Promise<Socket> {
    const server = serve({ fetch: app().fetch, port: 0, hostname: '127.0.0.1' })
    t.after(() => server.close())
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    t.after(() => socket.destroy())
    return socket
  }

  async function answerOf(socket: Socket): Promise<string> {
    let text = ''
    for await (const chunk of socket) text += chunk
    return text
  }

  test('refuses a declared length above the limit before the body arrives, and closes the connection', async (t) => {
    const socket = await open(t)
    socket.write('POST /thing HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1048577\r\n\r\n')
    assert.match(await answerOf(socket), /^HTTP\/1\.1 413 /)
  })

  test('refuses a body without declared length after its end, and keeps the connection', async (t) => {
    const socket = await open(t)
    socket.write(
      'POST /thing HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    )
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
    for (let sent = 0; sent < 64; sent++) socket.write(chunk)
    socket.write('0\r\n\r\nGET /thing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    assert.match(await answerOf(socket), /^HTTP\/1\.1 413 .*HTTP\/1\.1 200 .*\{"a":1\}$/s)
  })
})

test('tells a browser page load from a program by Accept', () => {
  const pages = [
    'text/html',
    'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'application/json;q=0.5, text/html;q=0.6',
  ]
  const programs = [
    undefined,
    '',
    '*/*',
    'application/json',
    'application/json, text/html;q=0.9',
    'text/html;q=0',
    'text/plain',
  ]
  for (const accept of pages) assert.equal(prefersHtml(accept), true, accept)
  for (const accept of programs) assert.equal(prefersHtml(accept), false, `${accept}`)
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (accept) => typeof prefersHtml(accept) === 'boolean'))
})

test('reads a content type in any case and both names of UTF-8', () => {
  const read = (header: string) => Object.values(contentType(header))
  assert.deepEqual(read('application/json'), ['application/json', 'utf-8'])
  assert.deepEqual(read(' Application/JSON ; Charset = "UTF-8"'), ['application/json', 'utf-8'])
  assert.deepEqual(read('text/plain;charset=utf8'), ['text/plain', 'utf-8'])
  assert.deepEqual(read('text/plain; a=b; charset=latin1'), ['text/plain', 'latin1'])
  assert.deepEqual(read(''), ['', 'utf-8'])
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (header) => {
      const { type, charset } = contentType(header)
      assert.deepEqual([type, charset], [type.toLowerCase(), charset.toLowerCase()])
    }),
  )
})
