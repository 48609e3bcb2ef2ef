import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { decodeJwt, SignJWT, UnsecuredJWT } from 'jose'
import { isRefusal, testHost } from '../../test/support/host.ts'
import { sendRaw, serveHost, statusOf } from '../../test/support/served-host.ts'
import { issueBearer } from '../core/access/bearers.ts'
import { aclResource } from '../resources/acl.ts'
import { DAEMON_NAMES } from './settings.ts'

test('every daemon listens, in order, before ready is printed', async (t) => {
  const { printed } = await serveHost(t)
  assert.deepEqual(
    printed.map((line) => line.replace(/:\d+$/, '')),
    [...DAEMON_NAMES.map((name) => `${name} http://127.0.0.1`), 'ready'],
  )
})

for (const name of DAEMON_NAMES) {
  test(`${name} answers /health, /openapi.json and /metrics`, async (t) => {
    const { url, ask, bearer, operator } = await serveHost(t, { daemons: [name] })
    assert.deepEqual(JSON.parse(await (await fetch(`${url(name)}/health`)).text()), { status: 'ok', daemon: name })
    const document = JSON.parse(await (await fetch(`${url(name)}/openapi.json`)).text())
    assert.equal(document.info.title, `svc ${name} API`)
    await operator('github:1')
    // The listener of proxyd is public.
    const metrics =
      name === 'proxyd' ? ask('/metrics', await bearer({ sub: 'github:1' })) : fetch(`${url(name)}/metrics`)
    assert.match(await (await metrics).text(), new RegExp(`daemon="${name}"`))
    assert.equal((await fetch(`${url(name)}/nothing`)).status, 404)
  })
}

test('the metrics of proxyd are only for operators', async (t) => {
  const front = await serveHost(t, { daemons: ['proxyd', 'routd'] })
  await front.operator('github:9')
  const statusFor = async (authorization?: string) =>
    (await fetch(`${front.url()}/metrics`, authorization ? { headers: { Authorization: authorization } } : {})).status
  const bearer = async (request: Parameters<typeof front.bearer>[0]) => `Bearer ${await front.bearer(request)}`
  assert.equal(await statusFor(), 401)
  assert.equal(await statusFor('Basic dTpw'), 401)
  assert.equal(await statusFor(await bearer({ sub: 'github:1' })), 403)
  assert.equal(await statusFor(await bearer({ sub: 'service:routd', kind: 'service' })), 403)
  assert.equal(await statusFor(await bearer({ sub: 'github:9' })), 200)
  assert.equal((await fetch(`${front.url('routd')}/metrics`)).status, 200)
  // Other spellings are not found.
  for (const path of ['/metrics/', '//metrics', '/%6detrics', '/v1/../metrics'])
    assert.doesNotMatch(await (await fetch(front.url() + path)).text(), /daemon="/, path)
})

test('runs only the named daemons, once each', async (t) => {
  const { printed } = await serveHost(t, { daemons: ['timed', 'webd', 'timed'] })
  assert.deepEqual(
    printed.map((line) => line.split(' ')[0]),
    ['webd', 'timed', 'ready'],
  )
})

test('an unknown daemon is refused with a suggestion', async (t) => {
  const of = (...daemons: string[]) => serveHost(t, { daemons })
  await assert.rejects(of('webd', 'rotud'), isRefusal('invalid', 'unknown daemon "rotud"; did you mean routd?'))
  await assert.rejects(of('__proto__'), isRefusal('invalid', 'unknown daemon "__proto__"'))
})

test('a port in use stops the start with the name of the daemon, and leaves no listener', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.after(() => taken.close())
  const bound = taken.address()
  const port = bound !== null && typeof bound === 'object' ? bound.port : 0
  const before = process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length
  const start = serveHost(t, { settings: { GATED_LISTEN: `127.0.0.1:${port}` } })
  await assert.rejects(start, isRefusal('unavailable', `gated cannot listen on 127.0.0.1:${port}: the port is in use`))
  await assert.rejects(start, ({ hint }) => hint === 'set GATED_LISTEN to another address')
  await setImmediate()
  const after = process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length
  assert.equal(after, before)
})

test('two daemons cannot have one address', async (t) => {
  const { url, close } = await serveHost(t, { daemons: ['proxyd'] })
  await close()
  const address = new URL(url()).host
  const start = serveHost(t, { settings: { ROUTD_LISTEN: address, WEBD_LISTEN: address } })
  await assert.rejects(start, isRefusal('unavailable', /(routd|webd) cannot listen on .*: the port is in use/))
})

