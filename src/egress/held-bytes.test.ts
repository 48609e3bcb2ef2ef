import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HeldBytes } from './held-bytes.ts'

test('what was added is there, in order, however it was cut', () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 2000 }), { maxLength: 20 })
  fc.assert(
    fc.property(pieces, (all) => {
      const held = new HeldBytes()
      for (const piece of all) held.add(piece)
      assert.deepEqual(held.bytes, Buffer.concat(all))
      assert.equal(held.length, held.bytes.length)
    }),
  )
})

test('the caller’s memory is not kept', () => {
  const held = new HeldBytes()
  const piece = Buffer.from('hello')
  held.add(piece)
  piece.fill('x')
  assert.equal(held.bytes.toString(), 'hello')
})

test('a million bytes one by one are copied a few times and not a million', () => {
  const held = new HeldBytes()
  const from = performance.now()
  for (let number = 0; number < 1_000_000; number++) held.add(Buffer.of(number & 0xff))
  assert.equal(held.length, 1_000_000)
  assert.equal(held.bytes[999_999], 999_999 & 0xff)
  // Copied each time, it takes minutes.
  assert.ok(performance.now() - from < 20_000)
})
