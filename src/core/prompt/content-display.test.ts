import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { displayContent } from './content-display.ts'

/** Decides each character by the decoder of the platform. */
function expected(bytes: Uint8Array): string {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const decode = (part: Uint8Array): string | undefined => {
    try {
      return decoder.decode(part)
    } catch {
      return undefined
    }
  }
  let text = ''
  for (let at = 0; at < bytes.length; ) {
    const character = [1, 2, 3, 4].map((length) => decode(bytes.subarray(at, at + length))).find(Boolean)
    text += character === '\\' ? '\\\\' : (character ?? `\\x${(bytes[at] ?? 0).toString(16).padStart(2, '0')}`)
    at += character === undefined ? 1 : Buffer.byteLength(character)
  }
  return text
}

test('shows bytes that are not UTF-8 as \\xNN, and valid content as it is', () => {
  assert.deepEqual(displayContent(Buffer.from('a\\é\ufeff')), { text: 'a\\é\ufeff', isValid: true })
  assert.deepEqual(displayContent('a\\'), { text: 'a\\', isValid: true })
  const bytes = Buffer.concat([Buffer.from('a\\é'), Buffer.from([0xff, 0xe2, 0x82]), Buffer.from('€')])
  assert.deepEqual(displayContent(bytes), { text: 'a\\\\é\\xff\\xe2\\x82€', isValid: false })
})

test('accepts exactly the characters that the decoder accepts', () => {
  const edges = [
    0x00, 0x5c, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef,
    0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
  ]
  const byte = fc.oneof(fc.constantFrom(...edges), fc.nat(255))
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 12 }), (given) => {
      // The last byte is never valid, so that the rest is escaped too.
      const bytes = Uint8Array.from([...given, 0xff])
      assert.deepEqual(displayContent(bytes), { text: expected(bytes), isValid: false })
    }),
    { numRuns: 5000 },
  )
})
