// Sessions at paths of rows: sign-in, rights, cookies that backends get, requests of other sites, and rotation.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freshStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { cookiesOf, signIn } from '../../../test/support/sign-in.ts'
import { GRACE_MS, ROTATE_AFTER_MS } from '../../core/people/browser-sessions.ts'
import { sessionTokens } from '../../core/people/sessions.ts'
import { proxydRoutesResource } from '../../resources/proxyd-routes.ts'
import { webRoutesResource } from '../../resources/web-routes.ts'

interface Backend {
  readonly url: string
  readonly requests: IncomingMessage[]
}

async function openBackend(t: TestContext, answer: RequestListener = (_, response) => response.end('ok')) {
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
  return { url: `http://127.0.0.1:${bound !== null && typeof bound === 'object' ? bound.port : 0}`, requests }
}

/** A front door with a backend at /app/ (people), /ops/ (operators) and /open/ (everyone). */
async function openDoor(t: TestContext, answer?: RequestListener): Promise<ServedHost & { readonly backend: Backend }> {
  const backend = await openBackend(t, answer)
  const served = await serveHost(t)
  await served.groups('main', 'team')
  for (const [path, auth] of Object.entries({ '/app/': 'user', '/ops/': 'operator', '/open/': 'public' }))
    await served.cli.call(proxydRoutesResource.verbs.create, { path, auth, backend: backend.url })
  await served.operator('local:root')
  return { ...served, backend }
}

const post = (served: ServedHost, path: string, headers: Record<string, string>) =>
  fetch(served.url() + path, { method: 'POST', redirect: 'manual', headers, body: 'x' })

test('a session opens what a bearer of the same person opens', async (t) => {
  const door = await openDoor(t)
  const [root, ada] = [await signIn(door, 'local:root'), await signIn(door, 'local:ada')]
  assert.equal((await ada.get('/app/x')).status, 200)
  assert.equal((await root.get('/ops/x')).status, 200)
  const refused = await ada.get('/ops/x')
  assert.equal(refused.status, 403)
  assert.match(refused.headers.get('content-type') ?? '', /html/)
  assert.match(await refused.text(), /this path is for operators/i)
  const [first] = door.backend.requests
  assert.equal(first?.headers['x-user-sub'], 'local:ada')
})

test('a browser without a session is sent to the sign-in page and back to its own path', async (t) => {
  const door = await openDoor(t)
  const open = (path: string, init: RequestInit = {}) =>
    fetch(door.url() + path, { redirect: 'manual', headers: { Accept: 'text/html' }, ...init })
  const sent = await open('/app/a%20b?c=d&e=//x')
  assert.equal(sent.status, 303)
  assert.equal(sent.headers.get('location'), `/auth/sign-in?next=${encodeURIComponent('/app/a%20b?c=d&e=//x')}`)
  for (const path of ['/app/', '/ops/', '/priv/team/']) assert.equal((await open(path)).status, 303, path)
  // Other clients, other methods and a bearer that is not valid get an error.
  assert.equal((await open('/app/', { headers: { Accept: '*/*' } })).status, 401)
  assert.equal((await open('/app/', { method: 'POST' })).status, 401)
  assert.equal((await open('/app/', { headers: { Accept: 'text/html', Authorization: 'Bearer a.b.c' } })).status, 401)
  // A foreign Host does not change where people are sent.
  assert.equal(sent.headers.get('location')?.startsWith('/auth/'), true)
  assert.equal(door.backend.requests.length, 0)
})

