import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { GrowingBuffer } from './growing-buffer.ts'

suite('a growing buffer', () => {
  test('has the bytes of all chunks in their order', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 50 })), (chunks) => {
        const buffer = new GrowingBuffer()
        for (const chunk of chunks) buffer.append(chunk)
        const expected = Buffer.concat(chunks)
        assert.deepEqual([buffer.bytes, buffer.length], [expected, expected.length])
      }),
    )
  })

  test('begins again when it is taken, and leaves what was taken as it is', () => {
    const buffer = new GrowingBuffer()
    buffer.append(Buffer.from('first'))
    const taken = buffer.take()
    assert.equal(buffer.length, 0)
    buffer.append(Buffer.from('other'))
    assert.deepEqual([taken.toString(), buffer.bytes.toString()], ['first', 'other'])
  })

  test('leaves what was read as it is when more arrives', () => {
    const buffer = new GrowingBuffer()
    for (const text of ['a', 'b', 'c']) buffer.append(Buffer.from(text))
    const { bytes } = buffer
    buffer.append(Buffer.from('d'))
    assert.deepEqual([bytes.toString(), buffer.bytes.toString()], ['abc', 'abcd'])
  })

  test('begins again in the same memory when it is cleared', () => {
    const buffer = new GrowingBuffer(8)
    buffer.append(Buffer.from('first'))
    const memory = buffer.bytes.buffer
    buffer.clear()
    assert.equal(buffer.length, 0)
    buffer.append(Buffer.from('other'))
    assert.deepEqual([buffer.bytes.toString(), buffer.bytes.buffer === memory], ['other', true])
  })

  test('takes at most twice the memory of what it has', () => {
    const buffer = new GrowingBuffer()
    for (let at = 0; at < 100_000; at++) buffer.append(Buffer.of(at))
    assert.ok(buffer.bytes.buffer.byteLength <= 200_000, String(buffer.bytes.buffer.byteLength))
  })
})
