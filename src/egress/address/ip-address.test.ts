import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { canonicalAddress, readLooseIPv4, showIPv4 } from './ip-address.ts'

const CANONICAL: Readonly<Record<string, string>> = {
  '10.0.0.5': '10.0.0.5',
  '0.0.0.0': '0.0.0.0',
  '255.255.255.255': '255.255.255.255',
  '::ffff:10.0.0.5': '10.0.0.5',
  '::FFFF:0a00:0005': '10.0.0.5',
  '0:0:0:0:0:ffff:10.0.0.5': '10.0.0.5',
  '::ffff:255.255.255.255': '255.255.255.255',
  'fe80:0::1': 'fe80::1',
  'FE80::1': 'fe80::1',
  '::': '::',
  '0:0:0:0:0:0:0:0': '::',
  '::1': '::1',
  '1::': '1::',
  '2001:0db8::0001': '2001:db8::1',
  '2001:db8:0:1:1:1:1:1': '2001:db8:0:1:1:1:1:1',
  '2001:db8::1:1:1:1:1': '2001:db8:0:1:1:1:1:1',
  '2001:0:0:1:0:0:0:1': '2001:0:0:1::1',
  '2001:db8:0:0:1:0:0:1': '2001:db8::1:0:0:1',
  '1:2:3:4:5:6:7::': '1:2:3:4:5:6:7:0',
  '::2:3:4:5:6:7:8': '0:2:3:4:5:6:7:8',
  '::1.2.3.4': '::102:304',
  '64:ff9b::1.2.3.4': '64:ff9b::102:304',
  '1:2:3:4:5:6:1.2.3.4': '1:2:3:4:5:6:102:304',
}

const REFUSED = [
  ...['', ' ', '.', ':', '*', 'localhost', 'example.com', '__proto__', 'constructor', 'null'],
  ...['010.0.0.5', '10.0.0.05', '10.0.0.5 ', ' 10.0.0.5', '10.0.0.5\n', '10.0.0.5\0', '10.0.0.5/32', '10.0.0.5:80'],
  ...['10.0.0', '10.0.5', '10.0.0.5.', '.10.0.0.5', '10..0.5', '10.0.0.256', '10.0.0.1000', '10.0.0.5.6', '1e1.0.0.5'],
  ...['2130706433', '0x7f.0.0.1', '-1.0.0.0', '+1.0.0.0', '１.2.3.4'],
  ...['FE80::1%eth0', '::1%', '::1%25x', '[::1]', '::1]', '::1/128', ' ::1', '::1 '],
  ...[':::', '::1::', '1::2::3', ':1', '1:', ':1::', '1::2:', '12345::', '00001::', 'g::', '1:2:3:4:5:6:7'],
  ...['1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8::', '::1:2:3:4:5:6:7:8', '1:2:3:4::5:6:7:8', '1:2:3:4:5:6:7:1.2.3.4'],
  ...['::1.2.3', '::1.2.3.4.5', '::01.2.3.4', '::1.2.3.256', '::1.2.3.4:5', '1.2.3.4::', '::ffff:010.0.0.5'],
  ...['::ffff:127.1', '::ffff:0x7f.0.0.1', '::ffff:10.0.0.5%x', `${'0'.repeat(50)}::1`],
]

suite('gives each address one spelling', () => {
  for (const [text, canonical] of Object.entries(CANONICAL)) {
    test(`${text} is ${canonical}`, () => assert.equal(canonicalAddress(text), canonical))
  }
  for (const text of REFUSED) {
    test(`rejects ${JSON.stringify(text)}`, () => assert.equal(canonicalAddress(text), undefined))
  }
})

const piece = fc.constantFrom(
  ...['0', '1', '9', '10', '255', '256', '00', 'a', 'F', 'ffff', 'fe80', '.', ':', '::', '%', 'x', ' '],
)
const soup = fc.array(piece, { maxLength: 17 }).map((pieces) => pieces.join(''))
const group = fc.oneof(fc.constantFrom(0, 0, 0xffff), fc.nat(0xffff))
const groups = fc.array(group, { minLength: 8, maxLength: 8 })
const byte = fc.nat(255)

