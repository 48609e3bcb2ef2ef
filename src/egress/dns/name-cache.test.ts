import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { NameCache } from './name-cache.ts'
import type { Resolved } from './resolver.ts'

const found = (address: string, ttlMs = 30_000): Resolved => ({ kind: 'addresses', addresses: [address], ttlMs })
const MISSING: Resolved = { kind: 'failed', code: 'dns-error', rcode: 'NXDOMAIN' }
const LATE: Resolved = { kind: 'failed', code: 'dns-timeout' }

suite('names that were resolved', () => {
  test('a name is known until its time and no longer', () => {
    const cache = new NameCache()
    const resolved = found('192.0.2.1', 30_000)
    cache.set('a.test', resolved, 1_000)
    assert.equal(cache.get('a.test', 1_000), resolved)
    assert.equal(cache.get('a.test', 30_999), resolved)
    assert.equal(cache.get('a.test', 31_000), undefined)
    assert.equal(cache.get('b.test', 1_000), undefined)
  })

  test('a later answer takes the place of an earlier one, with a time of its own', () => {
    const cache = new NameCache()
    cache.set('a.test', found('192.0.2.1', 60_000), 0)
    cache.set('a.test', found('192.0.2.2', 1_000), 500)
    assert.deepEqual(cache.get('a.test', 1_499), found('192.0.2.2', 1_000))
    assert.equal(cache.get('a.test', 1_500), undefined)
    assert.equal(cache.size, 0)
  })

  test('in the last quarter of its time a name is asked for again, and a failure to ask changes nothing', () => {
    const cache = new NameCache()
    const resolved = found('192.0.2.1', 40_000)
    cache.set('a.test', resolved, 0)
    assert.deepEqual(
      [0, 29_999, 30_000, 39_999].map((now) => cache.isEnding('a.test', now)),
      [false, false, true, true],
    )
    cache.set('a.test', LATE, 35_000)
    assert.equal(cache.get('a.test', 39_999), resolved)
    assert.equal(cache.get('a.test', 40_000), undefined)
    cache.set('a.test', MISSING, 50_000)
    assert.equal(cache.isEnding('a.test', 51_999), false)
    assert.equal(cache.isEnding('b.test', 0), false)
  })

  test('a failure is remembered for two seconds', () => {
    const cache = new NameCache()
    for (const failure of [MISSING, LATE]) {
      cache.set('a.test', failure, 0)
      assert.equal(cache.get('a.test', 1_999), failure)
      assert.equal(cache.get('a.test', 2_000), undefined)
    }
  })

  test('that the resolver was too busy, or had no files, is not remembered of a name', () => {
    const cache = new NameCache()
    cache.set('a.test', { kind: 'failed', code: 'dns-error', rcode: 'OVERLOAD' }, 0)
    assert.equal(cache.get('a.test', 0), undefined)
    cache.set('a.test', { kind: 'failed', code: 'out-of-files' }, 0)
    assert.equal(cache.get('a.test', 0), undefined)
  })

  test('past ten thousand names the oldest is forgotten', () => {
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

  test('in any order of events, what is given was set for that name last and has time left', () => {
    const event = fc.record({ name: fc.constantFrom('a', 'b', 'c'), ttlMs: fc.option(fc.nat(50)), stepMs: fc.nat(20) })
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        const cache = new NameCache()
        const last = new Map<string, { resolved: Resolved; untilMs: number }>()
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
