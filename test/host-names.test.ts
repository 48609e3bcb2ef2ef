// Network rules and the egress proxy parse host names separately, because neither layer may import the other. These tests
// keep the two parsers consistent.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { HostName } from '../src/core/values.ts'
import { parseHost } from '../src/egress/address/host.ts'

const PIECES = ['a', 'Z', 'x', 'f', '0', '1', '9', '255', '0x', '.', '-', '_', ':', '::', '[', ']', '/', '*', '@', '%']
const hostText = fc.oneof(
  fc.array(fc.constantFrom(...PIECES, '\u0000', ' ', '\n', '\u007f', 'é', '\u212a', 'com', 'xn--'), { maxLength: 12 }),
  fc.array(fc.oneof(fc.ipV4(), fc.ipV4Extended(), fc.ipV6(), fc.domain(), fc.constant('.')), { maxLength: 2 }),
  fc.array(fc.string({ unit: 'binary' }), { maxLength: 2 }),
)

test('a network rule accepts exactly the names that the proxy does, except for dashes at the edge of a label', () => {
  fc.assert(
    fc.property(hostText, (pieces) => {
      const text = pieces.join('')
      const accepted = HostName.safeParse(text)
      const parsed = parseHost(text)
      if (accepted.success) assert.deepEqual(parsed, { kind: 'name', text: accepted.data })
      else if (parsed?.kind === 'name') assert.match(parsed.text, /(?:^|\.)-|-(?:\.|$)/)
    }),
    { numRuns: 2000 },
  )
})

test('an IP address is rejected in any notation', () => {
  const spelling = fc.oneof(
    fc.ipV4Extended(),
    fc.ipV6(),
    fc.ipV6().map((address) => `[${address}]`),
    fc.integer({ min: 0, max: 2 ** 32 - 1 }).map(String),
    fc.integer({ min: 0, max: 2 ** 32 - 1 }).map((value) => `0x${value.toString(16)}`),
  )
  fc.assert(
    fc.property(spelling, (text) => {
      assert.equal(parseHost(text)?.kind, 'address')
      assert.equal(HostName.safeParse(text).error?.issues[0]?.message, 'must be a host name, not an IP address')
    }),
    { numRuns: 1000 },
  )
})
