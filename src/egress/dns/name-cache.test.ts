import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { NameCache } from './name-cache.ts'
import type { DnsResult } from './resolver.ts'

const found = (address: string, ttlMs = 30_000): DnsResult => ({ kind: 'addresses', addresses: [address], ttlMs })
const MISSING: DnsResult = { kind: 'failed', code: 'dns-error', rcode: 'NXDOMAIN' }
const LATE: DnsResult = { kind: 'failed', code: 'dns-timeout' }

suite('the name cache', () => {
  test('returns a name until it expires', () => {
    const cache = new NameCache()
    const resolved = found('192.0.2.1', 30_000)
    cache.set('a.test', resolved, 1_000)
    assert.equal(cache.get('a.test', 1_000), resolved)
    assert.equal(cache.get('a.test', 30_999), resolved)
    assert.equal(cache.get('a.test', 31_000), undefined)
    assert.equal(cache.get('b.test', 1_000), undefined)
  })

  test('replaces an earlier result and its lifetime', () => {
    const cache = new NameCache()
    cache.set('a.test', found('192.0.2.1', 60_000), 0)
    cache.set('a.test', found('192.0.2.2', 1_000), 500)
    assert.deepEqual(cache.get('a.test', 1_499), found('192.0.2.2', 1_000))
    assert.equal(cache.get('a.test', 1_500), undefined)
    assert.equal(cache.size, 0)
  })

  test('asks for a refresh in the last quarter, and keeps the result if that fails', () => {
    const cache = new NameCache()
    const resolved = found('192.0.2.1', 40_000)
    cache.set('a.test', resolved, 0)
    assert.deepEqual(
      [0, 29_999, 30_000, 39_999].map((now) => cache.isExpiringSoon('a.test', now)),
      [false, false, true, true],
    )
    cache.set('a.test', LATE, 35_000)
    assert.equal(cache.get('a.test', 39_999), resolved)
    assert.equal(cache.get('a.test', 40_000), undefined)
    cache.set('a.test', MISSING, 50_000)
    assert.equal(cache.isExpiringSoon('a.test', 51_999), false)
    assert.equal(cache.isExpiringSoon('b.test', 0), false)
  })

  test('caches a failure for two seconds', () => {
    const cache = new NameCache()
    for (const failure of [MISSING, LATE]) {
      cache.set('a.test', failure, 0)
      assert.equal(cache.get('a.test', 1_999), failure)
      assert.equal(cache.get('a.test', 2_000), undefined)
    }
  })

  test('does not cache that the resolver was overloaded or out of files', () => {
    const cache = new NameCache()
    cache.set('a.test', { kind: 'failed', code: 'dns-error', rcode: 'OVERLOAD' }, 0)
    assert.equal(cache.get('a.test', 0), undefined)
    cache.set('a.test', { kind: 'failed', code: 'out-of-files' }, 0)
    assert.equal(cache.get('a.test', 0), undefined)
  })

  test('evicts the oldest of more than ten thousand names', () => {
    const cache = new NameCache()
    for (let index = 0; index < 10_000; index++) cache.set(`${index}.test`, found('192.0.2.1'), 0)
    cache.set('0.test', found('192.0.2.2'), 0)
    cache.set('new.test', found('192.0.2.3'), 0)
    assert.equal(cache.size, 10_000)
    assert.equal(cache.get('1.test', 0), undefined)
    assert.deepEqual(cache.get('0.test', 0), found('192.0.2.2'))
    assert.deepEqual(cache.get('2.test', 0), found('192.0.2.1'))
    assert.deepEqual(cache.get('new.test', 0), found('192.0.2.3'))
  })

  test('returns what was last set for a name and has not expired, in any order of events', () => {
    const event = fc.record({ name: fc.constantFrom('a', 'b', 'c'), ttlMs: fc.option(fc.nat(50)), stepMs: fc.nat(20) })
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        const cache = new NameCache()
        const last = new Map<string, { resolved: DnsResult; untilMs: number }>()
        let nowMs = 0
        for (const { name, ttlMs, stepMs } of events) {
          nowMs += stepMs
          if (ttlMs !== null) {
            const resolved = found('192.0.2.1', ttlMs)
            cache.set(name, resolved, nowMs)
            last.set(name, { resolved, untilMs: nowMs + ttlMs })
          }
          const expected = last.get(name)
          assert.equal(cache.get(name, nowMs), expected && nowMs < expected.untilMs ? expected.resolved : undefined)
        }
      }),
      { numRuns: 2_000 },
    )
  })
})
