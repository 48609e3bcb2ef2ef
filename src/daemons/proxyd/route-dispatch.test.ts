// Backends and redirects of rows, and their authorization.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { aclMembershipResource } from '../../resources/acl-membership.ts'
import { identitiesResource } from '../../resources/identities.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { webRoutesResource } from '../../resources/web-routes.ts'

interface ProxyWithBackend extends ServedHost {
  /** URL of the test backend. */
  readonly backend: string
  /** Requests to it. */
  readonly requests: IncomingMessage[]
  route(row: object): Promise<unknown>
  get(path: string, headers?: Record<string, string>): Promise<Response>
}

async function openProxy(
  t: TestContext,
  settings: Record<string, string> = {},
  answer: RequestListener = (request, response) => response.end(request.url),
): Promise<ProxyWithBackend> {
  const requests: IncomingMessage[] = []
  const server = createServer((request, response) => {
    requests.push(request)
    answer(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const bound = server.address()
  const backend = `http://127.0.0.1:${bound !== null && typeof bound === 'object' ? bound.port : 0}`
  const front = await serveHost(t, { daemons: ['proxyd'], settings })
  await front.groups('main', 'team')
  return {
    ...front,
    backend,
    requests,
    route: (row) => front.cli.call(proxydRoutesResource.verbs.create, { auth: 'public', backend, ...row }),
    get: (path, headers = {}) => fetch(front.url() + path, { headers, redirect: 'manual' }),
  }
}

const as = (bearer: string) => ({ Authorization: `Bearer ${bearer}` })

test('a backend gets the whole path, or the part after the prefix', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/' })
  await front.route({ path: '/cut/', strip_prefix: true, backend: `${front.backend}/base/` })
  await front.route({ path: '/exactly', strip_prefix: true })
  const got = async (path: string) => (await front.get(path)).text()
  assert.equal(await got('/app/a%20b/?x=%2F..'), '/app/a%20b/?x=%2F..')
  assert.equal(await got('/cut/a/b?c'), '/base/a/b?c')
  assert.equal(await got('/exactly?x'), '/?x')
  assert.equal((await front.get('/app')).status, 404)
  assert.equal((await front.get('/exactly/')).status, 404)
  const line = front.logged().findLast(({ path }) => path === '/exactly')
  assert.deepEqual([line?.status, line?.method], [200, 'GET'])
})

test('forwards bodies both ways for any method', async (t) => {
  const front = await openProxy(t, {}, (request, response) => {
    response.writeHead(201, { 'Content-Type': 'text/plain', 'X-Method': request.method ?? '' })
    request.pipe(response)
  })
  await front.route({ path: '/app/' })
  const body = Buffer.alloc(300_000, 'x')
  const answer = await fetch(`${front.url()}/app/`, { method: 'PUT', body })
  assert.deepEqual([answer.status, answer.headers.get('x-method')], [201, 'PUT'])
  assert.equal((await answer.arrayBuffer()).byteLength, body.length)
})

test('a backend gets our identity headers and not those of the client', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/', auth: 'user', preserve_headers: ['X-Forwarded-Port', 'X-Kept'] })
  await front.cli.call(identitiesResource.verbs.link, { sub: 'github:1', name: 'Jörg B.' })
  const bearer = await front.bearer({ sub: 'github:1' })
  const forged = {
    'X-User-Sub': 'github:9',
    X_User_Sub: 'github:9',
    'X-User-Groups': '["**"]',
    'X-Folder': 'main',
    'X-Forwarded-For': '8.8.8.8',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Port': '444',
    Forwarded: 'for=8.8.8.8',
    'X-Real-IP': '8.8.8.8',
    'X-Kept': 'yes',
    Cookie: 'a=b',
  }
  await front.get('/app/', { ...forged, ...as(bearer) })
  const headers = front.requests[0]?.headers ?? {}
  assert.equal(headers['x-user-sub'], 'github:1')
  assert.equal(headers['x-user-name'], 'J%C3%B6rg B.')
  assert.equal(headers['x-forwarded-for'], '127.0.0.1')
  assert.equal(headers['x-forwarded-proto'], 'http')
  assert.equal(headers['x-forwarded-host'], new URL(front.url()).host)
  assert.equal(headers['x-forwarded-port'], '444')
  assert.equal(headers['x-kept'], 'yes')
  assert.equal(headers.cookie, 'a=b')
  assert.match(headers.host ?? '', /^127\.0\.0\.1:\d+$/)
  for (const name of ['x_user_sub', 'x-user-groups', 'x-folder', 'forwarded', 'x-real-ip'])
    assert.equal(headers[name], undefined, name)
  // A bearer of this instance is valid for more than this backend.
  assert.equal(headers.authorization, undefined)
})

test('a bearer of this instance reaches a backend only if its row says so, other credentials always', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/open/' })
  await front.route({ path: '/told/', preserve_headers: ['Authorization'] })
  const bearer = as(await front.bearer({ sub: 'github:1' }))
  await front.get('/open/', bearer)
  await front.get('/told/', bearer)
  await front.get('/open/', { Authorization: 'Basic eDp5' })
  await front.get('/open/', { Authorization: 'Bearer a.b.c' })
  assert.deepEqual(
    front.requests.map(({ headers }) => [headers.authorization, headers['x-user-sub']]),
    [
      [undefined, 'github:1'],
      [bearer.Authorization, 'github:1'],
      ['Basic eDp5', undefined],
      ['Bearer a.b.c', undefined],
    ],
  )
})

