import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freshStore, testHost } from '../../../test/support/host.ts'
import { openLinkHost } from '../../../test/support/link-host.ts'
import { readMetrics } from '../../../test/support/metrics.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { METRICS_SERVICE } from '../../core/access/bearers.ts'
import { resources } from '../../resources/index.ts'
import { DAEMON_NAMES } from '../settings.ts'

async function scrape(front: ServedHost) {
  const bearer = await front.bearer({ sub: METRICS_SERVICE, kind: 'service' })
  const response = await front.ask('/metrics', bearer)
  assert.equal(response.status, 200)
  return readMetrics(await response.text())
}

test('a bearer of service:metrics reads the metrics and may do nothing else', async (t) => {
  const front = await serveHost(t)
  await front.groups('main')
  const bearer = await front.bearer({ sub: METRICS_SERVICE, kind: 'service' })
  assert.equal((await front.ask('/metrics', bearer)).status, 200)
  const lists = resources.filter(({ verbs }) => verbs.list?.http).map(({ path }) => path)
  assert.ok(lists.length > 5)
  for (const path of [...lists, '/mcp', '/v1/tasks/due', '/v1/channels', '/v1/audit']) {
    const { status } = await front.ask(path, bearer)
    assert.ok([401, 404, 405].includes(status), `${path}: ${status}`)
  }
  for (const path of [
    '/v1/tasks/runlog',
    '/v1/messages',
    '/v1/route_tokens/chat',
    '/v1/bearers',
    '/v1/channels/register',
  ]) {
    const { status } = await front.ask(path, bearer, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    })
    assert.ok([401, 404, 405].includes(status), `${path}: ${status}`)
  }
  const other = await front.bearer({ sub: 'service:timed', kind: 'service' })
  assert.equal((await front.ask('/metrics', other)).status, 403)
})

test('shows each family once for all daemons of one process', async (t) => {
  const front = await serveHost(t)
  await fetch(`${front.url('webd')}/nothing`)
  const { samples, families } = await scrape(front)
  assert.equal(samples.get('http_requests_total{daemon="webd",method="GET",status="4xx"}'), 1)
  for (const name of DAEMON_NAMES) assert.equal(samples.get(`svc_daemon_up{daemon="${name}"}`), 1)
  assert.equal(samples.get('svc_queue_messages{daemon="proxyd",queue="outbox"}'), 0)
  assert.equal(families.get('svc_turn_seconds'), 'histogram')
  assert.ok((samples.get('process_resident_memory_bytes{daemon="proxyd"}') ?? 0) > 0)
  // Each listener serves the page of its process.
  const local = readMetrics(await (await fetch(`${front.url('timed')}/metrics`)).text())
  assert.equal(local.samples.get('http_requests_total{daemon="webd",method="GET",status="4xx"}'), 1)
})

test('joins the pages of other processes once each, and reports a daemon that does not answer', async (t) => {
  const store = await freshStore(t, 'sqlite')
  const [backOn, frontOn] = [await testHost(t, 'sqlite', store), await testHost(t, 'sqlite', store)]
  await backOn.groups('main')
  const back = await openLinkHost(t, { on: backOn, daemons: ['routd', 'webd', 'runed'] })
  const front = await serveHost(t, {
    on: frontOn,
    daemons: ['proxyd', 'authd'],
    settings: {
      ROUTD_URL: back.url('routd'),
      WEBD_URL: back.url('webd'),
      RUNED_URL: back.url('runed'),
      // Nothing listens on this port.
      TIMED_URL: 'http://127.0.0.1:9',
    },
  })
  const link = await back.mintChat()
  await back.ended(link, await back.speak(link, '/say hello'))
  const { samples } = await scrape(front)
  // All three run in one process, which is asked as routd first.
  assert.equal(samples.get('svc_turns_total{daemon="routd",outcome="answered",runtime="demo"}'), 1)
  assert.equal([...samples.keys()].filter((name) => name.startsWith('svc_queue_messages')).length, 3)
  assert.equal([...samples.keys()].filter((name) => name.startsWith('process_resident_memory_bytes')).length, 2)
  const up = [...samples].filter(([name]) => name.startsWith('svc_daemon_up'))
  assert.deepEqual(Object.fromEntries(up.map(([name, value]) => [/"(\w+)"/.exec(name)?.[1], value])), {
    proxyd: 1,
    authd: 1,
    routd: 1,
    webd: 1,
    runed: 1,
    timed: 0,
  })
})

test('counts turns, calls, refusals and streams of a served instance', async (t) => {
  const here = await openLinkHost(t, { daemons: DAEMON_NAMES })
  const link = await here.mintChat()
  await here.ended(link, await here.speak(link, '/say hello'))
  await here.ended(link, await here.speak(link, '/fail no'))
  await here.to('POST /hook/unknown')
  const { samples } = await scrape(here)
  const at = (name: string) => samples.get(name)
  assert.equal(at('svc_turns_total{daemon="proxyd",outcome="answered",runtime="demo"}'), 1)
  assert.equal(at('svc_turns_total{daemon="proxyd",outcome="failed",runtime="demo"}'), 1)
  assert.equal(at('svc_turn_failures_total{daemon="proxyd",kind="failed"}'), 1)
  assert.equal(at('svc_turn_attempts_total{daemon="proxyd",result="completed"}'), 1)
  assert.equal(at('svc_turn_seconds_count{daemon="proxyd",runtime="demo"}'), 2)
  assert.equal(at('svc_turn_wait_seconds_count{daemon="proxyd"}'), 2)
  assert.equal(at('svc_turns_running{daemon="proxyd"}'), 0)
  assert.ok((at('svc_calls_total{daemon="proxyd",face="tool",result="ok"}') ?? 0) > 0)
  assert.equal(at('svc_http_refusals_total{daemon="webd",reason="unauthenticated"}'), 1)
  assert.equal(at('svc_streams_open{daemon="proxyd"}'), 0)
  // No name of a folder, chat or person is a label.
  for (const name of samples.keys()) assert.doesNotMatch(name, /"main"|web:|hook:|anon:/)
})

test('/healthz is /health, and /livez does not ask the store', async (t) => {
  const front = await serveHost(t)
  for (const name of DAEMON_NAMES)
    for (const path of ['/health', '/healthz', '/livez'])
      assert.deepEqual(JSON.parse(await (await fetch(front.url(name) + path)).text()), { status: 'ok', daemon: name })
  const broken = await serveHost(t, { daemons: ['routd'] })
  await broken.host.engine.close()
  assert.equal((await fetch(`${broken.url('routd')}/healthz`)).status, 503)
  assert.equal((await fetch(`${broken.url('routd')}/livez`)).status, 200)
})
