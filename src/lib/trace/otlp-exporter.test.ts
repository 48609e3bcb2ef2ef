import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Collector, openCollector } from '../../../test/support/collector.ts'
import { until } from '../../../test/support/until.ts'
import { MetricRegistry } from '../log/metric-registry.ts'
import { BATCH_MAX, OtlpExporter, type OtlpExporterOptions, QUEUE_MAX, SPANS } from './otlp-exporter.ts'
import type { Span } from './span.ts'

const spanOf = (n: number): Span => ({
  key: { message: 'm', step: String(n) },
  name: `step ${n}`,
  startMs: 1_700_000_000_000,
  endMs: 1_700_000_000_001,
  attributes: {},
})

interface Opened {
  readonly exporter: OtlpExporter
  /** Faults, and `undefined` for each recovery. */
  readonly changes: (string | undefined)[]
  count(result: 'exported' | 'dropped'): number
}

function open(t: TestContext, url: string, options: Partial<OtlpExporterOptions> = {}): Opened {
  const metrics = new MetricRegistry()
  const changes: (string | undefined)[] = []
  const exporter = new OtlpExporter({
    url: `${url}/v1/traces`,
    headers: { authorization: 'Bearer of the test' },
    metrics,
    instance: 'demo',
    version: '1',
    resource: {},
    onChange: (fault) => changes.push(fault),
    delayMs: 1,
    backoffMs: 1,
    ...options,
  })
  t.after(() => exporter.close(0))
  return { exporter, changes, count: (result) => metrics.count(SPANS, { result }) }
}

const namesOf = ({ spans }: Collector): string[] => spans.map(({ name }) => name)

test('sends spans in batches, with the headers of the settings', async (t) => {
  const collector = await openCollector(t)
  const { exporter, count, changes } = open(t, collector.url)
  for (let n = 0; n <= BATCH_MAX; n++) exporter.add(spanOf(n))
  await until(() => count('exported') === BATCH_MAX + 1)
  assert.deepEqual(
    namesOf(collector),
    Array.from({ length: BATCH_MAX + 1 }, (_, n) => `step ${n}`),
  )
  assert.ok(collector.requests.length >= 2)
  const [request] = collector.requests
  assert.equal(request?.path, '/v1/traces')
  assert.equal(request?.headers['content-type'], 'application/json')
  assert.equal(request?.headers.authorization, 'Bearer of the test')
  assert.deepEqual(changes, [])
})

test('sends what waits when it is closed, before the delay is over', async (t) => {
  const collector = await openCollector(t)
  const { exporter, count } = open(t, collector.url, { delayMs: 3_600_000 })
  exporter.add(spanOf(1))
  await exporter.close(60_000)
  assert.deepEqual(namesOf(collector), ['step 1'])
  exporter.add(spanOf(2))
  assert.deepEqual([count('exported'), count('dropped')], [1, 1])
})

test('tries again while the collector is overloaded, and reports each change once', async (t) => {
  const collector = await openCollector(t)
  const { exporter, changes, count } = open(t, collector.url)
  collector.behave(503)
  exporter.add(spanOf(1))
  await until(() => collector.requests.length >= 3)
  collector.behave(200)
  await until(() => count('exported') === 1)
  assert.deepEqual(changes, ['status 503', undefined])
  assert.equal(count('dropped'), 0)
})

test('drops a batch that the collector refuses, at once or after five attempts', async (t) => {
  const collector = await openCollector(t)
  const { exporter, count, changes } = open(t, collector.url)
  collector.behave(400)
  exporter.add(spanOf(1))
  await until(() => count('dropped') === 1)
  assert.equal(collector.requests.length, 1)
  collector.behave(503)
  exporter.add(spanOf(2))
  await until(() => count('dropped') === 2)
  assert.equal(collector.requests.length, 6)
  assert.deepEqual(changes, ['status 400'])
})

test('counts the spans that a collector rejects', async (t) => {
  const collector = await openCollector(t)
  const { exporter, count } = open(t, collector.url)
  collector.behave({ status: 200, body: '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}' })
  for (let n = 0; n < 3; n++) exporter.add(spanOf(n))
  await until(() => count('exported') + count('dropped') === 3)
  assert.deepEqual([count('exported'), count('dropped')], [1, 2])
})

test('holds a bounded number of spans while no collector answers', async (t) => {
  const { exporter, count, changes } = open(t, 'http://127.0.0.1:9', { backoffMs: 3_600_000 })
  for (let n = 0; n < QUEUE_MAX + 10; n++) exporter.add(spanOf(n))
  assert.equal(count('dropped'), 10)
  await until(() => changes.length === 1)
  await exporter.close(60_000)
  assert.equal(count('dropped'), QUEUE_MAX + 10)
})

test('closes at the deadline although the collector hangs', async (t) => {
  const collector = await openCollector(t)
  collector.behave('hangs')
  const { exporter, count } = open(t, collector.url)
  exporter.add(spanOf(1))
  await until(() => collector.requests.length === 1)
  await exporter.close(10)
  assert.equal(count('dropped'), 1)
})

test('gives up on a collector that does not answer in time', async (t) => {
  const collector = await openCollector(t)
  collector.behave('hangs')
  const { exporter, changes } = open(t, collector.url, { timeoutMs: 10 })
  exporter.add(spanOf(1))
  await until(() => changes.length === 1)
  assert.match(changes[0] ?? '', /timeout/i)
})
