import assert from 'node:assert/strict'
import { test } from 'node:test'
import { summarizeDenied, summaryLine } from './denied-summary.ts'
import type { DeniedHost, Snapshot } from './snapshot.ts'

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

function snapshotOf(denied: readonly DeniedHost[]): Snapshot {
  const none = { counts: [], sumS: 0 }
  const counts = { connections: 0, tunnels: 0, bytesUp: 0, bytesDown: 0, droppedLines: 0 }
  return { ...counts, decisions: [], errors: [], dial: none, dns: none, denied }
}

test('hosts that were denied are named in one line, with how often and for whom', () => {
  const { msg, hosts, more } = JSON.parse(summaryLine([HOST], 0))
  assert.equal(msg, 'denied hosts')
  assert.deepEqual(hosts, [{ id: 'job-1', host: 'a.example', port: 443, count: 3 }])
  assert.equal(more, undefined)
})

test('a name in a hello that was refused is named beside its host', () => {
  const { hosts } = JSON.parse(summaryLine([{ ...HOST, sni: 'b.example' }], 0))
  assert.deepEqual(hosts, [{ id: 'job-1', host: 'a.example', port: 443, sni: 'b.example', count: 3 }])
})

test('of very many denied hosts the line names some and counts the rest', () => {
  const many = Array.from({ length: 70 }, (_, at) => ({ ...HOST, host: `h${at}.example` }))
  const { hosts, more } = JSON.parse(summaryLine(many, 0))
  assert.deepEqual([hosts.length, more], [50, 20])
})

test('what was denied since the last line is said when the proxy stops, and nothing is said of nothing', async () => {
  const lines: string[] = []
  const late = { ...HOST, lastMs: Date.now() + 60_000 }
  await summarizeDenied(
    async () => snapshotOf([HOST, late]),
    (line) => lines.push(line),
  ).close()
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).hosts.length),
    [1],
  )
  await summarizeDenied(
    async () => snapshotOf([HOST]),
    (line) => lines.push(line),
  ).close()
  assert.equal(lines.length, 1)
})
