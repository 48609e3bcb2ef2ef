import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../test/support/host.ts'
import { decodeKey, describeKey, encodeKey } from './url-key.ts'

test('a key of one part is not encoded, even with slashes', () => {
  assert.equal(encodeKey(['web:team/forms']), 'web:team/forms')
  assert.deepEqual(decodeKey(['jid'], 'web:team/forms'), { jid: 'web:team/forms' })
})

test('a key of several parts decodes to the same parts, whatever their text', () => {
  const part = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed())
  fc.assert(
    fc.property(part, part, part, (a, b, c) => {
      assert.deepEqual(decodeKey(['x', 'y', 'z'], encodeKey([a, b, c])), { x: a, y: b, z: c })
    }),
  )
})

test('refuses a key with too few parts or invalid encoding, in the words of the API description', () => {
  assert.throws(() => decodeKey(['x', 'y'], 'a'), isRefusal('not_found', describeKey(['x', 'y'])))
  assert.throws(() => decodeKey(['x', 'y'], 'a/%ZZ'), isRefusal('not_found', 'URL-encoded'))
})
