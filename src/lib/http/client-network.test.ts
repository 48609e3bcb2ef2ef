import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { clientNetwork, clientSite } from './client-network.ts'

suite('clientNetwork', () => {
  test('groups IPv6 addresses by /64 and IPv4 addresses not at all', () => {
    for (const [address, key] of [
      ['1.2.3.4', 'address 1.2.3.4'],
      ['::ffff:1.2.3.4', 'address 1.2.3.4'],
      ['2001:db8::1', 'network 2001:db8:0:0'],
      ['2001:DB8:0:0:ffff::', 'network 2001:db8:0:0'],
      ['2001:db8:0:1::1', 'network 2001:db8:0:1'],
      ['1:2:3:4:5:6:7:8', 'network 1:2:3:4'],
      ['1::8', 'network 1:0:0:0'],
      ['::1', 'network 0:0:0:0'],
      ['::', 'network 0:0:0:0'],
      ['fe80::1%eth0', 'network fe80:0:0:0'],
      [undefined, 'address unknown'],
      ['', 'address unknown'],
      ['not an address', 'address unknown'],
    ] as const)
      assert.equal(clientNetwork(address), key)
    assert.equal(clientSite('2001:db8:7:1::1'), 'network 2001:db8:7')
    assert.equal(clientSite('1.2.3.4'), 'address 1.2.3.4')
  })

  test('gives every address of a /64 one key, however it is written', () => {
    const groups = fc.array(fc.integer({ min: 0, max: 0xffff }), { minLength: 8, maxLength: 8 })
    fc.assert(
      fc.property(groups, groups, (a, b) => {
        const text = (parts: number[]): string => parts.map((part) => part.toString(16)).join(':')
        const long = (parts: number[]): string =>
          parts.map((part) => part.toString(16).toUpperCase().padStart(4, '0')).join(':')
        const sibling = [...a.slice(0, 4), ...b.slice(4)]
        assert.equal(clientNetwork(text(a)), clientNetwork(long(sibling)))
        assert.equal(clientNetwork(text(a)) === clientNetwork(text(b)), text(a.slice(0, 4)) === text(b.slice(0, 4)))
      }),
    )
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => typeof clientNetwork(text) === 'string'))
  })
})
