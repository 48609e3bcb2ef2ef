import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import {
  type AbsoluteTarget,
  parseAbsoluteTarget,
  parseAuthority,
  parseHostHeader,
  showAuthority,
} from './host-port.ts'

const BAD_PORTS = [
  ...[
    '',
    '0',
    '00',
    '65536',
    '71538',
    '99999',
    '100000',
    '4294967739',
    '-1',
    '+443',
    '0443',
    '00443',
    '443x',
    'x443',
    '443abc',
  ],
  ...[
    ' 443',
    '443 ',
    '443\0',
    '443\r',
    '4 43',
    '4e2',
    '0x1bb',
    '443.0',
    '443/',
    '443?',
    '443#',
    '443:',
    ':443',
    '٤٤٣',
    '４４３',
  ],
]

suite('requires a port from 1 to 65535 in plain decimal for CONNECT', () => {
  for (const port of [1, 22, 80, 443, 8443, 65_535]) {
    test(`accepts ${port}`, () => assert.equal(parseAuthority(`example.com:${port}`)?.port, port))
  }
  for (const port of BAD_PORTS) {
    test(`rejects ${JSON.stringify(port)}`, () => {
      assert.equal(parseAuthority(`example.com:${port}`), undefined)
      assert.equal(parseAuthority(`[::1]:${port}`), undefined)
      if (port !== '') assert.equal(parseHostHeader(`example.com:${port}`), undefined)
    })
  }
  test('rejects a CONNECT without port', () => {
    for (const text of ['example.com', '[::1]', '1.2.3.4', '', ':', ':443', '443']) {
      assert.equal(parseAuthority(text), undefined, text)
    }
  })
})

test('rejects a user before the host of a CONNECT', () => {
  for (const text of ['a@b:443', 'a:b@c:443', 'allowed.test:1@evil.test:443', '@b:443', 'a@[::1]:443', 'b:443@a']) {
    assert.equal(parseAuthority(text), undefined, text)
  }
})

test('rejects IPv6 without brackets, whose last group could be the port', () => {
  for (const text of ['::1:443', '2001:db8::1:443', '1:2:3:4:5:6:7:8:443', '::ffff:1.2.3.4:443']) {
    assert.equal(parseAuthority(text), undefined, text)
    assert.equal(parseHostHeader(text), undefined, text)
  }
  assert.deepEqual(parseAuthority('[2001:DB8::1]:443'), { host: { kind: 'address', text: '2001:db8::1' }, port: 443 })
})

test('accepts a Host header without port or with an empty one', () => {
  const host = { kind: 'name', text: 'example.com' }
  assert.deepEqual(parseHostHeader('Example.com'), { host, port: undefined })
  assert.deepEqual(parseHostHeader('example.com.:8080'), { host, port: 8080 })
  assert.deepEqual(parseHostHeader('example.com:'), { host, port: undefined })
  assert.deepEqual(parseHostHeader('[::1]:'), { host: { kind: 'address', text: '::1' }, port: undefined })
  assert.deepEqual(parseHostHeader('[::1]'), { host: { kind: 'address', text: '::1' }, port: undefined })
})

test('rejects a Host header that is empty, a list, a URL or has a user', () => {
  for (const text of [
    '',
    ':',
    ':80',
    ' ',
    'a b',
    'a.test,b.test',
    'a.test, b.test',
    'a@b',
    'http://a',
    'a/',
    '[::1',
    '[::1]x',
  ]) {
    assert.equal(parseHostHeader(text), undefined, text)
  }
})

test('formats an authority with brackets around IPv6 and without the default port', () => {
  const name = { kind: 'name', text: 'example.com' } as const
  const v6 = { kind: 'address', text: '::1' } as const
  assert.equal(showAuthority(name, 80, 80), 'example.com')
  assert.equal(showAuthority(name, 8080, 80), 'example.com:8080')
  assert.equal(showAuthority(v6, 80, 80), '[::1]')
  assert.equal(showAuthority(v6, 443, 80), '[::1]:443')
  assert.equal(showAuthority({ kind: 'address', text: '10.0.0.5' }, 443, 80), '10.0.0.5:443')
})