test('enforces auth: public, signed-in people, operators; a service is not a person', async (t) => {
  const front = await openProxy(t)
  for (const auth of ['public', 'user', 'operator']) await front.route({ path: `/${auth}/`, auth })
  await front.operator('github:9')
  await front.grant('github:1', 'admin', 'team/**')
  await front.grant('service:routd', '*', '**')
  const visitors = {
    stranger: {},
    forger: { Authorization: 'Bearer a.b.c' },
    person: as(await front.bearer({ sub: 'github:1' })),
    operator: as(await front.bearer({ sub: 'github:9' })),
    service: as(await front.bearer({ sub: 'service:routd', kind: 'service' })),
  }
  const statuses: Record<string, number[]> = {}
  for (const [who, headers] of Object.entries(visitors)) {
    const answers = await Promise.all(['public', 'user', 'operator'].map((auth) => front.get(`/${auth}/`, headers)))
    statuses[who] = answers.map(({ status }) => status)
    for (const { status, headers: said } of answers) {
      if (status === 200) continue
      assert.equal(said.get('content-type'), 'application/problem+json')
      assert.equal(said.get('location'), null)
      assert.equal(said.get('www-authenticate'), status === 401 ? 'Bearer' : null)
    }
  }
  assert.deepEqual(statuses, {
    stranger: [200, 401, 401],
    forger: [200, 401, 401],
    person: [200, 200, 403],
    operator: [200, 200, 200],
    service: [200, 403, 403],
  })
  // The policy is read at every request.
  await front.cli.call(aclMembershipResource.verbs.remove, { subject: 'github:9', role: 'role:operator' })
  assert.equal((await front.get('/operator/', visitors.operator)).status, 403)
})

test('a program that is not signed in gets a problem document, a browser that posts an error page', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/', auth: 'user' })
  const program = await front.get('/app/', { Accept: 'application/json' })
  assert.deepEqual([program.status, JSON.parse(await program.text()).code], [401, 'unauthenticated'])
  const headers = { Accept: 'text/html,*/*;q=0.8' }
  const browser = await fetch(`${front.url()}/app/`, { method: 'POST', headers, redirect: 'manual' })
  assert.equal(browser.status, 401)
  assert.match(browser.headers.get('content-type') ?? '', /^text\/html/)
  assert.match(await browser.text(), /signed in/)
})

test('no row can take a path of a daemon, however it got into the store', async (t) => {
  const front = await openProxy(t)
  await front.host.engine.transaction(async (tx) => {
    for (const path of ['/', '/chat/', '/hook/', '/v1/', '/v1/groups', '/mcp', '/openapi/', '/health', '/metrics'])
      await proxydRoutesResource.table.insert(tx, { path, backend: front.backend, auth: 'public' })
  })
  for (const path of [
    '/chat/x/',
    '/hook/x',
    '/v1/groups',
    '/v1/none',
    '/mcp',
    '/openapi/none.json',
    '/health',
    '/metrics',
  ])
    await (await front.get(path)).arrayBuffer()
  assert.deepEqual(front.requests, [])
  assert.equal(await (await front.get('/anything')).text(), '/anything')
})