test('private files and closed web routes open with a session and the right', async (t) => {
  const door = await openDoor(t)
  const { layout } = door.host
  assert.ok(layout)
  for (const [root, text] of [
    [layout.webPriv, 'private'],
    [layout.webPub, 'listed'],
  ] as const) {
    mkdirSync(join(root, 'team'), { recursive: true })
    writeFileSync(join(root, 'team', 'a.txt'), text)
  }
  await door.cli.call(webRoutesResource.verbs.create, { path_prefix: '/members', access: 'auth', folder: 'team' })
  await door.grant('local:ada', 'interact', 'team')
  const [ada, bob] = [await signIn(door, 'local:ada'), await signIn(door, 'local:bob')]
  assert.equal(await (await ada.get('/priv/team/a.txt')).text(), 'private')
  assert.equal((await bob.get('/priv/team/a.txt')).status, 403)
  assert.equal(await (await bob.get('/members/a.txt')).text(), 'listed')
  await door.ungrant('local:ada', 'interact', 'team')
  assert.equal((await ada.get('/priv/team/a.txt')).status, 403)
})

test('a backend gets its own cookies and not the session', async (t) => {
  const door = await openDoor(t)
  const ada = await signIn(door, 'local:ada')
  for (const path of ['/app/', '/open/']) await ada.get(path, { Cookie: `a=1; ${ada.cookie}; b=2` })
  await ada.get('/app/')
  // A second session cookie is planted: it names no session, and is not passed on either.
  await ada.get('/open/', { Cookie: `${ada.cookie}; ${ada.cookie}x` })
  assert.deepEqual(
    door.backend.requests.map(({ headers }) => headers.cookie),
    ['a=1; b=2', 'a=1; b=2', undefined, undefined],
  )
})

test('a backend gets credentials that are meant for it, and never the session', async (t) => {
  const door = await openDoor(t)
  await door.cli.call(proxydRoutesResource.verbs.create, {
    path: '/kept/',
    auth: 'public',
    backend: door.backend.url,
    preserve_headers: ['Authorization', 'Cookie'],
  })
  const ada = await signIn(door, 'local:ada')
  const Authorization = `Bearer ${await door.bearer({ sub: 'local:ada' })}`
  await ada.get('/app/', { Authorization: 'Basic eDp5' })
  await ada.get('/app/', { Authorization })
  await ada.get('/kept/', { Authorization })
  assert.deepEqual(
    door.backend.requests.map(({ headers }) => [headers.authorization, headers.cookie]),
    [
      ['Basic eDp5', undefined],
      [undefined, undefined],
      // The row says so.
      [Authorization, undefined],
    ],
  )
})

test('a backend can set its own cookies and neither replace nor delete the session', async (t) => {
  const door = await openDoor(t, (_, response) => {
    response.setHeader('Set-Cookie', ['own=1; Path=/app', 'svc_session_test=planted', 'svc_session_test=; Max-Age=0'])
    response.end()
  })
  const ada = await signIn(door, 'local:ada')
  assert.deepEqual((await ada.get('/app/')).headers.getSetCookie(), ['own=1; Path=/app'])
  door.clock.advance(ROTATE_AFTER_MS)
  const [own, renewed = ''] = (await ada.get('/app/')).headers.getSetCookie()
  assert.equal(own, 'own=1; Path=/app')
  assert.match(renewed, /^svc_session_test=[\w-]{43}; /)
  assert.equal((await ada.get('/app/', { Cookie: renewed.split(';')[0] ?? '' })).status, 200)
})

test('a page of another site changes nothing with the session of its visitor', async (t) => {
  const door = await openDoor(t)
  const ada = await signIn(door, 'local:ada')
  const as = (headers: Record<string, string>) => post(door, '/app/', { Cookie: ada.cookie, ...headers })
  assert.equal((await as({ Origin: new URL(door.url()).origin })).status, 200)
  assert.equal((await as({ 'Sec-Fetch-Site': 'same-origin' })).status, 200)
  assert.equal((await as({ Origin: 'https://evil.example' })).status, 403)
  assert.equal((await as({ 'Sec-Fetch-Site': 'cross-site' })).status, 403)
  // A program that sends a cookie and no origin is not signed in.
  assert.equal((await as({})).status, 401)
  // At an open path such a request comes from a stranger.
  assert.equal((await post(door, '/open/', { Cookie: ada.cookie, Origin: 'https://evil.example' })).status, 200)
  assert.equal(door.backend.requests.at(-1)?.headers['x-user-sub'], undefined)
  // A bearer is not sent along by browsers.
  const bearer = `Bearer ${await door.bearer({ sub: 'local:ada' })}`
  assert.equal((await post(door, '/app/', { Authorization: bearer, Origin: 'https://evil.example' })).status, 200)
})

