import assert from 'node:assert/strict'
import { isIP } from 'node:net'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type CanonicalHost, parseHost } from './host.ts'
import { canonicalAddress } from './ip-address.ts'

const name = (text: string): CanonicalHost => ({ kind: 'name', text })
const address = (text: string): CanonicalHost => ({ kind: 'address', text })

const HOSTS: Readonly<Record<string, CanonicalHost | undefined>> = {
  'example.com': name('example.com'),
  'EXAMPLE.Com.': name('example.com'),
  localhost: name('localhost'),
  'a-b.c_d.example': name('a-b.c_d.example'),
  '-a.example': name('-a.example'),
  '1.2.3.x': name('1.2.3.x'),
  '0x7f.com': name('0x7f.com'),
  '3com': name('3com'),
  'face.b00c': name('face.b00c'),
  'a.0xg': name('a.0xg'),
  '127.0.0.1': address('127.0.0.1'),
  '127.0.0.1.': address('127.0.0.1'),
  '127.1': address('127.0.0.1'),
  '0x7F.1': address('127.0.0.1'),
  '017700000001': address('127.0.0.1'),
  '2130706433': address('127.0.0.1'),
  '010.8': address('8.0.0.8'),
  '::1': address('::1'),
  '[::1]': address('::1'),
  '[::ffff:10.0.0.5]': address('10.0.0.5'),
  '[2001:DB8:0:0::1]': address('2001:db8::1'),
  '1.2.3.4.5': undefined,
  'a.1': undefined,
  'a.0x': undefined,
  '127.0.0.1..': undefined,
  '[::1].': undefined,
  '::1.': undefined,
  '::1%lo': undefined,
  'a:b': undefined,
  'example.com:443': undefined,
  '': undefined,
}

suite('parses a text into one host or none', () => {
  for (const [text, host] of Object.entries(HOSTS)) {
    test(`${JSON.stringify(text)} is ${host ? `the ${host.kind} ${host.text}` : 'no host'}`, () => {
      assert.deepEqual(parseHost(text), host)
    })
  }
})

const pieces = [
  ...[
    'a',
    'B',
    'example',
    'Com',
    'xn--a',
    '_',
    '-',
    '.',
    '.',
    '.',
    '..',
    '0',
    '1',
    '08',
    '127',
    '256',
    '0x',
    '0x7f',
    'ff',
  ],
  ...[
    ':',
    '::',
    '[',
    ']',
    '%',
    '/',
    '\\',
    '@',
    ' ',
    '\0',
    '\n',
    '\r',
    '\t',
    'é',
    '\u212a',
    '\u3002',
    '\u0130',
    '\ud800',
  ],
  ...['a'.repeat(62), 'b.'.repeat(120)],
]
const soup = fc.array(fc.constantFrom(...pieces), { maxLength: 9 }).map((parts) => parts.join(''))
/** Only characters that can occur in a host, or nearly all texts would be rejected at once. */
const likely = fc
  .array(fc.constantFrom('a', 'Z', '0', '1', '7', '255', '0x', 'f', 'example', '.', '.', '-'), { maxLength: 12 })
  .map((parts) => parts.join(''))
const text = fc.oneof(soup, likely, likely, fc.string({ unit: 'binary', maxLength: 20 }))

test('parses thousands of texts into one canonical host or none, and repairs nothing', () => {
  const seen = { name: 0, address: 0, none: 0 }
  const tries = runs(5000, 20_000)
  fc.assert(
    fc.property(text, (given) => {
      const host = parseHost(given)
      seen[host?.kind ?? 'none']++
      if (host) checkCanonical(host, given)
    }),
    { numRuns: tries },
  )
  assert.ok(Math.min(seen.name, seen.address, seen.none) > tries / 100, `hardly tried: ${JSON.stringify(seen)}`)
})

function checkCanonical(host: CanonicalHost, given: string): void {
  // Parsing the canonical text gives the same host, so it has no second canonical spelling.
  const again = parseHost(host.text)
  assert.ok(again && again.kind === host.kind && again.text === host.text)
  if (host.kind === 'address') {
    assert.equal(canonicalAddress(host.text), host.text)
    return
  }
  assert.match(host.text, /^(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$/)
  assert.equal(
    host.text,
    given.replace(/\.$/, '').replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
  )
  assert.equal(isIP(host.text), 0)
  // What other programs read as an address must never be matched as a name.
  const other = URL.parse(`http://${host.text}/`)?.hostname
  if (other !== undefined) assert.equal(other, host.text)
}