test('ambiguous paths reach no backend', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/' })
  await front.route({ path: '/admin/', auth: 'operator' })
  for (const path of [
    '/x/../admin/',
    '/x/%2e%2e/admin/',
    '/x/..%2fadmin/',
    '/x%2f..%2fadmin/',
    '//admin/',
    '/./admin/',
    '/x\\..\\admin/',
    '/x%5c..%5cadmin/',
    '/admin%2f',
    '/x%00',
    '/x/.%2e/admin',
  ]) {
    const answer = await sendRaw(front.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`)
    assert.equal(statusOf(answer), 404, path)
    assert.match(answer, /application\/problem\+json/)
  }
  assert.deepEqual(front.requests, [])
  assert.equal(front.logged().filter(({ status }) => status === 404).length, 11)
})

test('a spelling with escaped letters is authorized and forwarded as the plain one', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/' })
  await front.route({ path: '/app/admin/', auth: 'operator' })
  for (const path of ['/app/%61dmin/x', '/%61pp/admin/x', '/app/%61%64%6D%69%6e/x'])
    assert.equal((await front.get(path)).status, 401, path)
  // Some backends drop what follows a semicolon.
  for (const path of ['/app/admin;x/y', '/app/admin%3bx/y', '/app/.;/admin/y', '/app/;/admin/y', '/app/x/..;/admin/y'])
    assert.equal((await front.get(path)).status, 404, path)
  assert.deepEqual(front.requests, [])
  assert.equal(await (await front.get('/app/a;v=1/b')).text(), '/app/a;v=1/b')
  assert.equal(await (await front.get('/%61pp/%78/%7e?%61')).text(), '/app/x/~?%61')
  // The paths of daemons have one spelling, too.
  const health = await front.get('/%68ealth')
  assert.deepEqual([health.status, (await front.get('/%76%31/proxyd_routes')).status], [200, 401])
  assert.equal((await front.get('/HEALTH')).status, 404)
})

test('a backend gets encoded separators only if its row says so', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/' })
  await front.route({ path: '/git/', escapes: 'keep' })
  await front.route({ path: '/git/admin/', auth: 'operator', escapes: 'keep' })
  const statusAt = async (path: string) =>
    statusOf(await sendRaw(front.url(), `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`))
  for (const path of ['/app/a%2fb', '/app/a%5Cb', '/app/a%00', '/app//a']) assert.equal(await statusAt(path), 404, path)
  assert.equal(await (await front.get('/git/a%2fb/c%5cd/%00')).text(), '/git/a%2Fb/c%5Cd/%00')
  // As its backend may read them, these are other paths.
  for (const path of [
    '/git/admin%2Fx',
    '/git%2fadmin/x',
    '/git/x%2F..%2Fadmin',
    '/git/a%2F%2Fb',
    '/git//a',
    '/git/a%2F',
  ])
    assert.equal(await statusAt(path), path === '/git/a%2F' ? 200 : 404, path)
  assert.equal(await statusAt('/git/admin/a%2Fb'), 401)
})

test('a redirect keeps the rest of the path and the query, and cannot change the host', async (t) => {
  const front = await openProxy(t)
  await front.cli.call(webRoutesResource.verbs.create, {
    path_prefix: '/go',
    access: 'redirect',
    redirect_to: '/pub/team/',
    folder: 'team',
  })
  await front.route({ path: '/old/', backend: undefined, redirect_to: 'https://new.example/x/' })
  await front.route({ path: '/mine/', backend: undefined, redirect_to: '/pub/', auth: 'user' })
  const at = async (path: string) => {
    const { status, headers } = await front.get(path)
    return `${status} ${headers.get('location')}`
  }
  assert.equal(await at('/go'), '307 /pub/team/')
  assert.equal(await at('/go/a/b?c=d&e'), '307 /pub/team/a/b?c=d&e')
  assert.equal(await at('/old/a?b'), '307 https://new.example/x/a?b')
  assert.equal(await at('/go//evil.example'), '404 null')
  assert.equal(await at('/mine/x'), '401 null')
})

test('a denied path is 403 for everyone', async (t) => {
  const front = await openProxy(t)
  const row = { path_prefix: '/pub/team/x', access: 'deny', folder: 'team' }
  await front.cli.call(webRoutesResource.verbs.create, row)
  await front.operator('github:9')
  const boss = as(await front.bearer({ sub: 'github:9' }))
  for (const path of ['/pub/team/x', '/pub/team/x/', '/pub/team/x/y'])
    assert.equal((await front.get(path, boss)).status, 403, path)
})

test('a row with gated_by is active when the setting has a value', async (t) => {
  // ELSEWHERE_KEY is set in another container.
  const front = await openProxy(t, { SLACK_KEY: 'x', EMPTY_KEY: '', SETTINGS_SET: 'TZ,ELSEWHERE_KEY' })
  const keys = ['SLACK_KEY', 'EMPTY_KEY', 'OTHER_KEY', 'ELSEWHERE_KEY']
  for (const gated_by of keys) await front.route({ path: `/${gated_by}/`, gated_by })
  const statuses = await Promise.all(keys.map((key) => front.get(`/${key}/`)))
  assert.deepEqual(
    statuses.map(({ status }) => status),
    [200, 404, 404, 200],
  )
})

test('a change of the rows takes effect with the next request, in every process', async (t) => {
  const front = await openProxy(t)
  assert.equal((await front.get('/app/')).status, 404)
  const other = await serveHost(t, { on: front, daemons: ['proxyd'] })
  await front.operator('github:9')
  const bearer = await front.bearer({ sub: 'github:9' })
  const made = await other.ask('/v1/proxyd_routes', bearer, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ path: '/app/', backend: front.backend, auth: 'public' }),
  })
  assert.equal(made.status, 201)
  assert.equal((await front.get('/app/')).status, 200)
  assert.equal(
    (await other.ask(`/v1/proxyd_routes/${encodeURIComponent('/app/')}`, bearer, { method: 'DELETE' })).status,
    204,
  )
  assert.equal((await front.get('/app/')).status, 404)
})

test('an unreachable backend is 503 without its address', async (t) => {
  const front = await openProxy(t)
  await front.route({ path: '/app/', backend: 'http://127.0.0.1:1/secret' })
  const answer = await front.get('/app/')
  assert.equal(answer.status, 503)
  assert.equal(JSON.parse(await answer.text()).detail, 'the service is not available at the moment')
  const page = await (await front.get('/app/', { Accept: 'text/html' })).text()
  assert.match(page, /the service is not available at the moment/i)
  // A signed-in person sees the path of the backend.
  const known = await front.get('/app/', as(await front.bearer({ sub: 'github:1' })))
  assert.equal(JSON.parse(await known.text()).detail, 'the backend of /app/ cannot be reached (ECONNREFUSED)')
})

test('behind a trusted proxy the client address is the forwarded one', async (t) => {
  const front = await openProxy(t, { TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8' })
  await front.route({ path: '/app/' })
  const said = { 'X-Forwarded-For': '6.6.6.6, 198.51.100.7, 10.0.0.2', 'X-Forwarded-Proto': 'https' }
  await front.get('/app/', said)
  const headers = front.requests[0]?.headers
  assert.equal(headers?.['x-forwarded-for'], '198.51.100.7')
  assert.equal(headers?.['x-forwarded-proto'], 'https')
  assert.equal(front.logged().at(-1)?.remote, '198.51.100.7')
  await front.get('/none', said)
  assert.equal(front.logged().at(-1)?.remote, '198.51.100.7')
})

test('an invalid TRUSTED_PROXIES stops the start', async (t) => {
  const start = serveHost(t, { daemons: ['proxyd'], settings: { TRUSTED_PROXIES: 'localhost' } })
  await assert.rejects(
    start,
    /TRUSTED_PROXIES in the test must be a comma-separated list of addresses .*, not "localhost"/,
  )
})
