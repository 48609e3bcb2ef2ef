import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { freshStore, testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { runs } from '../../../test/support/part.ts'
import { type ServedHost, sendRaw, serveHost, statusOf } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { LINE_SERVICE, lineAudience, METRICS_SERVICE } from '../../core/access/bearers.ts'
import { WORK_KINDS, type WorkKind } from '../../lib/commit-signals.ts'
import { resources } from '../../resources/index.ts'
import { KEYS_MAX } from '../process/runner-process.ts'
import { DAEMON_NAMES, type DaemonName } from '../settings.ts'
import { LINE_MESSAGE_MAX, LINES_MAX, parseLineMessage } from './line-routes.ts'

const WITH_LINE: readonly DaemonName[] = ['webd', 'routd', 'dashd']
const lineBearer = ({ host, bearer }: ServedHost, ttlMs = 60_000): Promise<string> =>
  bearer({ sub: LINE_SERVICE, kind: 'service', audience: lineAudience(host), ttlMs })

async function request(url: string, bearer: string | undefined, init: RequestInit = {}): Promise<Response> {
  return fetch(url, { ...init, headers: bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` } })
}

interface OpenLine {
  readonly lines: readonly string[]
  isEnded: boolean
}

async function openLine(url: string, bearer: string, work = 'turns'): Promise<OpenLine> {
  const response = await request(`${url}/line?work=${work}`, bearer)
  assert.equal(response.status, 200)
  const lines: string[] = []
  const line: OpenLine = { lines, isEnded: false }
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) lines.push(...decoder.decode(chunk).split('\n').filter(Boolean))
  }
  read()
    .catch(() => undefined)
    .finally(() => {
      line.isEnded = true
    })
  return line
}

test('a line tells of commits with work that its process does, and of no chat', async (t) => {
  const here = await serveHost(t, { daemons: ['webd'] })
  const line = await openLine(here.url('webd'), await lineBearer(here))
  here.host.signals.emit(['web:secret'], ['arrivals'])
  here.host.signals.emit(['web:secret'], ['turns', 'outbox'])
  await until(() => line.lines.length > 0)
  assert.deepEqual(line.lines, ['{"kind":"commit","keys":[],"work":["turns"]}'])
})

test('a posted message is a signal here', async (t) => {
  const here = await serveHost(t, { daemons: ['dashd'] })
  const seen: unknown[] = []
  here.host.signals.on((keys, work) => void seen.push([keys, work]))
  const post = (body: string): Promise<Response> =>
    lineBearer(here).then((bearer) => request(`${here.url('dashd')}/line`, bearer, { method: 'POST', body }))
  assert.equal((await post('{"kind":"commit","keys":["web:a"],"work":["outbox"]}')).status, 204)
  assert.equal((await post('{"kind":"commit","work":[]}')).status, 204)
  assert.deepEqual(seen, [
    [['web:a'], ['outbox']],
    [undefined, []],
  ])
  for (const body of ['', 'x', '[]', '{"kind":"lock-wanted"}', '{"kind":"commit","work":["all"]}'])
    assert.equal((await post(body)).status, 400, body)
  const padded = (length: number): string => '{"kind":"commit","work":[]}'.padEnd(length)
  assert.equal((await post(padded(LINE_MESSAGE_MAX))).status, 204)
  assert.equal((await post(padded(LINE_MESSAGE_MAX + 1))).status, 413)
  assert.equal(seen.length, 3)
  const logged = here.logged().filter(({ path }) => path === '/line')
  assert.deepEqual([...new Set(logged.map(({ status }) => status))].sort(), [400, 413], 'only refusals are logged')
})

test('every other caller gets the same 401', async (t) => {
  const here = await serveHost(t, { daemons: ['proxyd', ...WITH_LINE] })
  await here.groups('main')
  await here.operator('github:1')
  const expired = await lineBearer(here, 1000)
  here.clock.advance(10 * 60_000)
  const bearers = [
    undefined,
    'a.b.c',
    expired,
    await here.bearer({ sub: 'github:1' }),
    await here.bearer({ sub: 'github:1', audience: lineAudience(here.host) }),
    await here.bearer({ sub: METRICS_SERVICE, kind: 'service' }),
    await here.bearer({ sub: 'service:timed', kind: 'service' }),
  ]
  for (const name of WITH_LINE)
    for (const init of [{}, { method: 'POST', body: '{"kind":"commit","work":[]}' }]) {
      const url = `${here.url(name)}/line${init.method ? '' : '?work=turns'}`
      const answers = await Promise.all(bearers.map((bearer) => request(url, bearer, init)))
      assert.deepEqual([...new Set(answers.map(({ status }) => status))], [401])
      assert.equal(new Set(await Promise.all(answers.map((answer) => answer.text()))).size, 1)
    }
})

test('a bearer of the line is valid at the line only', async (t) => {
  const here = await serveHost(t)
  await here.groups('main')
  await here.grant(LINE_SERVICE, '*', '**')
  const bearer = await lineBearer(here)
  assert.equal((await request(`${here.url('webd')}/line?work=turns`, bearer, { method: 'HEAD' })).status, 204)
  const lists = resources.filter(({ verbs }) => verbs.list?.http).map(({ path }) => path)
  assert.ok(lists.length > 5)
  for (const path of [...lists, '/mcp', '/metrics', '/v1/tasks/due', '/v1/channels', '/dash/'])
    for (const name of ['proxyd', 'routd', 'webd'] as const) {
      const { status } = await request(here.url(name) + path, bearer, { redirect: 'manual' })
      // Listeners behind the front door show their metrics to everybody.
      const isPublic = path === '/metrics' && name !== 'proxyd'
      assert.ok(isPublic || [303, 401, 404, 405].includes(status), `${name} ${path}: ${status}`)
    }
})

test('proxyd has no line and forwards to none, and neither have the other daemons', async (t) => {
  const here = await serveHost(t)
  await here.groups('main')
  const bearer = await lineBearer(here)
  const front = await serveHost(t, {
    daemons: ['proxyd'],
    settings: { WEBD_URL: here.url('webd'), ROUTD_URL: here.url('routd'), DASHD_URL: here.url('dashd') },
  })
  const seen: unknown[] = []
  here.host.signals.on((keys) => void seen.push(keys))
  const others = DAEMON_NAMES.filter((name) => name !== 'proxyd' && !WITH_LINE.includes(name)).map(here.url)
  const paths = ['/line', '/line/', '/line?work=turns', '//line', '/chat/../line', '/%6cine', '/dash/%2e%2e/line']
  const body = '{"kind":"commit","work":["turns"]}'
  for (const url of [here.url('proxyd'), front.url('proxyd'), ...others])
    for (const path of paths)
      for (const method of ['GET', 'POST']) {
        const head = `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${bearer}\r\nConnection: close\r\n`
        const sent = method === 'GET' ? '\r\n' : `Content-Length: ${body.length}\r\n\r\n${body}`
        const status = statusOf(await sendRaw(url, head + sent))
        assert.ok([303, 307, 308, 400, 401, 404, 405].includes(status), `${method} ${url}${path}: ${status}`)
      }
  assert.deepEqual(seen, [])
})

test('the oldest line gives way, and a stopping daemon ends all', async (t) => {
  // A line that did not end would delay the shutdown beyond the test.
  const here = await serveHost(t, { daemons: ['routd'], limits: { drainMs: 2 ** 30 } })
  const bearer = await lineBearer(here)
  const lines: OpenLine[] = []
  for (let at = 0; at < LINES_MAX; at++) lines.push(await openLine(here.url('routd'), bearer))
  here.host.signals.emit([], ['turns'])
  await until(() => lines.every((line) => line.lines.length === 1))
  const newest = await openLine(here.url('routd'), bearer)
  await until(() => lines[0]?.isEnded === true)
  here.host.signals.emit([], ['turns'])
  await until(() => newest.lines.length === 1 && lines.slice(1).every((line) => line.lines.length === 2))
  assert.deepEqual([lines[0]?.lines.length, lines.filter((line) => line.isEnded).length], [1, 1])
  await here.close()
  await until(() => [...lines, newest].every((line) => line.isEnded))
  assert.deepEqual(here.faults, [])
})

test('an unknown kind of work is refused', async (t) => {
  const here = await serveHost(t, { daemons: ['webd'] })
  const bearer = await lineBearer(here)
  for (const query of ['', '?work=', '?work=all', '?work=turns,x', `?work=${'turns,'.repeat(3)}turns`])
    assert.equal((await request(`${here.url('webd')}/line${query}`, bearer)).status, 400, query)
})

test('there is no line on PostgreSQL, which notifies processes itself', needs('postgres'), async (t) => {
  const on = await testHost(t, 'postgres', await freshStore(t, 'postgres'))
  const here = await serveHost(t, { on, daemons: [...WITH_LINE] })
  const bearer = await lineBearer(here)
  for (const name of WITH_LINE)
    assert.equal((await request(`${here.url(name)}/line?work=turns`, bearer)).status, 404, name)
})

test('a message is read as it was written, and no text has another effect than a message or nothing', () => {
  const message = fc.record(
    {
      kind: fc.constant('commit' as const),
      keys: fc.array(fc.string({ maxLength: 512 }), { maxLength: 20 }),
      work: fc.uniqueArray(fc.constantFrom<WorkKind>(...WORK_KINDS)),
    },
    { requiredKeys: ['kind', 'work'] },
  )
  fc.assert(
    fc.property(message, (each) => assert.deepEqual(parseLineMessage(JSON.stringify(each)), { ...each })),
    { numRuns: runs(100, 1000) },
  )
  const any = fc.oneof(
    fc.string(),
    fc.json(),
    fc.json().map((text) => `{"kind":"commit","work":${text}}`),
  )
  fc.assert(
    fc.property(any, (text) => {
      const read = parseLineMessage(text)
      assert.ok(read?.kind !== 'drafts')
      assert.ok(read?.work.every((each) => WORK_KINDS.some((known) => known === each)) ?? true)
    }),
    { numRuns: runs(100, 1000) },
  )
  const written = (keys: readonly string[]): string => JSON.stringify({ kind: 'commit', keys, work: WORK_KINDS })
  const longest = written(Array(KEYS_MAX).fill('界'.repeat(512)))
  assert.ok(parseLineMessage(longest) && Buffer.byteLength(longest) < LINE_MESSAGE_MAX)
  assert.equal(parseLineMessage(written(Array(KEYS_MAX + 1).fill('x'))), undefined)
  assert.equal(parseLineMessage(written(['x'.repeat(513)])), undefined)
})
