import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { fakeClock } from '../../test/support/clock.ts'
import { TokenBucket } from './token-bucket.ts'

function open(perMinute: number) {
  const clock = fakeClock()
  const bucket = new TokenBucket({ count: perMinute, windowMs: 60_000 }, clock.now())
  /** Takes one if there is room. */
  const take = (): boolean => {
    if (bucket.waitMs(clock.now()) > 0) return false
    bucket.take(clock.now())
    return true
  }
  const drain = (): number => {
    let count = 0
    while (take()) count++
    return count
  }
  return { clock, bucket, take, drain }
}

suite('the rate of a link', () => {
  test('allows a minute’s worth at once, and not one more', () => {
    for (const perMinute of [1, 60, 600]) assert.equal(open(perMinute).drain(), perMinute)
  })

  test('refills continuously up to a minute’s worth', () => {
    const { clock, drain } = open(60)
    drain()
    clock.advance(10_000)
    assert.equal(drain(), 10)
    clock.advance(24 * 3_600_000)
    assert.equal(drain(), 60)
  })

  test('keeps the rate within 5 % over any period', () => {
    for (const perMinute of [7, 60, 600]) {
      const { clock, take, drain } = open(perMinute)
      drain()
      let taken = 0
      for (let ms = 0; ms < 600_000; ms += 37) {
        clock.advance(37)
        if (take()) taken++
      }
      assert.ok(Math.abs(taken / (10 * perMinute) - 1) < 0.05, `${taken} of ${10 * perMinute}`)
    }
  })

  test('reports a wait that is exact to the millisecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5000 }), fc.nat(200_000), (perMinute, later) => {
        const { clock, bucket, take, drain } = open(perMinute)
        drain()
        clock.advance(later)
        drain()
        const wait = bucket.waitMs(clock.now())
        assert.ok(wait > 0)
        clock.advance(wait - 1)
        assert.ok(!take())
        clock.advance(1)
        assert.ok(take())
      }),
    )
  })

  test('has no limit for 0', () => {
    const { bucket, clock } = open(0)
    for (let time = 0; time < 10_000; time++) bucket.take(clock.now())
    bucket.refund()
    assert.equal(bucket.waitMs(clock.now()), 0)
    assert.ok(bucket.isFull(clock.now()))
  })

  test('refunds what was not used, and no more', () => {
    const { bucket, clock, take, drain } = open(3)
    drain()
    bucket.refund()
    assert.ok(take())
    assert.ok(!take())
    clock.advance(60_000)
    bucket.refund()
    assert.equal(drain(), 3)
  })

  test('does not change when the clock is set back', () => {
    const { bucket, clock, drain } = open(60)
    drain()
    clock.advance(-3_600_000)
    assert.equal(drain(), 0)
    // From there on it refills as usual.
    clock.advance(5000)
    assert.equal(drain(), 5)
    assert.ok(bucket.waitMs(clock.now()) <= 1000)
  })

  test('is full after a minute without use', () => {
    const { bucket, clock, drain } = open(60)
    assert.ok(bucket.isFull(clock.now()))
    drain()
    assert.ok(!bucket.isFull(clock.now()))
    clock.advance(60_000)
    assert.ok(bucket.isFull(clock.now()))
  })

  test('never allows more than twice its worth in a minute', () => {
    const step = fc.oneof(
      fc.record({ ms: fc.integer({ min: -5000, max: 5000 }) }),
      fc.constantFrom('take', 'take and give'),
    )
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(step, { maxLength: 200 }), (perMinute, steps) => {
        const { bucket, clock, take } = open(perMinute)
        let [kept, forward] = [0, 0]
        for (const one of steps) {
          if (typeof one === 'object') {
            clock.advance(one.ms)
            forward += Math.max(0, one.ms)
          } else if (take()) {
            if (one === 'take') kept++
            else bucket.refund()
          }
        }
        assert.ok(kept <= perMinute + (forward * perMinute) / 60_000 + 1e-6)
      }),
    )
  })
})
