import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { readMetrics } from '../../../test/support/metrics.ts'
import { defineCounter, defineHistogram, MetricRegistry } from './metric-registry.ts'
import { RequestMetrics } from './metrics.ts'
import { joinMetrics } from './metrics-join.ts'

const RUNS = defineCounter('runs_total', 'Runs', { result: ['ok', 'failed'] })
const TIMES = defineHistogram('run_seconds', 'Time', [1])

test('joins the samples of one family below one head', () => {
  const [one, two] = [new RequestMetrics('webd'), new RequestMetrics('routd')]
  one.add('GET', 200, 1)
  two.add('GET', 404, 1)
  const { families, samples } = readMetrics(joinMetrics([{ text: one.text() }, { text: two.text() }]))
  assert.equal(families.get('http_requests_total'), 'counter')
  assert.equal(samples.get('http_requests_total{daemon="webd",method="GET",status="2xx"}'), 1)
  assert.equal(samples.get('http_requests_total{daemon="routd",method="GET",status="4xx"}'), 1)
  assert.equal(samples.get('http_request_seconds_count{daemon="routd"}'), 1)
})

test('adds the label of a process to samples without it, and keeps the label of others', async () => {
  const registry = new MetricRegistry()
  registry.add(RUNS, { result: 'ok' })
  registry.observe(TIMES, {}, 2)
  const requests = new RequestMetrics('webd')
  requests.add('GET', 200, 1)
  const text = (await registry.text()) + requests.text()
  const { samples } = readMetrics(
    joinMetrics([
      { text, label: ['daemon', 'runed'] },
      { text: await registry.text(), label: ['daemon', 'routd'] },
    ]),
  )
  assert.equal(samples.get('runs_total{daemon="runed",result="ok"}'), 1)
  assert.equal(samples.get('runs_total{daemon="routd",result="ok"}'), 1)
  assert.equal(samples.get('run_seconds_bucket{daemon="runed",le="+Inf"}'), 1)
  assert.equal(samples.get('run_seconds_sum{daemon="runed"}'), 2)
  assert.equal(samples.get('http_requests_total{daemon="webd",method="GET",status="2xx"}'), 1)
})

test('leaves out lines of a page that is cut or is not metrics', () => {
  const text = '<html>\n# HELP a_total A\n# TYPE a_total counter\na_total 1\na_total{x="\nstray 5\na_tot'
  assert.equal(joinMetrics([{ text }, { text: '' }]), '# HELP a_total A\n# TYPE a_total counter\na_total 1\n')
  fc.assert(
    fc.property(fc.string(), (noise) => {
      const joined = joinMetrics([{ text: noise }, { text: '# HELP b B\n# TYPE b gauge\nb 2\n' }])
      assert.ok(joined.endsWith('# HELP b B\n# TYPE b gauge\nb 2\n'))
    }),
  )
})

test('a joined page is unchanged by another join', async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(100), fc.nat(100), async (ok, failed) => {
      const registry = new MetricRegistry()
      registry.add(RUNS, { result: 'ok' }, ok)
      registry.add(RUNS, { result: 'failed' }, failed)
      const text = await registry.text()
      assert.equal(joinMetrics([{ text }]), text)
      const joined = joinMetrics([{ text, label: ['daemon', 'runed'] }])
      assert.equal(joinMetrics([{ text: joined, label: ['daemon', 'proxyd'] }]), joined)
    }),
  )
})
