// Parsers and policy together, attack by attack; each row is tried as a CONNECT and as a plain request.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { type CanonicalHost, parseHost } from '../address/host.ts'
import { parseAbsoluteTarget, parseAuthority } from '../address/host-port.ts'
import { parseAllowlistEntry } from './allowlist-entry.ts'
import { type CompiledSource, compileSource, evaluatePolicy, explainVerdict } from './policy.ts'

type Outcome = 'allow' | 'deny' | 'address' | 'malformed'

interface Case {
  readonly allowlist: readonly string[]
  readonly outcomes: Readonly<Record<string, Outcome>>
}

const GITHUB = ['github.com']
const EXAMPLE = ['example.com']
const label = (length: number): string => 'a'.repeat(length)
/** A name of this many characters, in labels of one or two. */
const nameOf = (length: number): string => `${'a.'.repeat((length - 3) >> 1)}${length % 2 === 0 ? 'b' : ''}com`

const CASES: Readonly<Record<string, Case>> = {
  'a listed name, the names below it, however deep, and no other': {
    allowlist: GITHUB,
    outcomes: {
      'github.com': 'allow',
      'api.github.com': 'allow',
      'a.b.c.d.e.github.com': 'allow',
      'GITHUB.com': 'allow',
      'github.com.': 'allow',
      'evil.com': 'deny',
    },
  },
  'an entry in capitals': { allowlist: ['GitHub.COM'], outcomes: { 'github.com': 'allow', 'api.github.com': 'allow' } },
  'an empty list': { allowlist: [], outcomes: { 'github.com': 'deny', localhost: 'deny' } },
  'several entries': {
    allowlist: ['foo.com', 'bar.org', 'baz.net'],
    outcomes: { 'api.bar.org': 'allow', 'baz.net': 'allow', 'foo.org': 'deny', 'bar.org.foo.net': 'deny' },
  },
  'a suffix that does not start at a dot': {
    allowlist: ['hub.com'],
    outcomes: { 'github.com': 'deny', 'hub.com': 'allow', 'git.hub.com': 'allow' },
  },
  'capitals and one final dot, on either side': {
    allowlist: ['GITHUB.com.'],
    outcomes: { 'GitHub.COM.': 'allow', 'github.com': 'allow', 'API.GitHub.com.': 'allow' },
  },
  'empty labels, leading and doubled dots, nothing at all': {
    allowlist: ['a.com', 'b.com', 'x.com'],
    outcomes: {
      'a..b.com': 'malformed',
      'a..com': 'malformed',
      '.a.com': 'malformed',
      'a.com..': 'malformed',
      'a.com...': 'malformed',
      'x..': 'malformed',
      '.': 'malformed',
      '..': 'malformed',
      '': 'malformed',
    },
  },
  'characters that end or bend a name elsewhere': {
    allowlist: EXAMPLE,
    outcomes: Object.fromEntries(
      [
        '\0',
        '\r',
        '\n',
        '\r\n',
        ' ',
        '\t',
        '\\',
        '@',
        '%',
        '\x7f',
        '\x0b',
        '|',
        ',',
        ';',
        '"',
        '<',
        '^',
        '&',
        '=',
      ].flatMap((bad) => [
        [`evil.test${bad}.example.com`, 'malformed'],
        [`${bad}example.com`, 'malformed'],
        [`example.com${bad}`, 'malformed'],
      ]),
    ),
  },
  'a zone behind an IPv6 address that ends in an allowed name': {
    allowlist: EXAMPLE,
    outcomes: {
      '[::ffff:1.2.3.4%x.example.com]': 'malformed',
      '[::1%25x.example.com]': 'malformed',
      '[fe80::1%eth0]': 'malformed',
      '[::1].example.com': 'malformed',
      '[::1]example.com': 'malformed',
    },
  },
  'an IPv4 address in the spellings of inet_aton': {
    allowlist: EXAMPLE,
    outcomes: {
      '127.1': 'address',
      '127.0.1': 'address',
      '0x7f.1': 'address',
      '0X7F.0X1': 'address',
      '2130706433': 'address',
      '017700000001': 'address',
      '0177.0.0.01': 'address',
      '127.0.0.1.': 'address',
      '0x7f000001': 'address',
      '0': 'address',
      '0x': 'address',
      '1.2.3.4.5': 'malformed',
      '256.1.1.1': 'malformed',
      '1.2.3.256': 'malformed',
      '4294967296': 'malformed',
      '08.1.1.1': 'malformed',
      '1.2.3.0x': 'address',
      'example.com.1': 'malformed',
      'example.0x1f': 'malformed',
      '1.2.3.4.example.com': 'allow',
    },
  },
  'brackets around a name': {
    allowlist: EXAMPLE,
    outcomes: {
      '[example.com]': 'malformed',
      '[example.com': 'malformed',
      'example.com]': 'malformed',
      '[[::1]]': 'malformed',
      '[]': 'malformed',
      '[127.0.0.1]': 'malformed',
      '[v1.example.com]': 'malformed',
    },
  },
  'characters that Unicode folds into ASCII, and percent signs': {
    allowlist: ['example.com', 'kernel.org', 'info.test'],
    outcomes: {
      'exa%6dple.com': 'malformed',
      '\uff45xample.com': 'malformed',
      'example\u3002com': 'malformed',
      'example\uff0ecom': 'malformed',
      'exam\u00adple.com': 'malformed',
      '\u212aernel.org': 'malformed',
      '\u0130nfo.test': 'malformed',
      '\u0131nfo.test': 'malformed',
      'ex\u200dample.com': 'malformed',
      '\u017fexample.com': 'malformed',
      'example.com\u00a0': 'malformed',
      // The same as they arrive, one character per byte.
      'example\xe3\x80\x82com': 'malformed',
      '\xe2\x84\xaaernel.org': 'malformed',
    },
  },
  'an entry in punycode is compared as it is written': {
    allowlist: ['xn--bcher-kva.example'],
    outcomes: {
      'XN--BCHER-KVA.example': 'allow',
      'www.xn--bcher-kva.example': 'allow',
      'b\xfccher.example': 'malformed',
      'bucher.example': 'deny',
    },
  },
  'labels of 63 and names of 253 characters are the longest': {
    allowlist: EXAMPLE,
    outcomes: {
      [`${label(63)}.example.com`]: 'allow',
      [`${label(64)}.example.com`]: 'malformed',
      [`example.${label(63)}`]: 'deny',
      [`example.${label(64)}`]: 'malformed',
      [nameOf(253)]: 'deny',
      [`${nameOf(253)}.`]: 'deny',
      [nameOf(254)]: 'malformed',
      [`${nameOf(254)}.`]: 'malformed',
    },
  },
  'underscores are in use': {
    allowlist: ['example.com', '_tcp.x.org'],
    outcomes: { '_acme-challenge.example.com': 'allow', 'foo_bar.example.com': 'allow', '_sip._tcp.x.org': 'allow' },
  },
  'a user before the host': {
    allowlist: EXAMPLE,
    outcomes: {
      'a@example.com': 'malformed',
      'a:b@example.com': 'malformed',
      'example.com:1@evil.test': 'malformed',
      'example.com@evil.test': 'malformed',
      '@example.com': 'malformed',
      'example.com%40evil.test': 'malformed',
      'example.com:80:80': 'malformed',
    },
  },
  'names that a plain object already has': {
    allowlist: ['example.com', '__proto__.test'],
    outcomes: {
      // In capitals, since this table itself is a plain object.
      __PROTO__: 'deny',
      CONSTRUCTOR: 'deny',
      hasownproperty: 'deny',
      'tostring.com': 'deny',
      '__proto__.test': 'allow',
      'constructor.example.com': 'allow',
    },
  },
  'a parent, a sibling, a name that only looks alike': {
    allowlist: ['www.example.com'],
    outcomes: {
      'example.com': 'deny',
      com: 'deny',
      'ftp.example.com': 'deny',
      'notwww.example.com': 'deny',
      'www.notexample.com': 'deny',
      'www.example.com.evil.test': 'deny',
      'www-example.com': 'deny',
      'wwwxexample.com': 'deny',
    },
  },
  'capitals and one dot are the same name, two dots and blanks are none': {
    allowlist: EXAMPLE,
    outcomes: {
      'EXAMPLE.com': 'allow',
      'example.com.': 'allow',
      'example.com..': 'malformed',
      '.example.com': 'malformed',
      ' example.com': 'malformed',
    },
  },
  'below a listed name': { allowlist: EXAMPLE, outcomes: { 'a.b.example.com': 'allow' } },
  'addresses, however they are written': {
    allowlist: EXAMPLE,
    outcomes: {
      '127.0.0.1': 'address',
      '1.2.3.4': 'address',
      '[::1]': 'address',
      '[::]': 'address',
      '[::ffff:127.0.0.1]': 'address',
      '[::FFFF:7F00:1]': 'address',
      '[2001:db8::1]': 'address',
      '[fe80::1%25eth0]': 'malformed',
      '::1': 'malformed',
    },
  },
  'line ends, NUL and Unicode dots, raw or escaped': {
    allowlist: EXAMPLE,
    outcomes: {
      'example.com\0.evil.test': 'malformed',
      'evil.test\r\nHost:example.com': 'malformed',
      'evil.test%00.example.com': 'malformed',
      'evil.test%0d%0a.example.com': 'malformed',
      'example\uff61com': 'malformed',
    },
  },
}

