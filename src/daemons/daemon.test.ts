import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../test/support/host.ts'
import { serveHost } from '../../test/support/served-host.ts'
import { openLog } from '../lib/log/log.ts'
import { refuse } from '../lib/refusal.ts'
import { DurationSetting, setting, sourceOf } from '../lib/settings.ts'
import { resources } from '../resources/index.ts'
import { type DaemonDefinition, defineDaemon, openDaemon, type ProcessContext } from './daemon.ts'
import { openPeers } from './http/peers.ts'
import { daemons } from './index.ts'
import { openMetricsPage } from './process/metrics-page.ts'
import { storeHealthCheck } from './process/store-health.ts'
import { DAEMON_NAMES } from './settings.ts'

const SECURE = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
}

async function open(t: TestContext, what: DaemonDefinition, options: Partial<ProcessContext> = {}) {
  const { host } = await testHost(t)
  const lines: string[] = []
  const opened = await openDaemon(what, {
    host,
    resources,
    sources: [],
    log: await openLog({ to: { write: (line) => lines.push(line) } }),
    peers: openPeers(new Map(), new Map()).peers,
    health: storeHealthCheck(host),
    stopping: new AbortController().signal,
    ...options,
  })
  t.after(() => opened.close())
  return { ...opened, logged: (): Record<string, unknown>[] => lines.map((line) => JSON.parse(line)) }
}

