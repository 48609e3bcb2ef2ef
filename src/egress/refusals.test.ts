import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusals } from './refusals.ts'

test('a source has a quarter of the refusals that may wait, and all together no more than there are', () => {
  const refusals = new Refusals(8)
  const begin = (source: string): boolean => refusals.begin(source)
  assert.deepEqual(['a', 'a', 'a'].map(begin), [true, true, false])
  assert.deepEqual(['b', 'b', 'c', 'c', 'd', 'd', 'e'].map(begin), [true, true, true, true, true, true, false])
  refusals.end('a')
  assert.deepEqual(['a', 'a'].map(begin), [true, false])
  refusals.end('b')
  assert.deepEqual(['e', 'e'].map(begin), [true, false])
})

test('with room for very few, each source has one', () => {
  const refusals = new Refusals(1)
  assert.equal(refusals.begin('a'), true)
  assert.equal(refusals.begin('b'), false)
  refusals.end('a')
  assert.equal(refusals.begin('b'), true)
})