function sourceOf(allowlist: readonly string[]): CompiledSource {
  const names = allowlist.map((text) => {
    const entry = parseAllowlistEntry(text)
    assert.ok('host' in entry, `${text} must be an entry`)
    return entry.host
  })
  return compileSource({ ip: '10.0.0.5', id: 'team', allowlist: names })
}

function outcomeOf(source: CompiledSource, host: CanonicalHost | undefined): Outcome {
  if (!host) return 'malformed'
  const { allow, reason } = evaluatePolicy(source, host)
  if (allow) return 'allow'
  return reason === 'ip-literal' ? 'address' : 'deny'
}

function askPlain(target: string): CanonicalHost | undefined {
  const parsed = parseAbsoluteTarget(target)
  return parsed.kind === 'target' ? parsed.host : undefined
}

for (const [sentence, { allowlist, outcomes }] of Object.entries(CASES)) {
  suite(sentence, () => {
    const source = sourceOf(allowlist)
    for (const [text, outcome] of Object.entries(outcomes)) {
      test(`${JSON.stringify(text)} is ${outcome}`, () => {
        assert.equal(outcomeOf(source, parseAuthority(`${text}:443`)?.host), outcome, 'in a CONNECT')
        assert.equal(outcomeOf(source, askPlain(`http://${text}/`)), outcome, 'in a plain request')
        assert.equal(outcomeOf(source, askPlain(`http://${text}`)), outcome, 'in a plain request without a path')
      })
    }
  })
}

