import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CHANNEL_SECRET } from '../../../test/support/channel-api.ts'
import { type Collector, openCollector, pathsOf, type ReceivedSpan } from '../../../test/support/collector.ts'
import { EVERY_CAPABILITY, fakeAdapter } from '../../../test/support/fake-adapter.ts'
import { freshStore, isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { json, type LinkHost, openLinkHost } from '../../../test/support/link-host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { until } from '../../../test/support/until.ts'
import { inbox } from '../../core/messages/inbox.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'
import { timestamp } from '../../lib/clock.ts'
import { traceIdOf } from '../../lib/trace/otlp-json.ts'
import { routesResource } from '../../resources/routes.ts'
import { DAEMON_NAMES } from '../settings.ts'

const settingsFor = ({ url }: Pick<Collector, 'url'>) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: url })

/** The spans of one message. */
const traceOf = ({ spans }: Collector, message: string): ReceivedSpan[] =>
  spans.filter(({ traceId }) => traceId === traceIdOf('test', message))

async function openTraced(t: TestContext): Promise<{ collector: Collector; here: LinkHost }> {
  const collector = await openCollector(t)
  const settings = { ...settingsFor(collector), CHANNEL_SECRET }
  return { collector, here: await openLinkHost(t, { daemons: DAEMON_NAMES, settings }) }
}

const CHAT_PATHS = [
  'POST /chat',
  'POST /chat > route',
  'POST /chat > route > turn',
  'POST /chat > route > turn > answer',
  'POST /chat > route > turn > attempt',
  'POST /chat > route > turn > attempt > tool reply',
]

test('one message is one connected trace from the POST to the answer', async (t) => {
  const { collector, here } = await openTraced(t)
  const link = await here.mintChat()
  const id = await here.speak(link, '/say a secret answer')
  await here.ended(link, id)
  await here.close()
  const spans = traceOf(collector, id)
  assert.deepEqual(pathsOf(spans), CHAT_PATHS)
  const turn = spans.find(({ name }) => name === 'turn')
  assert.deepEqual(turn?.attributes, {
    'svc.message.id': id,
    'svc.folder': 'main',
    'svc.runtime': 'demo',
    'svc.turn.outcome': 'answered',
    'svc.turn.attempts': 1,
    'svc.turn.messages': 1,
  })
  const { 'service.name': service, 'svc.instance': instance } = turn?.resource ?? {}
  assert.deepEqual([service, instance], ['svc', 'test'])
  for (const { startMs, endMs } of spans) assert.ok(startMs <= endMs)
  assert.deepEqual(
    spans.filter(({ error }) => error !== undefined),
    [],
  )
  // Neither content, nor the link, nor the chat, nor the visitor.
  const sent = collector.requests.map(({ text }) => text).join()
  for (const secret of ['secret answer', link.token, link.jid, 'anon:'])
    assert.equal(sent.includes(secret), false, secret)
})

onEveryEngine('traces of two processes', (engine) => {
  test('have the same ids', async (t) => {
    const collector = await openCollector(t)
    const store = await freshStore(t, engine)
    const [frontOn, backOn] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    await backOn.groups('main')
    const settings = settingsFor(collector)
    const back = await serveHost(t, { on: backOn, daemons: ['routd', 'runed', 'gated'], settings })
    const front = await openLinkHost(t, { on: frontOn, daemons: ['proxyd', 'webd'], settings })
    const link = await front.mintChat()
    const id = await front.speak(link, '/say hello')
    await front.ended(link, id)
    await Promise.all([front.close(), back.close()])
    const spans = traceOf(collector, id)
    assert.deepEqual(pathsOf(spans), CHAT_PATHS)
    const daemonsOf = (name: string) => spans.find((span) => span.name === name)?.resource['svc.daemons']
    assert.equal(daemonsOf('POST /chat'), 'proxyd,webd')
    assert.equal(daemonsOf('turn'), 'routd,gated,runed')
  })
})

