import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { metricsText } from '../admin/metrics.ts'
import type { AccessRecord } from './access-record.ts'
import { RequestCounters } from './counters.ts'
import { DENIED_MAX } from './denied-hosts.ts'
import { BUCKET_BOUNDS_S, type MetricsSnapshot } from './metrics-snapshot.ts'

const PRESENT = { connections: 7, tunnels: 5, droppedLines: 3, bytesUp: 1, bytesDown: 2 }

function exchange(over: Partial<AccessRecord> = {}): AccessRecord {
  const allowed = {
    mode: 'connect',
    source: '10.0.0.5',
    host: 'a.example',
    verdict: 'allow',
    reason: 'allowed',
  } as const
  return { ...allowed, port: 443, bytesUp: 100, bytesDown: 1000, ms: 5, ...over }
}

const denied = (source: string, host: string): AccessRecord =>
  exchange({ source, host, verdict: 'deny', reason: 'blocked-by-allowlist' })

function counted(...exchanges: readonly AccessRecord[]): MetricsSnapshot {
  const counts = new RequestCounters()
  for (const [at, one] of exchanges.entries()) counts.add(one, at)
  return counts.snapshot(PRESENT)
}

test('counts requests by mode, verdict and reason, failures by code, and bytes including those in progress', () => {
  const snapshot = counted(
    exchange(),
    exchange(),
    exchange({ mode: 'http' }),
    denied('10.0.0.5', 'b.example'),
    exchange({ verdict: 'error', reason: 'dns-error' }),
  )
  assert.deepEqual(snapshot.decisions, [
    { mode: 'connect', verdict: 'allow', reason: 'allowed', count: 2 },
    { mode: 'http', verdict: 'allow', reason: 'allowed', count: 1 },
    { mode: 'connect', verdict: 'deny', reason: 'blocked-by-allowlist', count: 1 },
  ])
  assert.deepEqual(snapshot.errors, [{ code: 'dns-error', count: 1 }])
  assert.deepEqual([snapshot.bytesUp, snapshot.bytesDown], [501, 5002])
  assert.deepEqual([snapshot.connections, snapshot.tunnels, snapshot.droppedLines], [7, 5, 3])
})

test('returns a snapshot that can be posted to another thread and does not change', () => {
  const counts = new RequestCounters()
  counts.add(denied('10.0.0.5', 'a.example'), 1)
  const snapshot = counts.snapshot(PRESENT)
  const copy = structuredClone(snapshot)
  counts.add(denied('10.0.0.5', 'a.example'), 2)
  counts.addLookup(5)
  assert.deepEqual(snapshot, copy)
})

test('puts durations into the first bucket that is not below them', () => {
  const counts = new RequestCounters()
  for (const ms of [0, 1, 1.1, 2.5, 30_000, 30_001]) counts.addLookup(ms)
  counts.add(exchange({ dialMs: 4 }), 1)
  counts.add(exchange(), 1)
  const { dns, dial } = counts.snapshot(PRESENT)
  const expected = new Array(BUCKET_BOUNDS_S.length + 1).fill(0)
  expected[0] = 2
  expected[1] = 2
  expected[BUCKET_BOUNDS_S.length - 1] = 1
  expected[BUCKET_BOUNDS_S.length] = 1
  assert.deepEqual(dns.counts, expected)
  assert.ok(Math.abs(dns.sumS - 60.0056) < 1e-9)
  assert.equal(
    dial.counts.reduce((sum, count) => sum + count, 0),
    1,
  )
})

