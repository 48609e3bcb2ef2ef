import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readMetrics } from '../../../test/support/metrics.ts'
import { defineCounter, defineGauge, defineHistogram, knownLabel, MetricRegistry, reading } from './metric-registry.ts'

const SENT = defineCounter('sent_total', 'Sent', { platform: ['a', 'b'], result: ['ok', 'failed', 'late'] })
const TIMES = defineHistogram('run_seconds', 'Time', [0.1, 1, 10], { runtime: ['x', 'y'] })
const OPEN = defineGauge('open', 'Open', { state: ['on', 'off'] })
const PLAIN = defineCounter('plain_total', 'Plain')

test('counts per combination of labels, and shows declared series from the start', async () => {
  const registry = new MetricRegistry()
  registry.declare([SENT, PLAIN])
  const before = readMetrics(await registry.text()).samples
  assert.equal(before.size, 7)
  assert.deepEqual([...new Set(before.values())], [0])
  registry.add(SENT, { platform: 'b', result: 'failed' })
  registry.add(SENT, { platform: 'b', result: 'failed' }, 2.5)
  registry.add(SENT, { platform: 'a', result: 'late' })
  registry.add(PLAIN, {})
  const { samples } = readMetrics(await registry.text())
  assert.equal(samples.get('sent_total{platform="b",result="failed"}'), 3.5)
  assert.equal(samples.get('sent_total{platform="a",result="late"}'), 1)
  assert.equal(samples.get('sent_total{platform="a",result="ok"}'), 0)
  assert.equal(samples.get('plain_total'), 1)
  assert.equal(registry.count(SENT, { platform: 'b', result: 'failed' }), 3.5)
})

test('puts a value that equals a bound below it, and all values below +Inf', async () => {
  const registry = new MetricRegistry()
  for (const value of [0.1, 0.100001, 10, 11, -1]) registry.observe(TIMES, { runtime: 'y' }, value)
  const { samples, families } = readMetrics(await registry.text())
  const bucket = (le: string) => samples.get(`run_seconds_bucket{runtime="y",le="${le}"}`)
  assert.deepEqual(['0.1', '1', '10', '+Inf'].map(bucket), [2, 3, 4, 5])
  assert.equal(samples.get('run_seconds_count{runtime="y"}'), 5)
  assert.ok(Math.abs((samples.get('run_seconds_sum{runtime="y"}') ?? 0) - 21.200001) < 1e-9)
  assert.equal(samples.get('run_seconds_count{runtime="x"}'), 0)
  assert.equal(families.get('run_seconds'), 'histogram')
  assert.equal(registry.count(TIMES, { runtime: 'y' }), 5)
})

test('reads gauges at each scrape, and leaves out a source that fails', async () => {
  const registry = new MetricRegistry()
  let open = 1
  const remove = registry.addSource(() => [reading(OPEN, { state: 'on' }, open), reading(OPEN, { state: 'off' }, 0)])
  registry.addSource(async () => {
    throw new Error('the store is down')
  })
  assert.equal(readMetrics(await registry.text()).samples.get('open{state="on"}'), 1)
  open = 7
  assert.equal(readMetrics(await registry.text()).samples.get('open{state="on"}'), 7)
  remove()
  assert.equal(await registry.text(), '')
})

test('accepts no label value outside of its set', () => {
  const registry = new MetricRegistry()
  const value: string = 'c'
  assert.throws(() => registry.add(SENT, { platform: value as 'a', result: 'ok' }), /platform has no value c/)
  assert.equal(knownLabel(['a', 'other'], 'a'), 'a')
  assert.equal(knownLabel(['a', 'other'], 'x"} 1'), 'other')
})

test('the sum of all series is the number of counts, however they are labelled', async () => {
  const labels = fc.record({ platform: fc.constantFrom('a', 'b'), result: fc.constantFrom('ok', 'failed', 'late') })
  await fc.assert(
    fc.asyncProperty(fc.array(labels), async (counts) => {
      const registry = new MetricRegistry()
      registry.declare([SENT])
      for (const each of counts) registry.add(SENT, each)
      const { samples } = readMetrics(await registry.text())
      assert.equal(
        [...samples.values()].reduce((a, b) => a + b, 0),
        counts.length,
      )
      for (const { platform, result } of counts)
        assert.equal(
          samples.get(`sent_total{platform="${platform}",result="${result}"}`),
          counts.filter((each) => each.platform === platform && each.result === result).length,
        )
    }),
  )
})