test('accepts the same addresses as Node, except for zones', () => {
  const address = fc.oneof(fc.ipV4(), fc.ipV6(), soup)
  fc.assert(
    fc.property(address, (text) => {
      const canonical = canonicalAddress(text)
      assert.equal(canonical !== undefined, isIP(text) !== 0 && !text.includes('%'))
      if (canonical !== undefined) assert.equal(canonicalAddress(canonical), canonical)
    }),
    { numRuns: runs(2000, 30_000) },
  )
})

test('normalizes every spelling of an IPv6 address like a URL', () => {
  fc.assert(
    fc.property(groups, fc.nat(7), fc.nat(7), fc.boolean(), (values, from, to, isDotted) => {
      const plain = spell(values, 8, isDotted, -1)
      const short = spell(values, from, isDotted, to)
      const canonical = canonicalAddress(plain)
      assert.ok(canonical !== undefined)
      assert.equal(canonicalAddress(short), canonical)
      const isMapped = values.slice(0, 5).every((value) => value === 0) && values[5] === 0xffff
      assert.equal(isIP(canonical), isMapped ? 4 : 6)
      if (!isMapped) assert.equal(`[${canonical}]`, new URL(`http://[${plain}]/`).hostname)
    }),
    { numRuns: 3000 },
  )
})

test('normalizes every loose spelling of an IPv4 address like a URL', () => {
  const base = fc.constantFrom(8, 10, 16)
  fc.assert(
    fc.property(
      fc.tuple(byte, byte, byte, byte),
      fc.integer({ min: 1, max: 4 }),
      fc.array(base),
      (bytes, count, bases) => {
        const text = spellLoosely(bytes, count, bases)
        assert.equal(showIPv4(readLooseIPv4(text)), bytes.join('.'))
        assert.equal(new URL(`http://${text}/`).hostname, bytes.join('.'))
      },
    ),
    { numRuns: 3000 },
  )
})

test('rejects a number that is too large for its position, without overflow', () => {
  for (const text of ['4294967296', '0x100000000', '040000000000', '256.1', '1.16777216', '1.1.65536', '1.1.1.256']) {
    assert.equal(readLooseIPv4(text), -1, text)
  }
  for (const text of [
    `1${'0'.repeat(60)}`,
    `0x${'f'.repeat(60)}`,
    '',
    '.',
    '1.',
    '.1',
    '1..1',
    '-1',
    '0x1g',
    '09',
    '1.1.1.1.1',
  ]) {
    assert.equal(readLooseIPv4(text), -1, text)
  }
})

/** With `::` in place of the zeros from `from` to `to`, if there are only zeros, and the tail as IPv4 or not. */
function spell(values: readonly number[], from: number, isDotted: boolean, to: number): string {
  const [high = 0, low = 0] = values.slice(6)
  const hex = (part: readonly number[]): string =>
    part.map((value) => value.toString(16).toUpperCase().padStart(4, '0')).join(':')
  const canCut = from <= to && to < (isDotted ? 6 : 8) && values.slice(from, to + 1).every((value) => value === 0)
  const tail = isDotted ? showIPv4(high * 65536 + low) : hex([high, low])
  if (!canCut) return `${hex(values.slice(0, 6))}:${tail}`
  const after = isDotted
    ? [hex(values.slice(to + 1, 6)), tail].filter((part) => part !== '').join(':')
    : hex(values.slice(to + 1))
  return `${hex(values.slice(0, from))}::${after}`
}

function spellLoosely(bytes: readonly number[], count: number, bases: readonly number[]): string {
  const rest = bytes.slice(count - 1).reduce((value, next) => value * 256 + next, 0)
  const prefix: Readonly<Record<number, string>> = { 8: '0', 16: '0x' }
  return [...bytes.slice(0, count - 1), rest]
    .map((value, at) => `${prefix[bases[at] ?? 10] ?? ''}${value.toString(bases[at] ?? 10)}`)
    .join('.')
}