const target = (text: string, port: number, path: string): AbsoluteTarget => ({
  kind: 'target',
  host: { kind: 'name', text },
  port,
  path,
})
const scheme = (text: string): AbsoluteTarget => ({ kind: 'scheme', scheme: text })
const MALFORMED: AbsoluteTarget = { kind: 'malformed' }

const TARGETS: Readonly<Record<string, AbsoluteTarget>> = {
  'http://example.com/': target('example.com', 80, '/'),
  'http://example.com': target('example.com', 80, '/'),
  'HTTP://Example.COM.:8080/A?b=C': target('example.com', 8080, '/A?b=C'),
  'http://example.com:80/x': target('example.com', 80, '/x'),
  'http://example.com:/x': target('example.com', 80, '/x'),
  'http://example.com?q': target('example.com', 80, '/?q'),
  'http://example.com/?': target('example.com', 80, '/?'),
  'http://example.com//a/../b/./%2e%2e/%0d%0a': target('example.com', 80, '//a/../b/./%2e%2e/%0d%0a'),
  'http://example.com/http://other.test/@x:1': target('example.com', 80, '/http://other.test/@x:1'),
  'http://example.com/{a}|b\\c"<>^`\xc3\xa9\x80': target('example.com', 80, '/{a}|b\\c"<>^`\xc3\xa9\x80'),
  'http://[::1]:8080/x': { kind: 'target', host: { kind: 'address', text: '::1' }, port: 8080, path: '/x' },
  'https://example.com/': { kind: 'https' },
  'HTTPS://example.com:80/': { kind: 'https' },
  'https://': { kind: 'https' },
  'ftp://example.com/': scheme('ftp'),
  'Gopher://example.com/': scheme('gopher'),
  'file:///etc/passwd': scheme('file'),
  'ws://example.com/': scheme('ws'),
  'httpx://example.com/': scheme('httpx'),
  'view-source+http://example.com/': scheme('view-source+http'),
  'http://example.com/#x': MALFORMED,
  'http://example.com#x': MALFORMED,
  'http://user@example.com/': MALFORMED,
  'http://user:pass@example.com/': MALFORMED,
  'http://example.com@evil.test/': MALFORMED,
  'http://@example.com/': MALFORMED,
  'http://example.com:0/': MALFORMED,
  'http://example.com:65536/': MALFORMED,
  'http://example.com:080/': MALFORMED,
  'http://example.com:80:80/': MALFORMED,
  'http://::1/': MALFORMED,
  'http:///x': MALFORMED,
  'http://': MALFORMED,
  'http://?': MALFORMED,
  'http://:80/': MALFORMED,
  'http:/example.com/': MALFORMED,
  'http:example.com': MALFORMED,
  'http:\\\\example.com\\': MALFORMED,
  'http://example.com\\@evil.test/': MALFORMED,
  ' http://example.com/': MALFORMED,
  '\thttp://example.com/': MALFORMED,
  'ht\ntp://example.com/': MALFORMED,
  '://example.com/': MALFORMED,
  '1http://example.com/': MALFORMED,
  '//example.com/': MALFORMED,
  '/': MALFORMED,
  '*': MALFORMED,
  '': MALFORMED,
  'example.com': MALFORMED,
  'example.com:443': MALFORMED,
  'mailto:a@example.com': MALFORMED,
  'http://example.com/a b': MALFORMED,
  'http://example.com/a\tb': MALFORMED,
  'http://example.com/\r\nX-Evil: 1': MALFORMED,
  'http://example.com/\0': MALFORMED,
  'http://example.com/\x7f': MALFORMED,
  // Cut to a byte this is a line feed: a request within a request.
  'http://example.com/\u010a': MALFORMED,
}

