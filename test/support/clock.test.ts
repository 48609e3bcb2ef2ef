import assert from 'node:assert/strict'
import { test } from 'node:test'
import { uuidv7 } from '../../src/lib/clock.ts'
import { fakeClock, seededRandom } from './clock.ts'

test('a fake clock moves only when it is advanced', () => {
  const clock = fakeClock(1000)
  assert.equal(clock.now(), 1000)
  clock.advance(500)
  assert.equal(clock.now(), 1500)
})

test('the same seed gives the same identifiers, another seed others', () => {
  const id = (seed: number): string => uuidv7(fakeClock(), seededRandom(seed))
  assert.equal(id(7), id(7))
  assert.notEqual(id(7), id(8))
  const random = seededRandom()
  assert.notDeepEqual(random.bytes(16), random.bytes(16))
})
