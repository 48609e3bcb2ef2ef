import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'

interface ProxyWithBackend extends ServedHost {
  /** Requests to the backend. */
  readonly requests: IncomingMessage[]
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = ''
  for await (const chunk of request) body += chunk
  return body
}

/** proxyd alone, with a test backend in place of routd. */
async function openProxy(t: TestContext, answer: RequestListener): Promise<ProxyWithBackend> {
  const requests: IncomingMessage[] = []
  const backend = createServer((request, response) => {
    requests.push(request)
    answer(request, response)
  }).listen(0, '127.0.0.1')
  await once(backend, 'listening')
  t.after(() => {
    backend.close()
    backend.closeAllConnections()
  })
  const bound = backend.address()
  const port = bound !== null && typeof bound === 'object' ? bound.port : 0
  const front = await serveHost(t, { daemons: ['proxyd'], settings: { ROUTD_URL: `http://127.0.0.1:${port}/base/` } })
  return { ...front, requests }
}

test('forwards method, path, query and body, and the response', async (t) => {
  const front = await openProxy(t, async (request, response) => {
    response.writeHead(
      207,
      [
        ['Set-Cookie', 'a=1'],
        ['Set-Cookie', 'b=2'],
        ['X-Own', 'kept'],
      ].flat(),
    )
    response.end(`${request.method} ${request.url} ${await bodyOf(request)}`)
  })
  const answer = await fetch(`${front.url()}/v1/routes/a%2Fb?x=%20&y=1`, { method: 'PATCH', body: 'hello' })
  assert.equal(answer.status, 207)
  assert.deepEqual(answer.headers.getSetCookie(), ['a=1', 'b=2'])
  assert.equal(answer.headers.get('x-own'), 'kept')
  assert.equal(await answer.text(), 'PATCH /base/v1/routes/a%2Fb?x=%20&y=1 hello')
})

test('does not forward identity and forwarding headers of the client', async (t) => {
  const front = await openProxy(t, (_, response) => {
    response.writeHead(200, {
      Connection: 'close, X-Secret-Hop',
      'X-Secret-Hop': '1',
      'Keep-Alive': 'timeout=9',
      'X-End': '1',
    })
    response.end()
  })
  const answer = await sendRaw(
    front.url(),
    [
      'GET /v1/routes HTTP/1.1',
      'Host: front.example',
      'Connection: close, X-Hop, X-Forwarded-For, X-Request-Id',
      'X-Hop: 1',
      'TE: trailers',
      'X-User-Sub: github:1',
      'X-User-Name: root',
      'X-USER-GROUPS: ["**"]',
      'X-User-Sig: s',
      'X-Folder: main',
      'X-Group-Name: main',
      'X-Chat-Token: t',
      'X-Chat-Sig: s',
      'X-Forwarded-For: 10.0.0.1',
      'X-Forwarded-Host: evil',
      'X_User_Sub: github:1',
      'Forwarded: for=10.0.0.1',
      'X-Real-IP: 10.0.0.1',
      'X-Kept: yes',
      'Authorization: Bearer x',
      '',
      '',
    ].join('\r\n'),
  )
  assert.equal(statusOf(answer), 200)
  const { host, 'x-request-id': id, ...headers } = front.requests[0]?.headers ?? {}
  assert.match(host ?? '', /^127\.0\.0\.1:\d+$/)
  assert.match(String(id), /^[0-9a-f-]{36}$/)
  assert.deepEqual(headers, {
    authorization: 'Bearer x',
    connection: 'keep-alive',
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-host': 'front.example',
    'x-forwarded-proto': 'http',
    'x-kept': 'yes',
  })
  assert.match(answer, /\r\nX-End: 1\r\n/)
  assert.doesNotMatch(answer, /X-Secret-Hop|timeout=9/i)
})

test('forwards a body without a length in chunks, for any method', async (t) => {
  const front = await openProxy(t, async (request, response) =>
    response.end(`${request.method} ${await bodyOf(request)}`),
  )
  for (const method of ['POST', 'DELETE', 'GET']) {
    const head = `${method} /v1/routes HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`
    const smuggled = 'GET /v1/secrets HTTP/1.1\r\nHost: a\r\n\r\n'
    const answer = await sendRaw(front.url(), `${head}${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`)
    assert.equal(statusOf(answer), 200)
    assert.ok(answer.includes(`${method} ${smuggled}`))
  }
  assert.deepEqual(
    front.requests.map(({ url }) => url),
    Array(3).fill('/base/v1/routes'),
  )
})

