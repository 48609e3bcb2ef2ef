import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { batchLength, decodeContent } from './messages.ts'

test('decodes content unchanged, including a byte order mark, and replaces invalid UTF-8', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.equal(decodeContent(Buffer.from(text)), text)))
  assert.equal(decodeContent(Buffer.from('\ufeffa')), '\ufeffa')
  assert.equal(decodeContent(Buffer.from('61ff62', 'hex')), 'a\ufffdb')
})

test('a batch has as many contents as fit, and at least one', () => {
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
