import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { canonicalAddress } from '../address/ip-address.ts'
import { AF_INET, AF_INET6 } from './kernel.ts'
import { ADDRESS_BYTES, readAddress, writeAddress } from './socket-address.ts'

const port = fc.integer({ min: 0, max: 65_535 })

test('decodes each address in its canonical form, with its port', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), port, (text, number) => {
      const address = canonicalAddress(text)
      if (address === undefined) return
      const room = Buffer.alloc(ADDRESS_BYTES, 0xff)
      const { family, length } = writeAddress(room, { address, port: number })
      assert.deepEqual(readAddress(room), { address, port: number })
      assert.deepEqual([family, length], address.includes(':') ? [AF_INET6, 28] : [AF_INET, 16])
    }),
    { numRuns: 2000 },
  )
})

test('encodes the kernel’s byte layout', () => {
  const room = Buffer.alloc(ADDRESS_BYTES, 0xff)
  writeAddress(room, { address: '192.0.2.7', port: 443 })
  assert.equal(room.toString('hex'), `0200 01bb c0000207`.replaceAll(' ', '') + '00'.repeat(20))
  writeAddress(room, { address: '2001:db8::7', port: 80 })
  assert.equal(room.toString('hex'), `0a000050${'00'.repeat(4)}20010db8${'00'.repeat(11)}07${'00'.repeat(4)}`)
})

test('decodes IPv4 mapped into IPv6 as IPv4', () => {
  const room = Buffer.alloc(ADDRESS_BYTES)
  const { family } = writeAddress(room, { address: '::ffff:10.0.0.5', port: 1 })
  assert.equal(family, AF_INET6)
  assert.deepEqual(readAddress(room), { address: '10.0.0.5', port: 1 })
})

test('rejects a host name', () => {
  assert.throws(() => writeAddress(Buffer.alloc(ADDRESS_BYTES), { address: 'localhost', port: 1 }), /not an IP address/)
})
