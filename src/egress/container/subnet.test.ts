import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { addressAt, freeSubnets, overlaps, parseCidr, readSubnet, type Subnet, showSubnet } from './subnet.ts'

const block = (text: string): Subnet => parseCidr(text) ?? assert.fail(text)

function first(taken: readonly string[], count: number): string[] {
  const found: string[] = []
  for (const subnet of freeSubnets(taken.map(block))) {
    if (found.length === count) break
    found.push(showSubnet(subnet))
  }
  return found
}

suite('the subnet of a run', () => {
  test('is an IPv4 block with room for three, written with its first address', () => {
    for (const text of ['10.88.0.0/16', '10.0.0.0/8', '192.168.1.248/29']) assert.equal(showSubnet(block(text)), text)
    const bad = [
      '10.88.0.1/16',
      '10.88.0.0/30',
      '0.0.0.0/0',
      '10.88.0/16',
      '10.88.0.0',
      '10.88.0.0/',
      'fd00::/64',
      '',
      '10.88.0.256/24',
      '010.88.0.0/16',
    ]
    for (const text of bad) assert.equal(readSubnet(text), undefined, text)
  })

  test('is the first that overlaps with none in use', () => {
    assert.deepEqual(first([], 2), ['10.88.0.0/28', '10.88.0.16/28'])
    assert.deepEqual(first(['10.88.0.0/28'], 1), ['10.88.0.16/28'])
    assert.deepEqual(first(['10.88.0.0/24'], 1), ['10.88.1.0/28'])
    assert.deepEqual(first(['10.88.0.20/29'], 2), ['10.88.0.0/28', '10.88.0.32/28'])
    assert.deepEqual(first(['10.88.0.1/16'], 1), ['10.188.0.0/28'])
    assert.deepEqual(first(['10.0.0.0/8'], 1), ['172.30.0.0/28'])
    assert.deepEqual(first(['0.0.0.0/0'], 1), [])
  })

  test('overlaps with another if they share an address', () => {
    const any = fc.record({ base: fc.integer({ min: 0, max: 1023 }), bits: fc.integer({ min: 22, max: 32 }) })
    const members = ({ base, bits }: Subnet): Set<number> => {
      const size = 2 ** (32 - bits)
      return new Set(Array.from({ length: size }, (_, at) => Math.floor(base / size) * size + at))
    }
    fc.assert(fc.property(any, any, (a, b) => overlaps(a, b) === [...members(a)].some((each) => members(b).has(each))))
  })

  test('returns addresses by offset', () => {
    assert.equal(addressAt(block('10.88.0.0/16'), 3), '10.88.0.3')
    assert.equal(addressAt(block('255.255.255.240/28'), 15), '255.255.255.255')
  })
})