test('a body that is too large is 413 through proxyd too, and does not affect the next request', async (t) => {
  const back = await serveHost(t, { daemons: ['routd'] })
  const front = await serveHost(t, { daemons: ['proxyd'], settings: { ROUTD_URL: back.url('routd') } })
  const bearer = await back.bearer({ sub: 'github:1' })
  const large = Buffer.alloc(3_000_000, 'x')
  for (const declared of [true, false, true, false]) {
    const body = declared ? large : new Blob([large]).stream()
    const headers = { 'Content-Type': 'application/json' }
    const init = { method: 'POST', headers, body, duplex: 'half' } as RequestInit
    assert.equal((await front.ask('/v1/routes', bearer, init)).status, 413)
    assert.equal((await front.ask('/v1/routes', bearer)).status, 200)
  }
})

test('forwards a stream while it is written', async (t) => {
  const { promise: seen, resolve: see } = Promise.withResolvers<void>()
  const front = await openProxy(t, async (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    response.write('data: 1\n\n')
    await seen
    response.end('data: 2\n\n')
  })
  const { body } = await fetch(`${front.url()}/v1/routes`)
  const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
  assert.equal((await reader?.read())?.value, 'data: 1\n\n')
  see()
  assert.equal((await reader?.read())?.value, 'data: 2\n\n')
  assert.equal((await reader?.read())?.done, true)
})

test('a truncated response does not look complete', async (t) => {
  const front = await openProxy(t, (_, response) => {
    response.writeHead(200)
    response.write('half', () => response.destroy())
  })
  const answer = await fetch(`${front.url()}/v1/routes`)
  await assert.rejects(answer.text())
  assert.equal((await fetch(`${front.url()}/health`)).status, 200)
})

