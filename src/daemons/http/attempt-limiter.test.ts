import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { fakeClock } from '../../../test/support/clock.ts'
import { problemOf } from '../../lib/http/http.ts'
import { type Refusal, RetryLaterRefusal } from '../../lib/refusal.ts'
import { AttemptLimiter } from './attempt-limiter.ts'

suite('AttemptLimiter', () => {
  const rate = { count: 3, windowMs: 30_000 }

  test('allows a window of attempts per key, and says exactly when the next one fits', () => {
    const clock = fakeClock()
    const limiter = new AttemptLimiter(rate, clock)
    for (let count = 0; count < 3; count++) limiter.take('a')
    clock.advance(2500)
    const refusal = refusalOf(() => limiter.take('a'))
    assert.equal(refusal.code, 'rate_limited')
    assert.deepEqual(problemOf(refusal).headers, { 'Retry-After': '8' })
    assert.equal(refusal.hint, 'try again in 8 seconds')
    // Refused attempts do not make the wait longer.
    clock.advance(7499)
    assert.equal(problemOf(refusalOf(() => limiter.take('a'))).headers['Retry-After'], '1')
    clock.advance(1)
    limiter.take('a')
  })

  test('never stops another key', () => {
    const limiter = new AttemptLimiter(rate, fakeClock())
    for (let count = 0; count < 3; count++) limiter.take('a')
    refusalOf(() => limiter.take('a'))
    limiter.take('b')
  })

  test('keeps at most 10,000 keys and forgets the one used least recently', () => {
    const limiter = new AttemptLimiter(rate, fakeClock())
    for (let count = 0; count < 3; count++) limiter.take('first')
    for (let count = 0; count < 9999; count++) limiter.take(`key ${count}`)
    refusalOf(() => limiter.take('first'))
    for (let count = 0; count < 9999; count++) limiter.take(`other ${count}`)
    assert.equal(limiter.size, 10_000)
    refusalOf(() => limiter.take('first'))
    for (let count = 0; count < 10_000; count++) limiter.take(`third ${count}`)
    limiter.take('first')
  })

  function refusalOf(work: () => void): Refusal {
    try {
      work()
    } catch (error) {
      if (error instanceof RetryLaterRefusal) return error
    }
    return assert.fail('not refused')
  }
})