suite('the target of a plain request is http, a host, and a path that is handed on byte for byte', () => {
  for (const [text, expected] of Object.entries(TARGETS)) {
    const what = expected.kind === 'target' ? `the path ${JSON.stringify(expected.path)} there` : expected.kind
    test(`${JSON.stringify(text)} is ${what}`, () => assert.deepEqual(parseAbsoluteTarget(text), expected))
  }
})

const join = (pieces: readonly string[], maxLength: number): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...pieces), { maxLength }).map((parts) => parts.join(''))
const host = fc.oneof(
  fc.constantFrom(
    'example.com',
    'A.Example.COM.',
    '127.1',
    '[::1]',
    '[::FFFF:1.2.3.4]',
    '0x7f.1',
    'localhost',
    '::1',
    'a..b',
  ),
  join(['a', 'B', '.', '.', '0', '1', 'x', '[', ']', ':', '@', '%', '\0', 'é', '\u212a'], 7),
)
const port = fc.oneof(
  fc.nat(70_000).map((number) => `:${number}`),
  join([':', '0', '4', '43', '+', ' ', '65536', '٤', 'x'], 4),
)
const authority = fc.oneof(
  fc.tuple(host, port).map((parts) => parts.join('')),
  fc.string({ unit: 'binary', maxLength: 12 }),
)
const path = fc.oneof(
  join(['/', '?', 'a', '%0a', '\xe9', '@', ':', '//', '..', '\\'], 5).map((rest) => `/${rest}`),
  join(['/', '?', '#', 'a', '%0a', ' ', '\r', '\n', '\xe9', '\u010a', '@', ':', '//', '..', '\\', '\x7f'], 5),
)
const start = fc.constantFrom(
  'http://',
  'http://',
  'http://',
  'HTTP://',
  'https://',
  'ftp://',
  'http:/',
  '//',
  '',
  ' http://',
)

test('parses thousands of authorities into one host and port or nothing, and formats them back', () => {
  let parsed = 0
  const tries = runs(5000, 20_000)
  fc.assert(
    fc.property(authority, (text) => {
      const found = parseAuthority(text)
      if (!found) return
      parsed++
      assert.match(text, /^[\w.:[\]-]+$/)
      assert.ok(Number.isInteger(found.port) && found.port >= 1 && found.port <= 65_535)
      assert.ok(text.endsWith(`:${found.port}`))
      const again = parseAuthority(showAuthority(found.host, found.port, 0))
      assert.ok(again && again.port === found.port)
      assert.ok(again.host.kind === found.host.kind && again.host.text === found.host.text)
    }),
    { numRuns: tries },
  )
  assert.ok(parsed > tries / 20, `only ${parsed} were any`)
})

test('classifies thousands of targets and keeps the path unchanged', () => {
  let parsed = 0
  const tries = runs(5000, 20_000)
  const text = fc.tuple(start, host, fc.oneof(port, fc.constantFrom('', ':8080')), path).map((parts) => parts.join(''))
  fc.assert(
    fc.property(fc.oneof({ arbitrary: text, weight: 9 }, fc.string({ unit: 'binary' })), (given) => {
      const found = parseAbsoluteTarget(given)
      if (found.kind !== 'target') return
      parsed++
      assert.match(found.path, /^\/[\x21\x22\x24-\x7e\x80-\xff]*$/)
      assert.ok(found.path === '/' || given.endsWith(found.path) || given.endsWith(found.path.slice(1)))
      assert.match(given, /^http:\/\/[\w.:[\]-]+([/?]|$)/i)
      const again = parseAbsoluteTarget(`http://${showAuthority(found.host, found.port, 80)}${found.path}`)
      assert.ok(again.kind === 'target' && again.port === found.port && again.path === found.path)
      assert.ok(again.host.kind === found.host.kind && again.host.text === found.host.text)
    }),
    { numRuns: tries },
  )
  assert.ok(parsed > tries / 20, `only ${parsed} were any`)
})