test('ends the host of a plain request at / ? #, and rejects those in a CONNECT', () => {
  for (const mark of ['/', '?', '#']) {
    assert.equal(parseAuthority(`evil.test${mark}.example.com:443`), undefined)
    assert.equal(parseAuthority(`example.com:443${mark}`), undefined)
  }
  const source = sourceOf(EXAMPLE)
  assert.equal(outcomeOf(source, askPlain('http://evil.test/.example.com/')), 'deny')
  assert.equal(outcomeOf(source, askPlain('http://evil.test?.example.com/')), 'deny')
  assert.equal(outcomeOf(source, askPlain('http://evil.test/@example.com/')), 'deny')
  assert.equal(outcomeOf(source, askPlain('http://evil.test#.example.com/')), 'malformed')
  assert.equal(outcomeOf(source, askPlain('http://evil.test\\.example.com/')), 'malformed')
})

test('allows no address, since an address is not a valid entry', () => {
  for (const text of ['1.2.3.4', '127.1', '::1', '10.0.0.0/8', '*', '*.com']) {
    assert.ok('fault' in parseAllowlistEntry(text), text)
  }
  // Even if one were stored by an older version or by hand.
  const source = compileSource({ ip: '10.0.0.5', id: 'team', allowlist: ['1.2.3.4', '*', ''] })
  for (const text of ['1.2.3.4', 'github.com', '[::1]']) {
    assert.equal(evaluatePolicy(source, mustParse(text)).allow, false, text)
  }
})

test('denies an unregistered source without details', () => {
  for (const text of ['github.com', '127.0.0.1']) {
    assert.deepEqual(evaluatePolicy(undefined, mustParse(text)), { allow: false, reason: 'unregistered-source' })
  }
})

test('reports the longest entry that allows', () => {
  const source = sourceOf(['example.com', 'api.example.com', 'b.api.example.com'])
  assert.equal(evaluatePolicy(source, mustParse('a.api.example.com')).rule, 'api.example.com')
  assert.equal(evaluatePolicy(source, mustParse('www.example.com')).rule, 'example.com')
  assert.equal(evaluatePolicy(source, mustParse('example.org')).rule, undefined)
})

