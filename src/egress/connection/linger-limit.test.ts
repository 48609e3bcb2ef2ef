import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LingerLimit } from './linger-limit.ts'

test('one source may use a quarter of the lingering connections, all sources together the maximum', () => {
  const refusals = new LingerLimit(8)
  const begin = (source: string): boolean => refusals.acquire(source)
  assert.deepEqual(['a', 'a', 'a'].map(begin), [true, true, false])
  assert.deepEqual(['b', 'b', 'c', 'c', 'd', 'd', 'e'].map(begin), [true, true, true, true, true, true, false])
  refusals.release('a')
  assert.deepEqual(['a', 'a'].map(begin), [true, false])
  refusals.release('b')
  assert.deepEqual(['e', 'e'].map(begin), [true, false])
})

test('with a very small maximum each source may use one', () => {
  const refusals = new LingerLimit(1)
  assert.equal(refusals.acquire('a'), true)
  assert.equal(refusals.acquire('b'), false)
  refusals.release('a')
  assert.equal(refusals.acquire('b'), true)
})
