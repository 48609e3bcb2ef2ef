import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { matchRedirectUri, parseRedirectUri } from './redirect-uri.ts'

const GOOD = 'https://good.example/cb'

suite('a redirect URI', () => {
  test('is https, http on loopback, or of an app’s own scheme', () => {
    const kinds: Record<string, string> = {
      [GOOD]: 'https',
      'https://good.example': 'https',
      'https://good.example:8443/cb?x=1': 'https',
      'http://localhost:3000/callback': 'loopback',
      'http://127.0.0.1/': 'loopback',
      'http://127.0.0.1:5': 'loopback',
      'http://[::1]:5/cb': 'loopback',
      'com.example.app:/oauth': 'private',
      'cursor://anysphere.cursor-mcp/oauth/callback': 'private',
    }
    for (const [uri, kind] of Object.entries(kinds)) assert.equal(parseRedirectUri(uri)?.kind, kind, uri)
  })

  const REFUSED: readonly string[] = [
    ...['', 'cb', '/cb', '//good.example/cb', 'https:', 'https://', 'https:good.example/cb', 'https:///cb'],
    ...[
      'http://good.example/cb',
      'http://localhost.evil.example/',
      'http://127.0.0.2/',
      'http://0.0.0.0/',
      'http://127.1/',
    ],
    ...['http://2130706433/', 'http://0177.0.0.1/', 'http://[::ffff:127.0.0.1]/', 'http://LOCALHOST/cb'],
    ...[
      'https://good.example@evil.example/cb',
      'https://good@evil.example/cb',
      'https://:x@evil.example/',
      'https://@good.example/cb',
    ],
    ...['https://good.example/cb#x', 'https://good.example/cb#', 'com.example:/cb#x'],
    ...['https://good.example\\@evil.example/cb', 'https://good.example/a\\b', 'https:\\\\good.example/cb'],
    ...[
      'https://good.example/\tcb',
      '\thttps://good.example/cb',
      'https://good.example/cb\n',
      'https://good.example/c b',
    ],
    ...[
      'https://good.example/%2e%2e/cb',
      'https://good.example/%2E/cb',
      'https://good.example/a%2ecb',
      'https://good%2eexample/cb',
    ],
    ...[
      'https://good.example/../cb',
      'https://good.example/./cb',
      'HTTPS://good.example/cb',
      'https://GOOD.example/cb',
    ],
    ...['https://good.example./cb', 'https://good.example:443/cb', 'http://localhost:80/cb', 'http://localhost./cb'],
    ...['https://\u212Aey.example/cb', 'https://good.example/\u212A', 'https://gööd.example/cb'],
    ...['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'blob:https://good.example/1', 'vbscript:x'],
    ...['https://a;sandbox/cb', 'https://a,b.example/cb', 'https://*.example/cb', 'https://*/cb', "https://'self'/cb"],
    ...['ws://localhost/', 'ftp://good.example/', 'about:blank', 'intent://x/', 'urn:ietf:wg:oauth:2.0:oob'],
    `https://good.example/${'a'.repeat(1004)}`,
  ]
  for (const uri of REFUSED) {
    test(`refuses ${JSON.stringify(uri).slice(0, 80)}`, () => assert.equal(parseRedirectUri(uri), undefined))
  }

  test('has at most 1,024 characters', () => {
    assert.equal(parseRedirectUri(`https://good.example/${'a'.repeat(1003)}`)?.text.length, 1024)
  })

  test('is refused, or is what every parser reads: no user, no fragment, and the host that is shown', () => {
    const piece = fc.constantFrom(
      ...[
        'https://',
        'http://',
        'good.example',
        'evil.example',
        'localhost',
        '127.0.0.1',
        '@',
        ':',
        '/',
        '\\',
        '#',
        '?',
      ],
      ...['%2e', '.', '..', '\t', ' ', 'K', '\u212A', '1', 'app:', '//', '%40', '[::1]', ';', ',', '*', "'"],
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
        const text = pieces.join('')
        const redirect = parseRedirectUri(text)
        if (!redirect) return
        const url = new URL(text)
        assert.deepEqual([url.username, url.password, url.hash, text.includes('\\')], ['', '', '', false])
        assert.ok(redirect.kind === 'private' || redirect.destination === url.host)
        assert.equal(redirect.kind === 'loopback', url.protocol === 'http:')
        assert.match(redirect.formTarget, /^[a-z][a-z0-9+.-]*:(?:\/\/[a-z0-9._:[\]-]+)?$/)
      }),
      { numRuns: 2000 },
    )
  })
})

suite('a requested redirect', () => {
  const registered = [GOOD, 'http://localhost/callback', 'http://127.0.0.1:1/x?y=1', 'com.example.app:/cb']
  const MATCHES: Record<string, boolean> = {
    [GOOD]: true,
    'https://good.example/cb/': false,
    'https://good.example/cb?x': false,
    'https://good.example/CB': false,
    'https://good.example:8443/cb': false,
    'https://good.example.evil.example/cb': false,
    'https://good.example/cb#': false,
    'http://good.example/cb': false,
    'http://localhost:50123/callback': true,
    'http://localhost/callback': true,
    'http://localhost:50123/other': false,
    'http://127.0.0.1:50123/callback': false,
    'http://[::1]:50123/callback': false,
    'https://localhost/callback': false,
    'http://127.0.0.1:9/x?y=1': true,
    'http://127.0.0.1:9/x?y=2': false,
    'http://127.0.0.1:9/x': false,
    'com.example.app:/cb': true,
    'com.example.app:/cb2': false,
    'com.example.other:/cb': false,
    '': false,
  }
  for (const [uri, isMatch] of Object.entries(MATCHES)) {
    test(`${uri} ${isMatch ? 'matches' : 'does not match'}`, () =>
      assert.equal(matchRedirectUri(uri, registered) !== undefined, isMatch))
  }

  test('names the form target for the browser’s policy', () => {
    const targets = ['https://good.example/cb', 'http://localhost:5/cb', 'http://[::1]:5/cb', 'com.example.app:/cb']
    assert.deepEqual(
      targets.map((uri) => parseRedirectUri(uri)?.formTarget),
      ['https://good.example', 'http://localhost:5', 'http:', 'com.example.app:'],
    )
  })
})
