import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ByteAccumulator } from './byte-accumulator.ts'

test('returns the added bytes in order', () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 2000 }), { maxLength: 20 })
  fc.assert(
    fc.property(pieces, (all) => {
      const held = new ByteAccumulator()
      for (const piece of all) held.add(piece)
      assert.deepEqual(held.bytes, Buffer.concat(all))
      assert.equal(held.length, held.bytes.length)
    }),
  )
})

test('does not keep the caller’s memory', () => {
  const held = new ByteAccumulator()
  const piece = Buffer.from('hello')
  held.add(piece)
  piece.fill('x')
  assert.equal(held.bytes.toString(), 'hello')
})

test('copies a million single bytes only a few times', () => {
  const held = new ByteAccumulator()
  const from = performance.now()
  for (let number = 0; number < 1_000_000; number++) held.add(Buffer.of(number & 0xff))
  assert.equal(held.length, 1_000_000)
  assert.equal(held.bytes[999_999], 999_999 & 0xff)
  // With a copy for each byte it takes minutes.
  assert.ok(performance.now() - from < 20_000)
})