suite('denied hosts', () => {
  test('keeps the newest thousand of 100,000 random hosts, without a new series', () => {
    const counts = new RequestCounters()
    for (let at = 0; at < 100_000; at++) counts.add(denied('10.0.0.5', `h${at}.example`), at)
    const snapshot = counts.snapshot(PRESENT)
    assert.equal(snapshot.denied.length, DENIED_MAX)
    assert.deepEqual(
      snapshot.denied.map(({ host }) => host),
      Array.from({ length: DENIED_MAX }, (_, at) => `h${99_999 - at}.example`),
    )
    assert.equal(snapshot.decisions.length, 1)
    assert.ok(!metricsText(snapshot, 0).includes('.example'))
  })

  test('evicts the hosts of a flooding source, not those of others', () => {
    const counts = new RequestCounters()
    for (let at = 0; at < 50; at++) counts.add(denied('10.0.0.1', `quiet${at}.example`), at)
    for (let at = 0; at < 20_000; at++) counts.add(denied('10.0.0.2', `flood${at}.example`), at)
    counts.add(denied('10.0.0.3', 'late.example'), 1)
    const { denied: kept } = counts.snapshot(PRESENT)
    assert.equal(kept.length, DENIED_MAX)
    assert.equal(kept.filter(({ ip }) => ip === '10.0.0.1').length, 50)
    assert.equal(kept[0]?.host, 'late.example')
  })

  test('limits many sources with one host each', () => {
    const counts = new RequestCounters()
    for (let at = 0; at < 5000; at++) counts.add(denied(`10.0.${at >> 8}.${at & 255}`, 'a.example'), at)
    assert.equal(counts.snapshot(PRESENT).denied.length, DENIED_MAX)
  })

  test('keeps one entry per host, port and reason, with its first and last time', () => {
    const { denied: kept } = counted(
      { ...denied('10.0.0.5', 'a.example'), id: 'old' },
      { ...denied('10.0.0.5', 'a.example'), port: 80 },
      { ...denied('10.0.0.5', 'a.example'), id: 'new' },
      exchange({ verdict: 'deny', reason: 'unregistered-source', host: undefined }),
    )
    assert.deepEqual(
      kept.map(({ id, port, count, firstMs, lastMs }) => [id, port, count, firstMs, lastMs]),
      [
        ['new', 443, 2, 0, 2],
        [undefined, 80, 1, 1, 1],
      ],
    )
  })

  test('cuts a host of 64 KB', () => {
    assert.equal(counted(denied('10.0.0.5', 'x'.repeat(65_536))).denied[0]?.host.length, 256)
  })
})

test('counts unforeseen labels up to a limit, and then as "other"', () => {
  const snapshot = counted(
    ...Array.from({ length: 1000 }, (_, at) => exchange({ verdict: 'error', reason: `made-up-${at}` })),
  )
  assert.equal(snapshot.errors.length, 65)
  assert.deepEqual(snapshot.errors.at(-1), { code: 'other', count: 936 })
})

const SAMPLE =
  /^[a-z_]+(?:\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\})? -?\d+(?:\.\d+)?(?:e[+-]\d+)?$/

test('prints only lines that a scraper can read, whatever the labels', () => {
  const word = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom('"', '\\', '\n', 'a"} 1\nevil 2'))
  fc.assert(
    fc.property(fc.array(word, { maxLength: 5 }), (reasons) => {
      const all = reasons.flatMap((reason) => [exchange({ reason, dialMs: 3 }), exchange({ verdict: 'error', reason })])
      for (const line of metricsText(counted(...all), 3)
        .trimEnd()
        .split('\n'))
        if (!line.startsWith('# ')) assert.match(line, SAMPLE)
    }),
    { numRuns: 300 },
  )
})

test('declares each metric once and prints cumulative histograms', () => {
  const text = metricsText(counted(exchange({ dialMs: 3 }), exchange({ dialMs: 700 })), 12)
  const names = [...text.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name)
  assert.equal(new Set(names).size, names.length)
  const buckets = [...text.matchAll(/^egress_dial_seconds_bucket\{le="([^"]+)"\} (\d+)$/gm)].map(([, , n]) => Number(n))
  assert.deepEqual(
    buckets,
    buckets.toSorted((a, b) => a - b),
  )
  assert.equal(buckets.at(-1), 2)
  assert.match(text, /^egress_dial_seconds_bucket\{le="\+Inf"\} 2$/m)
  assert.match(text, /^egress_dial_seconds_count 2$/m)
  assert.match(text, /^egress_registry_entries 12$/m)
  assert.match(text, /^egress_bytes_total\{dir="up"\} 201$/m)
})