test('a webhook, a command and a failed turn', async (t) => {
  const { collector, here } = await openTraced(t)
  const [hook, link] = [await here.mintHook(), await here.mintChat()]
  const posted = await here.to(`POST ${hook.hook}`, { body: '/say to no one' })
  const hookId = posted.headers.get('x-request-id') ?? ''
  const keyed = await here.to(`POST ${hook.hook}`, { body: 'x', headers: { 'Idempotency-Key': 'k' } })
  const keyedId = keyed.headers.get('x-request-id') ?? ''
  const commandId = await here.speak(link, '/ping')
  await here.ended(link, commandId)
  const failedId = await here.speak(link, '/fail because of a secret')
  await here.ended(link, failedId)
  const isOver = async (id: string) =>
    ['answered', 'silent'].includes((await here.host.engine.read((tx) => inbox.find(tx, { id })))?.state ?? '')
  await until(async () => (await isOver(hookId)) && (await isOver(keyedId)))
  await here.close()
  const hookPaths = pathsOf(traceOf(collector, hookId))
  for (const path of ['POST /hook', 'POST /hook > route']) assert.ok(hookPaths.includes(path))
  assert.ok(pathsOf(traceOf(collector, keyedId)).includes('POST /hook > route'))
  assert.deepEqual(pathsOf(traceOf(collector, commandId)), [
    'POST /chat',
    'POST /chat > route',
    'POST /chat > route > answer',
  ])
  const failed = traceOf(collector, failedId)
  assert.ok(pathsOf(failed).includes('POST /chat > route > turn > attempt'))
  assert.equal(failed.find(({ name }) => name === 'turn')?.error, 'failed')
  assert.equal(failed.find(({ name }) => name === 'attempt')?.error, 'failed')
  assert.equal(
    collector.requests
      .map(({ text }) => text)
      .join()
      .includes('because of a secret'),
    false,
  )
})

test('a message of a platform ends with its delivery, a task begins with its slot', async (t) => {
  const { collector, here } = await openTraced(t)
  const adapter = await fakeAdapter(t, { isKeyed: true })
  await here.cli.call(routesResource.verbs.create, { seq: 1, match: 'room=group/1', target: 'main' })
  const tell = async (path: string, body: object, bearer: string) => {
    const headers = { Authorization: `Bearer ${bearer}` }
    const answer = await fetch(`${here.url('routd')}${path}`, { method: 'POST', ...json(body, headers) })
    assert.equal(answer.status, 200, await answer.clone().text())
    return JSON.parse(await answer.text())
  }
  const adapterBody = { name: 'teled', url: adapter.url, jid_prefixes: ['telegram:'], capabilities: EVERY_CAPABILITY }
  const { token } = await tell('/v1/channels/register', adapterBody, CHANNEL_SECRET)
  const inbound = { chat_jid: 'telegram:group/1', content: '/say to the room', sender: 'telegram:user/1', id: 'm1' }
  await tell('/v1/messages', inbound, token)
  await until(() => adapter.delivered.some(({ content }) => content === 'to the room'))
  const [message] = await here.messages('telegram:group/1')
  const state = async () => (await here.host.engine.read((tx) => inbox.find(tx, { id: message?.id ?? '' })))?.state
  await until(async () => (await state()) === 'answered')
  const now = timestamp(here.clock.now())
  await here.host.engine.transaction((tx) =>
    scheduledTasks.insert(tx, {
      ...{ id: 'task-1', owner: 'main', chat_jid: 'web:main', prompt: '/say later', context_mode: 'group' },
      ...{ next_run: now, status: 'active', created_at: now },
    }),
  )
  here.host.signals.emit()
  await until(async () => (await here.messages()).some(({ sender }) => sender.startsWith('timed')))
  const fired = (await here.messages()).find(({ sender }) => sender.startsWith('timed'))
  await until(async () => {
    const row = await here.host.engine.read((tx) => inbox.find(tx, { id: fired?.id ?? '' }))
    return row?.state === 'answered' || row?.state === 'silent'
  })
  await here.close()
  const paths = pathsOf(traceOf(collector, message?.id ?? ''))
  assert.ok(paths.includes('message > route > turn > attempt'), paths.join('\n'))
  assert.ok(paths.includes('message > route > turn > answer > deliver'), paths.join('\n'))
  const delivery = traceOf(collector, message?.id ?? '').find(({ name }) => name === 'deliver')
  assert.equal(delivery?.attributes['svc.delivery.result'], 'sent')
  assert.equal(delivery?.attributes['svc.platform'], 'telegram')
  assert.ok(pathsOf(traceOf(collector, fired?.id ?? '')).includes('task > route > turn > attempt'))
  assert.equal(
    collector.requests
      .map(({ text }) => text)
      .join()
      .includes('group/1'),
    false,
  )
})

