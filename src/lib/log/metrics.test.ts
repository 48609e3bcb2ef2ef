import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openProcessMetrics, RequestMetrics } from './metrics.ts'

/** Name and labels to value; fails on a line that is not Prometheus text. */
function read(text: string): Map<string, number> {
  assert.ok(text.endsWith('\n'))
  const samples = text.trimEnd().split('\n')
  return new Map(
    samples
      .filter((line) => !/^# (HELP|TYPE) [a-z_]+ \S/.test(line))
      .map((line) => {
        const [, name = '', value] =
          /^([a-z_]+(?:\{[a-z]+="[^"]*"(?:,[a-z]+="[^"]*")*\})?) (\d[\d.e+-]*)$/.exec(line) ?? []
        assert.notEqual(name, '', line)
        return [name, Number(value)]
      }),
  )
}

test('counts requests by method and status class, and times them', () => {
  const metrics = new RequestMetrics('routd')
  metrics.add('GET', 200, 0.4)
  metrics.add('GET', 204, 3)
  metrics.add('POST', 503, 60_000)
  const samples = read(metrics.text())
  assert.equal(samples.get('http_requests_total{daemon="routd",method="GET",status="2xx"}'), 2)
  assert.equal(samples.get('http_requests_total{daemon="routd",method="POST",status="5xx"}'), 1)
  assert.equal(samples.get('http_request_seconds_bucket{daemon="routd",le="0.001"}'), 1)
  assert.equal(samples.get('http_request_seconds_bucket{daemon="routd",le="0.005"}'), 2)
  assert.equal(samples.get('http_request_seconds_bucket{daemon="routd",le="+Inf"}'), 3)
  assert.equal(samples.get('http_request_seconds_count{daemon="routd"}'), 3)
  assert.ok(Math.abs((samples.get('http_request_seconds_sum{daemon="routd"}') ?? 0) - 60.0034) < 1e-9)
})

test('creates no series for an unknown method', () => {
  const metrics = new RequestMetrics('routd')
  for (const method of ['A"} 1\nfake', 'B', 'C']) metrics.add(method, 405, 1)
  const counters = [...read(metrics.text()).keys()].filter((name) => name.startsWith('http_requests_total'))
  assert.deepEqual(counters, ['http_requests_total{daemon="routd",method="other",status="4xx"}'])
})

test('reports memory and event-loop delay', (t) => {
  const metrics = openProcessMetrics()
  t.after(() => metrics.close())
  const samples = read(metrics.text())
  assert.ok((samples.get('process_resident_memory_bytes') ?? 0) > 1_000_000)
  assert.ok(samples.has('nodejs_eventloop_delay_seconds{quantile="0.99"}'))
})
