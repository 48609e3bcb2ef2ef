import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { parseHost } from '../address/host.ts'
import { parseAllowlistEntry } from './allowlist-entry.ts'

const FAULTS: Readonly<Record<string, string>> = {
  // Would match everything, or nearly.
  '': '"" is empty; write a host name.',
  '.': '"." starts with a dot; a name already covers all names below it.',
  '*': '"*" would allow every host; list each host.',
  com: '"com" would allow every name that ends in .com; write the host itself, such as example.com.',
  'COM.': '"com" would allow every name that ends in .com; write the host itself, such as example.com.',
  uk: '"uk" would allow every name that ends in .uk; write the host itself, such as example.uk.',
  'xn--p1ai':
    '"xn--p1ai" would allow every name that ends in .xn--p1ai; write the host itself, such as example.xn--p1ai.',
  '*.com': '"*.com" has a wildcard; a name already covers all names below it.',
  // Would silently never match.
  '*.example.com': '"*.example.com" has a wildcard; a name already covers all names below it: write example.com.',
  'api.*.example.com': '"api.*.example.com" has a wildcard; a name already covers all names below it.',
  '.example.com': '".example.com" starts with a dot; a name already covers all names below it: write example.com.',
  'https://Example.com': '"https://Example.com" is a URL; an entry is a host name alone: write example.com.',
  'https://a@example.com:8443/x':
    '"https://a@example.com:8443/x" is a URL; an entry is a host name alone: write example.com.',
  'https://1.2.3.4/': '"https://1.2.3.4/" is a URL; an entry is a host name alone.',
  'https://com/': '"https://com/" is a URL; an entry is a host name alone.',
  'example.com:443': '"example.com:443" has a port; an entry is a host name alone, at any port: write example.com.',
  'example.com/path': '"example.com/path" has a path; an entry is a host name alone: write example.com.',
  '10.0.0.0/8': '"10.0.0.0/8" is a range of IP addresses; an entry is a host name.',
  'fd00::/8': '"fd00::/8" is a range of IP addresses; an entry is a host name.',
  '1.2.3.4': '"1.2.3.4" is an IP address; an entry is a host name.',
  '127.1': '"127.1" is an IP address; an entry is a host name.',
  '2130706433': '"2130706433" is an IP address; an entry is a host name.',
  '::1': '"::1" is an IP address; an entry is a host name.',
  '[::1]': '"[::1]" is an IP address; an entry is a host name.',
  '1.2.3.4:80': '"1.2.3.4:80" has a port; an entry is a host name alone, at any port.',
  ' example.com': '" example.com" contains a blank or a control character: write example.com.',
  'example.com\n': '"example.com\\n" contains a blank or a control character: write example.com.',
  'a.com b.com': '"a.com b.com" contains a blank or a control character.',
  'example.com\0': '"example.com\\u0000" contains a blank or a control character.',
  // The spelling in the DNS.
  'Bücher.example': '"Bücher.example" is not ASCII; names are compared in their DNS form: write xn--bcher-kva.example.',
  'example。com': '"example。com" is not ASCII; names are compared in their DNS form: write example.com.',
  '\u212aernel.org': '"\u212aernel.org" is not ASCII; names are compared in their DNS form: write kernel.org.',
  '１.2.3.4': '"１.2.3.4" is not ASCII; names are compared in their DNS form.',
  // Must not reverse or hide text on a terminal.
  'a\u202eb.com': '"a\\u{202e}b.com" is not ASCII; names are compared in their DNS form.',
}

const NOT_NAMES = [
  'a..b',
  'a.com..',
  'a@b.com',
  'a%2eb.com',
  'a,b',
  '[example.com]',
  'a.com:x',
  `${'a'.repeat(64)}.com`,
  '1.2.3.4.5',
]

suite('rejects an entry that would match nothing or everything, by name', () => {
  for (const [text, fault] of Object.entries(FAULTS)) {
    test(JSON.stringify(text), () => assert.deepEqual(parseAllowlistEntry(text), { fault }))
  }
  for (const text of NOT_NAMES) {
    test(JSON.stringify(text), () => {
      const entry = parseAllowlistEntry(text)
      assert.ok('fault' in entry && entry.fault.startsWith(`"${text}" is not a host name, which has labels`))
    })
  }
})

test('stores an entry in canonical spelling', () => {
  for (const [text, host] of Object.entries({
    'example.com': 'example.com',
    'GITHUB.com.': 'github.com',
    'XN--BCHER-KVA.example': 'xn--bcher-kva.example',
    '_acme-challenge.foo_bar.org': '_acme-challenge.foo_bar.org',
    '1.2.3.4.example.com': '1.2.3.4.example.com',
    'constructor.example': 'constructor.example',
  })) {
    assert.deepEqual(parseAllowlistEntry(text), { host }, text)
  }
})

test('accepts a single label that is not a top-level domain', () => {
  for (const text of ['localhost', 'intranet', 'Registry.', '__proto__', 'constructor', 'internal', 'db']) {
    assert.deepEqual(parseAllowlistEntry(text), { host: text.toLowerCase().replace('.', '') })
  }
})

test('does not repeat a long entry in full', () => {
  const entry = parseAllowlistEntry('ü'.repeat(1_000_000))
  assert.ok('fault' in entry && entry.fault.length < 300)
})

test('returns a canonical entry or a printable error for any text', () => {
  const piece = fc.constantFrom(
    ...['a', 'B', '.', '*', ':', '/', '://', '@', '1', '443', 'com', 'é', '\u202e', '\0', '\x9b', ' ', '[', '::'],
  )
  const text = fc.oneof(
    fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
    fc.string({ unit: 'binary' }),
  )
  fc.assert(
    fc.property(text, (given) => {
      const entry = parseAllowlistEntry(given)
      if ('fault' in entry) return assert.match(entry.fault, /^"\P{C}*" \P{C}+\.$/u)
      assert.deepEqual(parseHost(given), { kind: 'name', text: entry.host })
      const again = parseAllowlistEntry(entry.host)
      assert.ok('host' in again && again.host === entry.host)
    }),
    { numRuns: 2000 },
  )
})