test('an invalid setting stops the start with its name', async (t) => {
  await assert.rejects(serveHost(t, { settings: { WEB_LISTEN: 'here' } }), isRefusal('invalid', 'WEB_LISTEN'))
  await assert.rejects(serveHost(t, { settings: { ROUTD_URL: 'routd' } }), isRefusal('invalid', 'ROUTD_URL'))
  const adapters = serveHost(t, { daemons: ['routd'], settings: { ADAPTER_HOST: 'routd:80' } })
  await assert.rejects(adapters, isRefusal('invalid', 'ADAPTER_HOST'))
})

test('closes the store once, also when closed twice', async (t) => {
  const { close, host, url } = await serveHost(t)
  await Promise.all([close(), close()])
  await close()
  await assert.rejects(host.engine.transaction(async () => {}))
  await assert.rejects(fetch(url()))
})

test('stopping aborts searches at once, before it waits for requests', async (t) => {
  const on = await testHost(t)
  const ended = Promise.withResolvers<void>()
  const search = { search: async () => [], follow: () => {}, close: async () => ended.resolve() }
  const { url, close } = await serveHost(t, { on: { ...on, host: { ...on.host, search } } })
  const { hostname, port } = new URL(url())
  const socket = connect(Number(port), hostname)
  t.after(() => socket.destroy())
  socket.write('POST /v1/groups HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n')
  await once(socket, 'data')
  socket.on('error', () => {})
  const closed = close()
  const first = await Promise.race([closed.then(() => 'closed'), ended.promise.then(() => 'ended')])
  assert.equal(first, 'ended')
  socket.destroy()
  await closed
})

test('REST works through proxyd, with one log line that names the caller', async (t) => {
  const here = await serveHost(t)
  await here.groups('main', 'team')
  await here.operator('github:1')
  const bearer = await here.bearer({ sub: 'github:1' })
  const made = await here.ask('/v1/routes', bearer, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Request-Id': 'mine' },
    body: JSON.stringify({ seq: 1, match: 'room=x', target: 'team' }),
  })
  assert.equal(made.status, 201, await made.clone().text())
  assert.equal(made.headers.get('x-request-id'), 'mine')
  const lines = here.logged().filter(({ path }) => path === '/v1/routes')
  assert.equal(lines.length, 1)
  const { time, ms, level, ...line } = lines[0] ?? {}
  assert.deepEqual(line, {
    daemon: 'routd',
    method: 'POST',
    path: '/v1/routes',
    status: 201,
    request: 'mine',
    caller: 'github:1',
    remote: '127.0.0.1',
  })
  const { audit } = JSON.parse(await (await here.ask('/v1/audit?limit=1', bearer)).text())
  assert.equal(audit[0].request_id, 'mine')
  assert.equal(audit[0].source_ip, '127.0.0.1')
  assert.equal(audit[0].actor, 'github:1')
  assert.equal((await here.ask('/v1/nothing', bearer)).status, 404)
})

test('REST works through proxyd to another process', async (t) => {
  const back = await serveHost(t, { daemons: ['routd', 'authd'] })
  const front = await serveHost(t, {
    on: await testHost(t),
    daemons: ['proxyd'],
    settings: { ROUTD_URL: back.url('routd'), AUTHD_URL: back.url('authd') },
  })
  await back.groups('main', 'team')
  await back.operator('github:1')
  const bearer = await back.bearer({ sub: 'github:1' })
  const made = await front.ask('/v1/routes', bearer, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ seq: 1, match: 'room=x', target: 'team' }),
  })
  assert.equal(made.status, 201, await made.clone().text())
  const { routes } = JSON.parse(await (await front.ask('/v1/routes', bearer)).text())
  assert.equal(routes.at(-1).match, 'room=x')
  assert.equal((await front.ask('/v1/routes', 'a.b.c')).status, 401)
  assert.equal((await front.ask('/v1/invites', bearer)).status, 503)
  assert.match(await (await fetch(`${front.url()}/v1/keys`)).text(), /"kty":"EC"/)
  assert.match(await (await fetch(`${front.url()}/openapi/routd.json`)).text(), /svc routd API/)
  const [passed, answered] = [front.logged()[0], back.logged()[0]]
  assert.equal(passed?.daemon, 'proxyd')
  assert.equal(passed?.request, answered?.request)
})

