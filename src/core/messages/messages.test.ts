import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { batchLength, decodeContent } from './messages.ts'

test('content as text is what was sent, a byte order mark included; what is no UTF-8 is shown as such', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.equal(decodeContent(Buffer.from(text)), text)))
  assert.equal(decodeContent(Buffer.from('\ufeffa')), '\ufeffa')
  assert.equal(decodeContent(Buffer.from('61ff62', 'hex')), 'a\ufffdb')
})

test('a piece is as much as fits, and one in any case', () => {
  assert.equal(batchLength([]), 0)
  assert.equal(batchLength([1, 2, 3]), 3)
  assert.equal(batchLength([10_000_000, 1]), 1)
  assert.equal(batchLength([1, 10_000_000, 1]), 1)
  fc.assert(
    fc.property(fc.array(fc.nat(300_000)), (sizes) => {
      const count = batchLength(sizes)
      const sum = (until: number) => sizes.slice(0, until).reduce((all, size) => all + size, 0)
      assert.ok(count <= sizes.length && (sizes.length === 0 || count >= 1))
      assert.ok(count === 1 || sum(count) <= 524_288)
      assert.ok(count === sizes.length || sum(count + 1) > 524_288)
    }),
  )
})