test('a client that disconnects aborts the upstream request', async (t) => {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>()
  const { promise: arrived, resolve: arrive } = Promise.withResolvers<void>()
  const front = await openProxy(t, (request) => {
    request.socket.once('close', () => close())
    arrive()
  })
  // By a reset: a client that closes its half may still wait for the response.
  const client = connect(Number(new URL(front.url()).port), '127.0.0.1')
  client.write('GET /v1/routes HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await arrived
  client.resetAndDestroy()
  await closed
})

test('a daemon that cannot be reached or is not configured is 503', async (t) => {
  const front = await serveHost(t, { daemons: ['proxyd'], settings: { ROUTD_URL: 'http://127.0.0.1:1' } })
  for (const [path, reason] of Object.entries({
    '/v1/routes': 'routd cannot be reached (ECONNREFUSED)',
    '/openapi/routd.json': 'routd cannot be reached (ECONNREFUSED)',
    '/v1/sessions': 'authd does not run in this process and AUTHD_URL is not set',
  })) {
    const answer = await fetch(front.url() + path)
    assert.equal(answer.status, 503)
    assert.equal(answer.headers.get('content-type'), 'application/problem+json')
    assert.equal(answer.headers.get('retry-after'), '5')
    assert.equal(JSON.parse(await answer.text()).detail, 'the service is not available at the moment')
    assert.equal(front.logged().at(-1)?.reason, reason)
  }
  const posted = await fetch(`${front.url()}/v1/routes`, { method: 'POST', body: 'x'.repeat(100_000) })
  assert.equal(posted.status, 503)
})

test('no path escapes the base path of the backend', async (t) => {
  const front = await openProxy(t, (request, response) => response.end(request.url))
  for (const path of [
    '//evil.example/v1/routes',
    '/v1/routes/../../x',
    '/v1/routes/%2e%2e/%2e%2e/x',
    '/\\evil/v1/routes',
  ]) {
    const answer = await sendRaw(front.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    assert.ok([400, 404].includes(statusOf(answer)), `${path}: ${answer}`)
  }
  assert.equal(front.requests.length, 0)
  const absolute = await sendRaw(front.url(), 'GET http://a/v1/routes HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  assert.ok(absolute.includes('/base/v1/routes'))
})

test('forwards HEAD as HEAD', async (t) => {
  const front = await openProxy(t, (request, response) => {
    response.setHeader('Content-Length', 1234)
    response.end(request.method === 'HEAD' ? undefined : 'x')
  })
  const answer = await fetch(`${front.url()}/v1/routes`, { method: 'HEAD' })
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('content-length'), '1234')
  assert.equal(front.requests[0]?.method, 'HEAD')
})

test('the URL of a daemon must be HTTP', async (t) => {
  const start = serveHost(t, { daemons: ['proxyd'], settings: { ROUTD_URL: 'ftp://routd' } })
  await assert.rejects(start, /ROUTD_URL must start with http:\/\/ or https:\/\//)
})

test('every daemon is reachable through proxyd whatever rows exist: REST with a bearer, documents by anyone', async (t) => {
  const front = await serveHost(t)
  await front.operator('github:1')
  const bearer = await front.bearer({ sub: 'github:1' })
  await front.cli.call(proxydRoutesResource.verbs.create, { path: '/', redirect_to: '/pub/', auth: 'public' })
  for (const path of ['/v1/groups', '/v1/sessions', '/v1/invites', '/v1/proxyd_routes', '/v1/audit']) {
    assert.equal((await front.ask(path, bearer)).status, 200, path)
    const stranger = await fetch(front.url() + path, { redirect: 'manual', headers: { Accept: 'text/html' } })
    assert.equal(stranger.status, 401, path)
    assert.equal(stranger.headers.get('content-type'), 'application/problem+json')
  }
  assert.equal((await fetch(`${front.url()}/openapi/routd.json`)).status, 200)
})

test('unknown paths of daemons are 404 or 405 with Allow', async (t) => {
  const front = await serveHost(t)
  for (const path of [
    '/v1',
    '/v1/',
    '/v1/none',
    '/openapi',
    '/openapi/',
    '/mcpx',
    '/Chat/x',
    '/V1/groups',
    '/%56%31/groups',
  ])
    assert.equal((await fetch(front.url() + path)).status, 404, path)
  const put = await fetch(`${front.url()}/v1/proxyd_routes`, { method: 'PUT' })
  assert.deepEqual([put.status, put.headers.get('allow')], [405, 'GET, POST'])
  const posted = await fetch(front.url(), { method: 'POST' })
  assert.deepEqual([posted.status, posted.headers.get('allow')], [405, 'GET, HEAD'])
})

test('robots.txt excludes links', async (t) => {
  const { url } = await serveHost(t)
  const text = await (await fetch(`${url()}/robots.txt`)).text()
  assert.equal(text, 'User-agent: *\nDisallow: /chat/\nDisallow: /hook/\nDisallow: /auth/\nDisallow: /invite/\n')
})

test('a browser gets a page at the root and for 404', async (t) => {
  const { url, logged } = await serveHost(t)
  const headers = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }
  const root = await fetch(url(), { headers })
  assert.equal(root.headers.get('content-type'), 'text/html; charset=utf-8')
  assert.match(await root.text(), /<a class="button primary" href="\/auth\/sign-in">Sign in<\/a>/)
  const nothing = await fetch(`${url()}/<b>x`, { headers })
  assert.equal(nothing.status, 404)
  assert.match(nothing.headers.get('content-type') ?? '', /^text\/html/)
  assert.match(await nothing.text(), /There is nothing at this path\./)
  assert.equal(logged().at(-1)?.reason, 'there is nothing at this path')
})

test('the root names the service and its OpenAPI documents', async (t) => {
  const { url } = await serveHost(t)
  const { service, descriptions } = JSON.parse(await (await fetch(url())).text())
  assert.equal(service, 'svc')
  for (const [name, path] of Object.entries(descriptions)) {
    const document = JSON.parse(await (await fetch(`${url()}${path}`)).text())
    assert.equal(document.info.title, `svc ${name} API`)
  }
  assert.equal((await fetch(`${url()}/openapi/nobody.json`)).status, 404)
})
