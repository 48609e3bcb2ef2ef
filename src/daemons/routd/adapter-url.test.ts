import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../../lib/refusal.ts'
import { adapterUrl } from './adapter-url.ts'

const isPrivate = (address: readonly number[]): boolean => {
  const [a = 0, b = 0] = address
  return a === 127 || a === 10 || (a === 172 && b >= 16 && b < 32) || (a === 192 && b === 168)
}

test('accepts only loopback and private addresses, in every spelling', async () => {
  const byte = fc.oneof(fc.nat(255), fc.constantFrom(10, 127, 169, 172, 192, 168, 254, 16, 31, 32))
  const spell = fc.constantFrom(
    (parts: number[]) => parts.join('.'),
    (parts: number[]) => String(parts.reduce((sum, part) => sum * 256 + part, 0)),
    (parts: number[]) => `0x${Buffer.from(parts).toString('hex')}`,
    (parts: number[]) => `[::ffff:${parts.join('.')}]`,
  )
  await fc.assert(
    fc.asyncProperty(fc.tuple(byte, byte, byte, byte), spell, async (parts, write) => {
      const isTaken = await adapterUrl(`http://${write(parts)}:9300/`, false).then(
        () => true,
        (error) => {
          assert.ok(error instanceof Refusal, String(error))
          return false
        },
      )
      assert.equal(isTaken, isPrivate(parts))
    }),
  )
})

test('refuses an invalid URL with a reason', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string(), async (text) => {
      const url = await adapterUrl(text, true).catch((error) => error)
      if (typeof url === 'string') assert.match(url, /^https?:\/\//)
      else assert.ok(url instanceof Refusal)
    }),
  )
})
