import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import { isRefusal } from '../../../test/support/host.ts'
import { CallRateLimiter, CallRateLimiters } from './call-rate-limit.ts'

const isOver = isRefusal('rate_limited', 'too many tool calls')

test('allows a burst of ten seconds’ worth of calls, then the configured rate', () => {
  const clock = fakeClock()
  const rate = new CallRateLimiter(() => 3, clock)
  for (let count = 0; count < 30; count++) rate.take()
  assert.throws(() => rate.take(), isOver)
  clock.advance(333)
  assert.throws(() => rate.take(), isOver)
  clock.advance(1)
  rate.take()
  clock.advance(1000)
  for (let count = 0; count < 3; count++) rate.take()
  assert.throws(() => rate.take(), isOver)
})

test('includes the wait time in the refusal', () => {
  const clock = fakeClock()
  const rate = new CallRateLimiter(() => 1, clock)
  for (let count = 0; count < 10; count++) rate.take()
  assert.throws(() => rate.take(), { hint: 'wait 1 s before the next call' })
})

test('does not limit at 0 calls per second', () => {
  const clock = fakeClock()
  const [rate, rates] = [new CallRateLimiter(() => 0, clock), new CallRateLimiters(() => 0, clock)]
  for (let count = 0; count < 100_000; count++) {
    rate.take()
    rates.take('x')
  }
})

test('limits each key separately and removes idle limiters', () => {
  const clock = fakeClock()
  const rates = new CallRateLimiters(() => 1, clock)
  for (let count = 0; count < 10; count++) rates.take('a')
  assert.throws(() => rates.take('a'), isOver)
  rates.take('b')
  assert.equal(rates.size, 2)
  clock.advance(9999)
  rates.take('b')
  assert.equal(rates.size, 2)
  clock.advance(1)
  rates.take('c')
  // The bucket of b is not full: it was used a millisecond ago.
  assert.deepEqual(rates.size, 2)
  for (let count = 0; count < 10; count++) rates.take('a')
  assert.throws(() => rates.take('a'), isOver)
})