test('only the bearer identifies the caller', async (t) => {
  const here = await serveHost(t)
  await here.operator('github:1')
  const [good, stranger] = [await here.bearer({ sub: 'github:1' }), await here.bearer({ sub: 'github:2' })]
  // With public material: the public keys and the bearer of another instance.
  const [key] = JSON.parse(await (await fetch(`${here.url()}/v1/keys`)).text()).keys
  const claims = decodeJwt(good)
  const hashed = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: key.kid }).sign(Buffer.from(key.x))
  const foreign = await issueBearer({ ...here.host, instance: 'other' }, { sub: 'github:1' })
  const [, body, signature] = good.split('.')
  const otherKey = Buffer.from('{"alg":"ES256","kid":"other"}').toString('base64url')
  const asking = (...headers: string[]): Promise<string> =>
    sendRaw(
      here.url(),
      ['GET /v1/signing_keys HTTP/1.1', 'Host: a', 'Connection: close', ...headers, '', ''].join('\r\n'),
    )
  const MATRIX: Record<string, readonly [status: number, ...headers: string[]]> = {
    'a bearer': [200, `Authorization: Bearer ${good}`],
    'a scheme in lower case': [200, `authorization: bearer ${good}`],
    'a stranger': [403, `Authorization: Bearer ${stranger}`],
    'a client without a bearer that sends identity headers': [
      403,
      `Authorization: Bearer ${stranger}`,
      'X-User-Sub: github:1',
      'X-Folder: main',
    ],
    nothing: [401],
    'an empty header': [401, 'Authorization:'],
    'a bearer without scheme': [401, `Authorization: ${good}`],
    'another scheme': [401, `Authorization: Basic ${good}`],
    'a scheme without bearer': [401, 'Authorization: Bearer'],
    'two bearers in one header': [401, `Authorization: Bearer ${good}, Bearer ${good}`],
    'two headers': [401, `Authorization: Bearer ${good}`, `Authorization: Bearer ${stranger}`],
    'two equal headers': [401, `Authorization: Bearer ${good}`, `Authorization: Bearer ${good}`],
    'a bearer in quotes': [401, `Authorization: Bearer "${good}"`],
    'an unsigned one': [401, `Authorization: Bearer ${new UnsecuredJWT(claims).encode()}x`],
    'one signed with the public key': [401, `Authorization: Bearer ${hashed}`],
    'one of another instance': [401, `Authorization: Bearer ${foreign}`],
    'one of an unknown key': [401, `Authorization: Bearer ${otherKey}.${body}.${signature}`],
    'a cookie': [401, `Cookie: bearer=${good}`],
  }
  for (const [what, [status, ...headers]] of Object.entries(MATRIX)) {
    const answer = await asking(...headers)
    assert.equal(statusOf(answer), status, `${what}: ${answer}`)
    if (status === 401) assert.match(answer, /\r\nwww-authenticate: Bearer\r\n/i, what)
  }
  const inQuery = await fetch(`${here.url()}/v1/signing_keys?access_token=${good}`)
  assert.equal(inQuery.status, 401)
  here.clock.advance(3_600_000 + 31_000)
  assert.equal(statusOf(await asking(`Authorization: Bearer ${good}`)), 401)
  assert.equal(JSON.stringify(here.logged()).includes(good), false)
})

test('a revoked grant has no effect from the next request on', async (t) => {
  const here = await serveHost(t)
  await here.groups('main', 'team')
  await here.grant('github:7', 'admin', 'team')
  const bearer = await here.bearer({ sub: 'github:7', folder: 'team' })
  const mint = async (): Promise<number> => (await here.ask('/v1/route_tokens/chat', bearer, { method: 'POST' })).status
  assert.equal(await mint(), 201)
  await here.cli.call(aclResource.verbs.ungrant, {
    principal: 'github:7',
    action: 'admin',
    scope: 'team',
    effect: 'allow',
  })
  assert.equal(await mint(), 403)
})

test('a service is not an operator, even with the name of one', async (t) => {
  const here = await serveHost(t)
  const bearer = await here.bearer({ sub: 'service:proxyd', kind: 'service' })
  assert.equal((await here.ask('/v1/signing_keys', bearer)).status, 403)
})

test('raw tokens and bearers are never logged', async (t) => {
  const here = await serveHost(t)
  await here.groups('main')
  await here.operator('github:1')
  const bearer = await here.bearer({ sub: 'github:1' })
  const minted = await here.ask('/v1/route_tokens/chat', bearer, { method: 'POST' })
  const { token } = JSON.parse(await minted.text())
  const paths = [`/chat/${token}/`, `/chat/${token}/mcp`, `/hook/${token}`, `/invite/${token}`, `/v1/invites/${token}`]
  for (const path of [...paths, `/x?t=${token}`, `/v1/routes?after=${token}`, `/%63hat/${token}`]) {
    await here.ask(path, bearer)
    await here.ask(path, bearer, { method: 'DELETE' })
    await here.ask(path, `${bearer}x`, { headers: { Referer: `http://x/chat/${token}` } })
  }
  const log = JSON.stringify(here.logged())
  assert.ok(here.logged().length >= 24)
  assert.equal(log.includes(token), false)
  assert.equal(log.includes(bearer.slice(0, 40)), false)
})
