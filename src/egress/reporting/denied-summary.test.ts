import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDeniedSummary, summaryLine } from './denied-summary.ts'
import type { DeniedHost, MetricsSnapshot } from './metrics-snapshot.ts'

const HOST: DeniedHost = {
  ip: '10.0.0.5',
  id: 'job-1',
  host: 'a.example',
  port: 443,
  sni: undefined,
  reason: 'blocked-by-allowlist',
  count: 3,
  firstMs: 1,
  lastMs: 2,
}

function snapshotOf(denied: readonly DeniedHost[]): MetricsSnapshot {
  const none = { counts: [], sumS: 0 }
  const counts = { connections: 0, tunnels: 0, bytesUp: 0, bytesDown: 0, droppedLines: 0 }
  return { ...counts, decisions: [], errors: [], dial: none, dns: none, denied }
}

test('lists denied hosts in one line, with counts and sources', () => {
  const { msg, hosts, more } = JSON.parse(summaryLine([HOST], 0))
  assert.equal(msg, 'denied hosts')
  assert.deepEqual(hosts, [{ id: 'job-1', host: 'a.example', port: 443, count: 3 }])
  assert.equal(more, undefined)
})

test('lists a refused TLS name next to its host', () => {
  const { hosts } = JSON.parse(summaryLine([{ ...HOST, sni: 'b.example' }], 0))
  assert.deepEqual(hosts, [{ id: 'job-1', host: 'a.example', port: 443, sni: 'b.example', count: 3 }])
})

test('lists some of very many denied hosts and counts the rest', () => {
  const many = Array.from({ length: 70 }, (_, at) => ({ ...HOST, host: `h${at}.example` }))
  const { hosts, more } = JSON.parse(summaryLine(many, 0))
  assert.deepEqual([hosts.length, more], [50, 20])
})

test('logs the remaining denials when the proxy stops, and nothing if there are none', async () => {
  const lines: string[] = []
  const late = { ...HOST, lastMs: Date.now() + 60_000 }
  await startDeniedSummary(
    async () => snapshotOf([HOST, late]),
    (line) => lines.push(line),
  ).close()
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).hosts.length),
    [1],
  )
  await startDeniedSummary(
    async () => snapshotOf([HOST]),
    (line) => lines.push(line),
  ).close()
  assert.equal(lines.length, 1)
})