test('explains every verdict in a sentence', () => {
  const source = sourceOf(EXAMPLE)
  const say = (text: string, from: CompiledSource | undefined = source, id?: string): string => {
    const host = mustParse(text)
    return explainVerdict(evaluatePolicy(from, host), host, id)
  }
  assert.equal(say('example.com'), 'example.com is allowed: it is in the allowlist.')
  assert.equal(say('a.example.com'), 'a.example.com is allowed: it is below example.com, which is in the allowlist.')
  assert.equal(
    say('evil.test', source, 'team'),
    'evil.test is denied: neither it nor a name above it is in the allowlist of team.',
  )
  assert.equal(say('127.1'), '127.0.0.1 is denied: it is an IP address, and only host names can be allowed.')
  const host = mustParse('example.com')
  assert.equal(
    explainVerdict(evaluatePolicy(undefined, host), host),
    'example.com is denied: the source is not registered, so it may reach nothing.',
  )
})

test('allows exactly the host and port of an endpoint, and no name below it', () => {
  const endpoints = [
    { host: 'api.model.test', port: 443 },
    { host: '10.0.0.5', port: 8080 },
    { host: '::1', port: 11434 },
  ]
  const source = compileSource({ ip: 'socket:1', id: 'team', allowlist: EXAMPLE }, endpoints)
  const allowed = (text: string, port?: number): boolean => evaluatePolicy(source, mustParse(text), port).allow
  assert.deepEqual(evaluatePolicy(source, mustParse('API.model.test.'), 443), {
    allow: true,
    reason: 'allowed',
    rule: 'api.model.test:443',
    isEndpoint: true,
  })
  assert.equal(evaluatePolicy(source, mustParse('[::1]'), 11434).rule, '[::1]:11434')
  assert.equal(evaluatePolicy(source, mustParse('10.0.5'), 8080).rule, '10.0.0.5:8080')
  for (const port of [442, 444, 80]) assert.equal(allowed('api.model.test', port), false)
  assert.equal(allowed('a.api.model.test', 443), false)
  assert.equal(allowed('model.test', 443), false)
  assert.equal(allowed('api.model.test'), false)
  assert.deepEqual(evaluatePolicy(source, mustParse('10.0.0.5'), 8081), { allow: false, reason: 'ip-literal' })
  assert.deepEqual(evaluatePolicy(source, mustParse('10.0.0.6'), 8080), { allow: false, reason: 'ip-literal' })
  assert.deepEqual(evaluatePolicy(source, mustParse('a.example.com'), 8080), {
    allow: true,
    reason: 'allowed',
    rule: 'example.com',
  })
})

/** A second implementation: labels as arrays, entry by entry. */
function findRule(allowlist: readonly string[], name: string): string | undefined {
  const labels = name.split('.')
  const rules = allowlist.filter((entry) => {
    const wanted = entry.split('.')
    const tail = labels.slice(Math.max(labels.length - wanted.length, 0))
    return tail.length === wanted.length && tail.every((part, at) => part === wanted[at])
  })
  return rules.sort((a, b) => b.length - a.length)[0]
}

test('agrees with an implementation that compares labels one by one', () => {
  const part = fc.constantFrom('a', 'b', 'aa', 'a-b', '_a', 'com', 'acom', 'example', 'notexample')
  const name = fc.array(part, { minLength: 1, maxLength: 6 }).map((parts) => parts.join('.'))
  let allowed = 0
  const tries = runs(2000, 20_000)
  fc.assert(
    fc.property(fc.array(name, { maxLength: 12 }), name, (allowlist, text) => {
      const source = compileSource({ ip: '10.0.0.5', id: 'team', allowlist })
      const { allow, reason, rule } = evaluatePolicy(source, { kind: 'name', text })
      assert.equal(rule, findRule(allowlist, text))
      assert.equal(allow, rule !== undefined)
      assert.equal(reason, allow ? 'allowed' : 'blocked-by-allowlist')
      if (allow) allowed++
    }),
    { numRuns: tries },
  )
  const share = allowed / tries
  assert.ok(share > 0.05 && share < 0.95, `${share} of them were allowed, so one side was hardly tried`)
})

function mustParse(text: string): CanonicalHost {
  const host = parseHost(text)
  assert.ok(host, `${text} must be a host`)
  return host
}
