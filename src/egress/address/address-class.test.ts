import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type AddressClass, addressClassOf } from './address-class.ts'
import { showIPv4 } from './ip-address.ts'

/** First and last address of each range, and the neighbours outside. */
const EDGES: Readonly<Record<string, readonly [AddressClass, ...string[]]>> = {
  '0.0.0.0/8': ['unspecified', '0.0.0.0', '0.0.0.1', '0.255.255.255'],
  '10.0.0.0/8': ['private', '10.0.0.0', '10.255.255.255'],
  '100.64.0.0/10': ['shared', '100.64.0.0', '100.127.255.255', '100.100.100.199', '100.100.100.201'],
  '127.0.0.0/8': ['loopback', '127.0.0.0', '127.0.0.1', '127.255.255.255'],
  '169.254.0.0/16': ['link-local', '169.254.0.0', '169.254.255.255', '169.254.169.253', '169.254.169.255'],
  '172.16.0.0/12': ['private', '172.16.0.0', '172.31.255.255'],
  '192.0.0.0/24': ['reserved', '192.0.0.0', '192.0.0.255'],
  '192.0.2.0/24': ['reserved', '192.0.2.0', '192.0.2.255'],
  '192.88.99.0/24': ['reserved', '192.88.99.0', '192.88.99.255'],
  '192.168.0.0/16': ['private', '192.168.0.0', '192.168.255.255'],
  '198.18.0.0/15': ['reserved', '198.18.0.0', '198.19.255.255'],
  '198.51.100.0/24': ['reserved', '198.51.100.0', '198.51.100.255'],
  '203.0.113.0/24': ['reserved', '203.0.113.0', '203.0.113.255'],
  '224.0.0.0/4': ['multicast', '224.0.0.0', '239.255.255.255'],
  '240.0.0.0/4': ['reserved', '240.0.0.0', '255.255.255.254'],
  'the broadcast address': ['broadcast', '255.255.255.255'],
  'the metadata services of clouds': [
    'metadata',
    ...['169.254.169.254', '169.254.170.2', '168.63.129.16', '100.100.100.200', '192.0.0.192'],
    ...[
      'fd00:ec2::254',
      'fd00:ec2::',
      'fd00:ec2:ffff:ffff:ffff:ffff:ffff:ffff',
      'fd20:ce::254',
      '::ffff:169.254.169.254',
    ],
  ],
  'public IPv4 at the borders of other ranges': [
    'public',
    ...['1.0.0.0', '9.255.255.255', '11.0.0.0', '100.63.255.255', '100.128.0.0', '126.255.255.255', '128.0.0.0'],
    ...[
      '169.253.255.255',
      '169.255.0.0',
      '172.15.255.255',
      '172.32.0.0',
      '191.255.255.255',
      '192.0.1.0',
      '192.0.1.255',
    ],
    ...['192.0.3.0', '192.88.98.255', '192.88.100.0', '192.167.255.255', '192.169.0.0', '198.17.255.255', '198.20.0.0'],
    ...[
      '198.51.99.255',
      '198.51.101.0',
      '203.0.112.255',
      '203.0.114.0',
      '223.255.255.255',
      '168.63.129.15',
      '168.63.129.17',
    ],
    ...['8.8.8.8', '93.184.216.34'],
  ],
  '::/128': ['unspecified', '::', '0:0:0:0:0:0:0:0'],
  '::1/128': ['loopback', '::1', '0:0:0:0:0:0:0:1', '::0.0.0.1'],
  '64:ff9b:1::/48': ['reserved', '64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff', '64:ff9b:1::8.8.8.8'],
  '100::/64': ['reserved', '100::', '100::ffff:ffff:ffff:ffff'],
  '2001::/23': ['reserved', '2001::', '2001::8.8.8.8', '2001:0:ffff:ffff:ffff:ffff:ffff:ffff', '2001:1ff:ffff::'],
  '2001:db8::/32': ['reserved', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff'],
  '3fff::/20': ['reserved', '3fff::', '3fff:fff:ffff::'],
  '5f00::/16': ['reserved', '5f00::', '5f00:ffff::'],
  'fc00::/7': [
    'private',
    'fc00::',
    'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
    'fd00:ec1:ffff::',
    'fd00:ec3::',
    'fd20:ce::255',
  ],
  'fe80::/10': ['link-local', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe80::1%eth0', 'FE80::1%25x'],
  'fec0::/10': ['private', 'fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'ff00::/8': ['multicast', 'ff00::', 'ff02::1', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
  'public IPv6 at the borders of other ranges': [
    'public',
    ...['64:ff9c::1', '64:ff9a:ffff::', '64:ff9b:2::', '64:ff9b:0:0:0:1::', 'ff:ffff::', '100:0:0:1::', '101::'],
    ...['2000:ffff::', '2001:200::', '2001:db7:ffff::', '2001:db9::', '2003::', '2606:2800:220:1:248:1893:25c8:1946'],
    ...['3ffe:ffff::', '3fff:1000::', '5eff:ffff::', '5f01::', 'fbff:ffff::', 'fe00::', 'fe7f:ffff::'],
  ],
  'invalid addresses': [
    'reserved',
    '',
    'example.com',
    '127.1',
    '0177.0.0.1',
    '1.2.3.4%x',
    '[::1]',
    '::1::',
    '1.2.3.4/8',
  ],
}

for (const [range, [kind, ...addresses]] of Object.entries(EDGES)) {
  suite(`${range} is ${kind}`, () => {
    for (const address of addresses) test(address, () => assert.equal(addressClassOf(address), kind))
  })
}

/** How each transition mechanism writes an IPv4 address, given its halves in hexadecimal and its dotted form. */
const EMBEDDINGS: Readonly<Record<string, (high: string, low: string, plain: string) => string>> = {
  mapped: (_high, _low, plain) => `::ffff:${plain}`,
  'mapped, in hexadecimal': (high, low) => `0:0:0:0:0:FFFF:${high}:${low}`,
  'translated (SIIT)': (_high, _low, plain) => `::ffff:0:${plain}`,
  'behind NAT64': (_high, _low, plain) => `64:ff9b::${plain}`,
  'carried by 6to4': (high, low) => `2002:${high}:${low}::1`,
  'mapped, with a zone': (_high, _low, plain) => `::ffff:${plain}%x.example.com`,
}

suite('classifies the IPv4 address inside an IPv6 address', () => {
  const samples = Object.values(EDGES).flatMap(([, ...addresses]) =>
    addresses.filter((each) => /^[\d.]+\d$/.test(each)),
  )
  const whole = samples.filter((each) => /^(0|[1-9]\d*)(\.(0|[1-9]\d*)){3}$/.test(each))
  for (const [way, embed] of Object.entries(EMBEDDINGS)) {
    test(way, () => {
      assert.ok(whole.length > 50)
      for (const plain of whole)
        assert.equal(addressClassOf(embed(...halves(plain), plain)), addressClassOf(plain), plain)
    })
  }
  test('compatible, except for the two with another meaning', () => {
    for (const plain of whole.filter((each) => each !== '0.0.0.0' && each !== '0.0.0.1')) {
      assert.equal(addressClassOf(`::${plain}`), addressClassOf(plain), plain)
    }
  })
  test('refuses all addresses within Teredo, public ones too', () =>
    assert.equal(addressClassOf('2001:0:808:808::1'), 'reserved'))
})

/** A second implementation: compares numbers with the ends of the ranges. */
const REFUSED: readonly (readonly [number, number])[] = [
  [0x00000000, 0x00ffffff],
  [0x0a000000, 0x0affffff],
  [0x64400000, 0x647fffff],
  [0x7f000000, 0x7fffffff],
  [0xa83f8110, 0xa83f8110],
  [0xa9fe0000, 0xa9feffff],
  [0xac100000, 0xac1fffff],
  [0xc0000000, 0xc00000ff],
  [0xc0000200, 0xc00002ff],
  [0xc0586300, 0xc05863ff],
  [0xc0a80000, 0xc0a8ffff],
  [0xc6120000, 0xc613ffff],
  [0xc6336400, 0xc63364ff],
  [0xcb007100, 0xcb0071ff],
  [0xe0000000, 0xffffffff],
]

test('calls an IPv4 address public exactly if it is outside of every range', () => {
  const edges = REFUSED.flat().flatMap((edge) => [edge - 1, edge, edge + 1])
  const near = fc.constantFrom(...edges.filter((edge) => edge >= 0 && edge <= 0xffffffff))
  fc.assert(
    fc.property(fc.oneof(near, fc.nat(0xffffffff)), (value) => {
      const isRefused = REFUSED.some(([low, high]) => value >= low && value <= high)
      assert.equal(addressClassOf(showIPv4(value)) !== 'public', isRefused, showIPv4(value))
    }),
    { numRuns: runs(2000, 20_000) },
  )
})

test('gives every text a class', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.ipV6(), fc.ipV4()), (text) => {
      assert.equal(typeof addressClassOf(text), 'string')
    }),
    { numRuns: 2000 },
  )
})

function halves(plain: string): [high: string, low: string] {
  const [a = 0, b = 0, c = 0, d = 0] = plain.split('.').map(Number)
  return [(a * 256 + b).toString(16), (c * 256 + d).toString(16)]
}