for (const name of DAEMON_NAMES) {
  test(`${name} serves exactly what it describes`, async (t) => {
    const { app } = await open(t, await daemons[name]())
    const { paths }: { paths: Record<string, object> } = JSON.parse(await (await app.request('/openapi.json')).text())
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .filter((method) => method !== 'parameters')
        .map((method) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`),
    )
    // Paths without rows are not resources and not in the document.
    const own =
      /^(GET \/(healthz?|livez|metrics|openapi\.json|openapi\/\w+\.json|v1\/keys|robots\.txt)?|OPTIONS \/v1\/keys|ALL .*)$/
    // Used by daemons and adapters. See docs/decisions.md#routd-resources.
    const machinery = /^(GET|POST) \/(line|v1\/(channels(\/\w+)?|messages|tasks\/(due|runlog|:id\/reschedule)))$/
    // Pages for people, sign-in protocols and their discovery documents.
    const people = /^(GET|POST|OPTIONS) \/(auth|dash|invite|onboard|\.well-known)(\/|$)/
    const mounted = app.routes
      .map(({ method, path }) => `${method} ${path}`)
      .filter((route) => ![own, machinery, people].some((paths) => paths.test(route)))
    assert.deepEqual([...new Set(mounted)].sort(), described.sort())
  })
}

test('routd describes its sixteen paths, and a daemon without resources describes none', async (t) => {
  const count = async (name: 'routd' | 'webd'): Promise<number> => {
    const { app } = await open(t, await daemons[name]())
    const document: { paths: object } = JSON.parse(await (await app.request('/openapi.json')).text())
    return Object.keys(document.paths).length
  }
  assert.equal(await count('routd'), 16)
  assert.equal(await count('webd'), 0)
})

test('the OpenAPI document is public, cacheable and stable', async (t) => {
  const { app } = await open(t, await daemons.routd())
  const first = await app.request('/openapi.json')
  assert.equal(first.headers.get('content-type'), 'application/json')
  assert.equal(first.headers.get('cache-control'), 'public, max-age=300')
  const etag = first.headers.get('etag') ?? ''
  assert.equal(await first.text(), await (await app.request('/openapi.json')).text())
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const again = await app.request('/openapi.json', { headers: { 'If-None-Match': known } })
    assert.equal(again.status, 304)
    assert.equal(again.headers.get('etag'), etag)
    assert.equal(await again.text(), '')
  }
  const other = await app.request('/openapi.json', { headers: { 'If-None-Match': '"other"' } })
  assert.equal(other.status, 200)
})

test('health names the daemon, and is 503 with a reason when the store is unavailable', async (t) => {
  const { app } = await open(t, await daemons.webd())
  assert.deepEqual(await (await app.request('/health')).json(), { status: 'ok', daemon: 'webd' })
  const down = await open(t, await daemons.webd(), { health: async () => refuse('unavailable', 'the store is gone') })
  const answer = await down.app.request('/health')
  assert.equal(answer.status, 503)
  assert.equal(answer.headers.get('retry-after'), '5')
  assert.equal(JSON.parse(await answer.text()).detail, 'the store is gone')
})

test('a daemon that is stopping is not healthy', async (t) => {
  const { app } = await open(t, await daemons.webd(), { stopping: AbortSignal.abort() })
  assert.equal((await app.request('/health')).status, 503)
})

test('metrics count responses, and are absent when disabled', async (t) => {
  const metricsPage = openMetricsPage()
  t.after(() => metricsPage.close())
  const { app } = await open(t, await daemons.webd(), { metricsPage })
  await app.request('/nothing')
  const text = await (await app.request('/metrics')).text()
  assert.match(text, /^http_requests_total\{daemon="webd",method="GET",status="4xx"\} 1$/m)
  const without = await open(t, await daemons.webd())
  assert.equal((await without.app.request('/metrics')).status, 404)
})

const broken = defineDaemon({
  name: 'webd',
  about: 'breaks',
  start: ({ app }) => {
    app.get('/bug', () => {
      throw new Error('select * from secrets')
    })
    app.get('/no', () => refuse('forbidden', 'not you'))
  },
})

test('every response has the security headers', async (t) => {
  const { app } = await open(t, broken)
  for (const [path, status] of Object.entries({ '/health': 200, '/x': 404, '/no': 403, '/bug': 500 })) {
    const { headers, status: is } = await app.request(path)
    assert.equal(is, status)
    for (const [name, value] of Object.entries(SECURE)) assert.equal(headers.get(name), value, `${path} ${name}`)
    assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/)
  }
})

test('an internal error gives the client an incident id and the log the stack', async (t) => {
  const { app, logged } = await open(t, broken)
  const answer = await app.request('/bug')
  const text = await answer.text()
  assert.equal(answer.status, 500)
  assert.doesNotMatch(text, /select|secrets|at |\.ts/)
  const { incident } = JSON.parse(text)
  const [error, line, ...more] = logged()
  assert.equal(error?.incident, incident)
  assert.equal(error?.level, 'error')
  assert.match(JSON.stringify(error?.err), /select \* from secrets.*daemon\.test\.ts/)
  assert.equal(line?.status, 500)
  assert.equal(line?.request, error?.request)
  assert.deepEqual(more, [])
})

test('the log contains the reason of a refusal', async (t) => {
  const { app, logged } = await open(t, broken)
  await app.request('/no?token=secret', { headers: { 'X-Request-Id': 'abc.1' } })
  const { time, ms, ...line } = logged()[0] ?? {}
  assert.deepEqual(line, {
    level: 'info',
    daemon: 'webd',
    method: 'GET',
    path: '/no',
    status: 403,
    request: 'abc.1',
    reason: 'not you',
  })
})

test('a plain request id of the client is kept', async (t) => {
  const { app } = await open(t, await daemons.webd())
  const id = async (given: string) =>
    (await app.request('/health', { headers: { 'X-Request-Id': given } })).headers.get('x-request-id')
  assert.equal(await id('from-the-client_1.2'), 'from-the-client_1.2')
  for (const odd of ['', 'a b', '"', 'x'.repeat(65), '<script>']) assert.notEqual(await id(odd), odd)
})

test('a 405 lists the allowed methods', async (t) => {
  const { app } = await open(t, await daemons.routd())
  const answer = await app.request('/health', { method: 'POST' })
  assert.equal(answer.status, 405)
  assert.equal(answer.headers.get('allow'), 'GET')
  assert.equal((await app.request('/v1/routes', { method: 'PUT' })).status, 405)
  assert.equal((await app.request('/health', { method: 'HEAD' })).status, 200)
})

test('a daemon gets its settings, and closes what it opened in reverse order', async (t) => {
  const closed: string[] = []
  const settings = { TIMED_TICK: setting(DurationSetting, '1s', 'how often') }
  const ticking = defineDaemon({
    name: 'timed',
    about: 'ticks',
    settings,
    start: ({ app, defer }, { TIMED_TICK }) => {
      app.get('/tick', (c) => c.json(TIMED_TICK))
      defer(() => void closed.push('first'))
      defer(() => void closed.push('second'))
    },
  })
  const { app, close } = await open(t, ticking, { sources: [sourceOf('x', new Map([['TIMED_TICK', '5s']]))] })
  assert.equal(await (await app.request('/tick')).json(), 5000)
  await close()
  assert.deepEqual(closed, ['second', 'first'])
})

test('a failed start closes what it opened', async (t) => {
  const closed: string[] = []
  const failing = defineDaemon({
    name: 'timed',
    about: 'fails',
    start: ({ defer }) => {
      defer(() => void closed.push('it'))
      refuse('unavailable', 'no clock')
    },
  })
  await assert.rejects(open(t, failing), /no clock/)
  assert.deepEqual(closed, ['it'])
})

test('a daemon in a process of its own sees the client behind a trusted proxy, and no other forwarded address', async (t) => {
  const remoteOf = async (settings: Record<string, string>): Promise<unknown> => {
    const { url, logged, close } = await serveHost(t, { daemons: ['timed'], settings })
    await fetch(`${url('timed')}/health`, { headers: { 'X-Forwarded-For': '192.0.2.7' } })
    await close()
    return logged().find(({ path }) => path === '/health')?.remote
  }
  assert.equal(await remoteOf({ TRUSTED_PROXIES: '127.0.0.1' }), '192.0.2.7')
  assert.equal(await remoteOf({ TRUSTED_PROXIES: '127.0.0.2' }), '127.0.0.1')
  assert.equal(await remoteOf({}), '127.0.0.1')
})
