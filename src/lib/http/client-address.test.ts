import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { clientAddress, readTrustedProxies } from './client-address.ts'

const trusts = (text: string) => readTrustedProxies(text) ?? assert.fail(text)

suite('trusted proxies', () => {
  const LISTS: Record<string, { yes?: string[]; no?: string[] }> = {
    '': { no: ['127.0.0.1', '::1'] },
    '127.0.0.1': { yes: ['127.0.0.1'], no: ['127.0.0.2', '::1'] },
    '10.0.0.0/8, 192.168.1.7': { yes: ['10.255.0.1', '192.168.1.7'], no: ['11.0.0.1', '192.168.1.8'] },
    '10.1.2.3/8': { yes: ['10.9.9.9'] },
    '0.0.0.0/0': { yes: ['8.8.8.8'], no: ['2001:db8::1'] },
    '::1,fd00::/8': { yes: ['::1', '0:0:0:0:0:0:0:1', 'fd12::1'], no: ['fe80::1%eth0', '127.0.0.1'] },
    'fe80::/10': { yes: ['fe80::1%eth0'] },
    '::ffff:10.0.0.1': { yes: ['10.0.0.1'] },
  }
  for (const [list, { yes = [], no = [] }] of Object.entries(LISTS)) {
    test(`"${list}"`, () => {
      for (const address of yes) assert.equal(trusts(list)(address), true, address)
      for (const address of no) assert.equal(trusts(list)(address), false, address)
    })
  }

  test('refuses what is not a list of addresses', () => {
    for (const text of [
      'localhost',
      '10.0.0.0/33',
      '::/129',
      '10.0.0/8',
      '10.0.0.1/',
      '10.0.0.1,',
      ',',
      '1.2.3.4:80',
      '[::1]',
      '10.0.0.0/-1',
      '10.0.0.0/0x8',
      'fe80::1%eth0',
      '010.0.0.1',
      '::ffff:10.0.0.0/104',
      '*',
    ])
      assert.equal(readTrustedProxies(text), undefined, text)
  })

  test('matches exactly the addresses of any list of ranges', () => {
    const range = fc
      .tuple(fc.ipV4(), fc.integer({ min: 0, max: 32 }))
      .map(([address, bits]) => ({ address, text: `${address}/${bits}` }))
    fc.assert(
      fc.property(fc.array(range, { minLength: 1, maxLength: 5 }), (ranges) => {
        const list = trusts(ranges.map(({ text }) => text).join(' , '))
        for (const { address } of ranges) assert.ok(list(address))
      }),
    )
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.ipV6(), fc.ipV4Extended()), (text) => {
        readTrustedProxies(text)?.('127.0.0.1')
      }),
    )
  })
})

suite('the client address', () => {
  const near = trusts('127.0.0.1, 10.0.0.0/8, fd00::/8')
  const CASES: [what: string, peer: string | undefined, header: string | undefined, client: string | undefined][] = [
    ['is the peer without a header', '127.0.0.1', undefined, '127.0.0.1'],
    ['is the peer if it is not trusted, with any header', '203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['is the address that a trusted peer forwards', '127.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['is not an address that the client forged', '127.0.0.1', '10.0.0.1, 1.1.1.1, 198.51.100.1', '198.51.100.1'],
    ['is found behind several trusted hops', '127.0.0.1', '6.6.6.6, 198.51.100.1, 10.0.0.3,10.0.0.2', '198.51.100.1'],
    ['is the first hop if all are trusted', '127.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['is the hop that forwarded an invalid address', '127.0.0.1', '198.51.100.1, unknown, 10.0.0.2', '10.0.0.2'],
    ['is the peer if the header is empty', '127.0.0.1', '', '127.0.0.1'],
    ['may have a port', '127.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['may be an IPv6 address', 'fd00::1', '[2001:db8::7]:80', '2001:db8::7'],
    ['is canonical', '127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    ['is undefined on a socket without addresses', undefined, '198.51.100.1', undefined],
  ]
  for (const [what, peer, header, client] of CASES)
    test(what, () => assert.equal(clientAddress(near, peer, header), client))

  test('never comes from left of an untrusted hop, and is the peer or a hop', () => {
    const hop = fc.oneof(
      fc.ipV4(),
      fc.ipV4().map((address) => address.replace(/^\d+/, '10')),
      fc.string({ maxLength: 5 }).filter((text) => !text.includes(',')),
    )
    fc.assert(
      fc.property(fc.array(hop, { maxLength: 6 }), fc.ipV4(), (hops, outsider) => {
        const said = [...hops, outsider.replace(/^\d+/, '198')].join(',')
        assert.equal(clientAddress(near, '127.0.0.1', said), outsider.replace(/^\d+/, '198'))
        const client = clientAddress(near, '127.0.0.1', hops.join(','))
        assert.ok(client === '127.0.0.1' || hops.some((text) => text.trim() === client))
      }),
    )
  })
})