test('two credentials of different people are refused, wherever they stand', async (t) => {
  const door = await openDoor(t)
  const ada = await signIn(door, 'local:ada')
  const other = { Authorization: `Bearer ${await door.bearer({ sub: 'local:root' })}` }
  const own = { Authorization: `Bearer ${await door.bearer({ sub: 'local:ada' })}` }
  for (const path of ['/app/', '/v1/sessions']) {
    assert.equal((await ada.get(path, { ...other, Accept: '*/*' })).status, 401, path)
    assert.equal((await ada.get(path, own)).status, 200, path)
  }
  assert.equal(
    (await post(door, '/app/', { Cookie: ada.cookie, ...other, Origin: 'https://evil.example' })).status,
    401,
  )
})

test('ambiguous paths are nothing to a session either', async (t) => {
  const door = await openDoor(t)
  const root = await signIn(door, 'local:root')
  for (const path of ['/ops//', '/ops/./', '/app/%2e%2e/ops/', '/ops%2fx', '/OPS/', '/:id', '/*', '/%3Aid']) {
    const head = `GET ${path} HTTP/1.1\r\nHost: x\r\nCookie: ${root.cookie}\r\nConnection: close\r\n\r\n`
    assert.equal(statusOf(await sendRaw(door.url(), head)), 404, path)
  }
  assert.equal(door.backend.requests.length, 0)
})

test('an ended session is sent to sign in again, and no answer touches its cookie', async (t) => {
  const door = await openDoor(t)
  const ada = await signIn(door, 'local:ada')
  await ada.post('/auth/sign-out')
  const sent = await ada.get('/app/')
  assert.deepEqual([sent.status, sent.headers.getSetCookie()], [303, []])
})

onEveryEngine('a rotation with two processes', (engine) => {
  test('keeps 100 parallel requests signed in and hands out one successor', async (t) => {
    const store = await freshStore(t, engine)
    const backend = await openBackend(t)
    const [one, two] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    const first = await serveHost(t, { on: one })
    const second = await serveHost(t, { on: two })
    await first.groups('main')
    await first.cli.call(proxydRoutesResource.verbs.create, { path: '/app/', auth: 'user', backend: backend.url })
    const ada = await signIn(first, 'local:ada')
    const tokens = async () => (await one.host.engine.read((tx) => sessionTokens.list(tx))).length
    let { cookie } = ada
    for (let rotation = 1; rotation <= 3; rotation++) {
      for (const { clock } of [one, two]) clock.advance(ROTATE_AFTER_MS)
      const answers = await Promise.all(
        Array.from({ length: 100 }, (_, at) => {
          const path = at % 4 < 2 ? '/app/' : '/auth/me'
          const headers = { Cookie: cookie, Accept: 'text/html' }
          return fetch((at % 2 ? first : second).url() + path, { redirect: 'manual', headers })
        }),
      )
      assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
      const successors = new Set(answers.map(cookiesOf))
      successors.delete('')
      const [next = ''] = successors
      assert.equal(successors.size, 1)
      assert.notEqual(next, cookie)
      // A response that was lost: the old cookie still gets the same successor.
      assert.equal(cookiesOf(await ada.get('/app/', { Cookie: cookie })), next)
      assert.ok((await tokens()) <= 3)
      cookie = next
      // The first use of the successor; it is not replaced before its predecessor has ended.
      assert.equal((await ada.get('/app/', { Cookie: cookie })).status, 200)
    }
    // The replaced token ends a minute after the first use of its successor.
    for (const { clock } of [one, two]) clock.advance(GRACE_MS)
    assert.equal((await ada.get('/app/', { Cookie: cookie })).status, 200)
    assert.equal((await ada.get('/app/')).status, 303)
  })
})
