import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { Timers } from '../transport/timers.ts'
import type { TcpTransport } from '../transport/transport.ts'
import { AccessLog } from './access-log.ts'
import { type AccessRecord, formatAccessLine } from './access-record.ts'

const DENIED: AccessRecord = {
  mode: 'connect',
  source: '10.0.0.5',
  host: 'a.example',
  port: 443,
  verdict: 'deny',
  reason: 'blocked-by-allowlist',
  status: 403,
  bytesUp: 0,
  bytesDown: 0,
  ms: 0.123,
}

interface Logged {
  readonly log: AccessLog
  readonly written: string[]
  /** All lines so far. */
  lines(): Record<string, unknown>[]
  pass(ms: number): void
}

function open(): Logged {
  const timers = new Timers()
  let now = 0
  const nothing = (): never => assert.fail('no wire is opened here')
  const wires: TcpTransport = {
    listen: nothing,
    connect: nothing,
    pump: nothing,
    now: () => now,
    after: (ms, run) => timers.add(ms, now, run),
  }
  const written: string[] = []
  const log = new AccessLog(wires, (lines) => void written.push(lines))
  const lines = () =>
    written
      .join('')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line))
  const pass = (ms: number): void => {
    now += ms
    timers.run(now)
  }
  return { log, written, lines, pass }
}

suite('the access log', () => {
  test('logs source, host, verdict, reason, bytes and time', () => {
    const line = JSON.parse(
      formatAccessLine({ ...DENIED, id: 'job-1', address: '192.0.2.1', rule: 'example', dialMs: 1 }, 'T'),
    )
    assert.deepEqual(line, {
      level: 'warn',
      time: 'T',
      mode: 'connect',
      source: '10.0.0.5',
      id: 'job-1',
      host: 'a.example',
      port: 443,
      address: '192.0.2.1',
      verdict: 'deny',
      reason: 'blocked-by-allowlist',
      rule: 'example',
      status: 403,
      bytes_up: 0,
      bytes_down: 0,
      dial_ms: 1,
      ms: 0.1,
    })
  })

  test('keeps client text from breaking or inflating a line', () => {
    const text = fc.string({ unit: 'binary', maxLength: 1000 })
    fc.assert(
      fc.property(text, text, (host, id) => {
        const line = formatAccessLine({ ...DENIED, host, id }, 'T')
        assert.equal(line.indexOf('\n'), line.length - 1)
        assert.equal(JSON.parse(line).host, host.slice(0, 256))
      }),
    )
  })

  test('batches lines for a moment', () => {
    const { log, written, pass } = open()
    for (let at = 0; at < 3; at++) log.add({ ...DENIED, verdict: 'allow' }, 1000)
    assert.equal(written.length, 0)
    pass(100)
    assert.equal(written.length, 1)
    assert.equal(written[0]?.split('\n').length, 4)
  })

  test('writes many lines without waiting', () => {
    const { log, written } = open()
    for (let at = 0; at < 1000; at++) log.add({ ...DENIED, verdict: 'allow' }, 1000)
    assert.ok(written.length > 0)
  })

  test('counts the refusals of a looping source, and of no other', () => {
    const { log, lines, pass } = open()
    for (let at = 0; at < 1000; at++) log.add(DENIED, 5000)
    log.add({ ...DENIED, source: '10.0.0.6' }, 5000)
    for (let at = 0; at < 300; at++) log.add({ ...DENIED, verdict: 'allow' }, 5000)
    pass(1100)
    const all = lines()
    assert.equal(all.filter(({ verdict, source }) => verdict === 'deny' && source === '10.0.0.5').length, 200)
    assert.equal(all.filter(({ source }) => source === '10.0.0.6').length, 1)
    assert.equal(all.filter(({ verdict }) => verdict === 'allow').length, 300)
    assert.deepEqual(
      all.filter((line) => 'left_out' in line).map(({ source, left_out }) => [source, left_out]),
      [['10.0.0.5', 800]],
    )
  })

  test('starts over in the next second', () => {
    const { log, lines } = open()
    for (let at = 0; at < 250; at++) log.add(DENIED, 5999)
    for (let at = 0; at < 250; at++) log.add(DENIED, 6000)
    log.close()
    assert.equal(lines().filter(({ verdict }) => verdict === 'deny').length, 400)
    assert.deepEqual(
      lines().flatMap(({ left_out }) => left_out ?? []),
      [50, 50],
    )
  })
})