test('messages that share a turn have linked traces', async (t) => {
  const { collector, here } = await openTraced(t)
  const link = await here.mintChat()
  const first = await here.speak(link, '/wait 300ms\n/say one')
  const others = [await here.speak(link, '/say two'), await here.speak(link, '/say three')]
  for (const id of [first, ...others]) await here.ended(link, id)
  await here.close()
  const turns = collector.spans.filter(({ name }) => name === 'turn')
  const joint = turns.find(({ links }) => links.length === 1)
  assert.equal(joint?.traceId, traceIdOf('test', others[1] ?? ''))
  assert.equal(joint?.links[0]?.traceId, traceIdOf('test', others[0] ?? ''))
  const linked = collector.spans.find(({ spanId }) => spanId === joint?.links[0]?.spanId)
  assert.equal(linked?.name, 'route')
})

for (const [how, behaviour] of [
  ['refuses', 400],
  ['fails', 500],
  ['does not answer', 'hangs'],
] as const)
  test(`a collector that ${how} changes nothing for people`, async (t) => {
    const { collector, here } = await openTraced(t)
    collector.behave(behaviour)
    const link = await here.mintChat()
    const { status } = await here.ended(link, await here.speak(link, '/say hello'))
    assert.equal(status, 'success')
    await here.close()
    const faults = here.logged().filter(({ level }) => level === 'error')
    assert.deepEqual(faults, [])
  })

test('a collector that does not exist is one warning', async (t) => {
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9/' }
  const here = await openLinkHost(t, { daemons: DAEMON_NAMES, settings })
  const link = await here.mintChat()
  const { status } = await here.ended(link, await here.speak(link, '/say hello'))
  assert.equal(status, 'success')
  await here.close()
  const warnings = here.logged().filter(({ level }) => level === 'warn')
  assert.deepEqual(
    warnings.map(({ msg }) => msg),
    ['cannot export traces; messages are not affected'],
  )
})

test('ignores the trace of a client', async (t) => {
  const { collector, here } = await openTraced(t)
  const link = await here.mintChat()
  const foreign = '0af7651916cd43dd8448eb211c80319c'
  const headers = { traceparent: `00-${foreign}-b7ad6b7169203331-01` }
  const { body } = await here.to(`POST ${link.chat}`, json({ content: '/say hello' }, headers))
  await here.ended(link, String(body.turn_id))
  await here.close()
  assert.deepEqual(pathsOf(traceOf(collector, String(body.turn_id))), CHAT_PATHS)
  assert.equal(
    collector.requests
      .map(({ text }) => text)
      .join()
      .includes(foreign),
    false,
  )
})

test('refuses settings of a collector that svc cannot use, with what to write instead', async (t) => {
  const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://localhost:4318' }
  const start = (settings: Record<string, string>) => serveHost(t, { daemons: ['timed'], settings })
  const faulty: [Record<string, string>, RegExp][] = [
    [{ ...endpoint, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /OTEL_EXPORTER_OTLP_PROTOCOL .*must be http\/json/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318' }, /OTEL_EXPORTER_OTLP_ENDPOINT .*must be a URL/],
    [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:b@c' }, /OTEL_EXPORTER_OTLP_HEADERS/],
    [{ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS: 'authorization' }, /OTEL_EXPORTER_OTLP_HEADERS .*key=value/],
    [{ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS: 'a=%0Ab: c' }, /key=value/],
    [{ ...endpoint, OTEL_RESOURCE_ATTRIBUTES: 'a=%zz' }, /OTEL_RESOURCE_ATTRIBUTES/],
  ]
  for (const [settings, fault] of faulty) await assert.rejects(start(settings), isRefusal('invalid', fault))
  // Variables of other programs do not matter without a collector for svc.
  await start({ OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc', OTEL_EXPORTER_OTLP_ENDPOINT: '' })
})

test('sends the headers and attributes of the settings', async (t) => {
  const collector = await openCollector(t)
  const settings = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/otlp/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20abc, x-scope = team%3D1 ,',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_SERVICE_NAME: 'agents',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  }
  const here = await openLinkHost(t, { settings })
  await here.speak(await here.mintChat(), 'hello')
  await here.close()
  const [request] = collector.requests
  assert.equal(request?.path, '/otlp/v1/traces')
  assert.equal(request?.headers.authorization, 'Bearer abc')
  assert.equal(request?.headers['x-scope'], 'team=1')
  const [span] = collector.spans
  assert.equal(span?.resource['service.name'], 'agents')
  assert.equal(span?.resource['deployment.environment.name'], 'test')
})
