import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeClock } from '../../test/support/clock.ts'
import { refused } from '../../test/support/host.ts'
import { CallRate, CallRates } from './call-rate.ts'

const isOver = refused('rate_limited', 'too many tool calls')

test('ten seconds’ worth of calls may come at once, then as many a second as was said', () => {
  const clock = fakeClock()
  const rate = new CallRate(3, clock)
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

test('a refusal says how long to wait', () => {
  const clock = fakeClock()
  const rate = new CallRate(1, clock)
  for (let count = 0; count < 10; count++) rate.take()
  assert.throws(() => rate.take(), { hint: 'wait 1 s before the next call' })
})

test('0 is no limit', () => {
  const clock = fakeClock()
  const [rate, rates] = [new CallRate(0, clock), new CallRates(0, clock)]
  for (let count = 0; count < 100_000; count++) {
    rate.take()
    rates.take('x')
  }
})

test('each key has its own rate, and one that is idle is forgotten', () => {
  const clock = fakeClock()
  const rates = new CallRates(1, clock)
  for (let count = 0; count < 10; count++) rates.take('a')
  assert.throws(() => rates.take('a'), isOver)
  rates.take('b')
  assert.equal(rates.size, 2)
  clock.advance(9999)
  rates.take('b')
  assert.equal(rates.size, 2)
  clock.advance(1)
  rates.take('c')
  // That of b is not full: it was used a millisecond ago.
  assert.deepEqual(rates.size, 2)
  for (let count = 0; count < 10; count++) rates.take('a')
  assert.throws(() => rates.take('a'), isOver)
})
