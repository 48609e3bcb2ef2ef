import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { egressProxy } from '../../../test/support/egress-cli.ts'

const check = (host: string, allow: string, ...more: string[]) =>
  egressProxy(['check', '--allow', allow, ...more, '--', host])

suite('a host', () => {
  test('in the list is allowed, with exit code 0', async () => {
    assert.deepEqual(await check('github.com', 'pypi.org,github.com'), {
      code: 0,
      stdout: 'github.com is allowed: it is in the allowlist.\n',
      stderr: '',
    })
  })
  test('below an entry is allowed, and the entry is named', async () => {
    const { code, stdout } = await check('API.GitHub.com.', 'github.com')
    assert.equal(code, 0)
    assert.equal(stdout, 'api.github.com is allowed: it is below github.com, which is in the allowlist.\n')
  })
  test('not in the list is denied, with exit code 1', async () => {
    const { code, stdout, stderr } = await check('github.com', 'hub.com')
    assert.deepEqual([code, stderr], [1, ''])
    assert.match(stdout, /^github\.com is denied: /)
  })
  test('that is an address is denied', async () => {
    for (const host of ['127.0.0.1', '127.1', '0x7f.1', '::1', '[::1]']) {
      const { code, stdout } = await check(host, 'localhost,example.com')
      assert.equal(code, 1, host)
      assert.match(stdout, /is denied: it is an IP address/)
    }
  })
})

test('allows nothing with an empty list', async () => {
  for (const list of ['', ' ', ',', ' , ']) assert.equal((await check('github.com', list)).code, 1)
})

test('ignores blanks, empty items and duplicates in a list', async () => {
  assert.equal((await check('pypi.org', ' github.com , pypi.org,,github.com ')).code, 0)
})

test('prints the same as JSON', async () => {
  const { code, stdout } = await check('api.github.com', 'github.com', '--json')
  assert.equal(code, 0)
  assert.deepEqual(JSON.parse(stdout), {
    host: 'api.github.com',
    allow: true,
    reason: 'allowed',
    rule: 'github.com',
    sentence: 'api.github.com is allowed: it is below github.com, which is in the allowlist.',
  })
  const denied = await check('evil.example', 'github.com', '--json')
  assert.equal(denied.code, 1)
  assert.equal(JSON.parse(denied.stdout).reason, 'blocked-by-allowlist')
})

suite('extracts the host from pasted text', () => {
  for (const text of [
    'https://api.github.com/repos?per_page=1#top',
    'HTTPS://user:pass@api.github.com:8443/x',
    'api.github.com:443',
    'api.github.com/repos',
    ' api.github.com ',
    'ssh://git@api.github.com/x.git',
  ])
    test(text, async () => {
      const { code, stdout, stderr } = await check(text, 'github.com')
      assert.equal(code, 0)
      assert.match(stdout, /^api\.github\.com is allowed/)
      assert.equal(stderr, 'checking only the host: api.github.com\n')
    })
})

suite('treats anything but a host as a usage error, with exit code 1', () => {
  const cases: Record<string, [string, RegExp]> = {
    nothing: ['', /"" is empty: give a host name/],
    'a wildcard': ['*.github.com', /has a wildcard: give one host name/],
    'a label too many': ['a..b', /"a\.\.b" is neither a host name nor an IP address/],
    'a label too long': [`${'a'.repeat(64)}.com`, /is neither a host name/],
    'a control character': ['git\u001bhub.com', /"git\\u001bhub\.com" is neither a host name/],
    'letters beyond ASCII': ['https://bücher.example/x', /is not ASCII: a client would ask for xn--bcher-kva\.example/],
  }
  for (const [what, [host, said]] of Object.entries(cases))
    test(what, async () => {
      const { code, stdout, stderr } = await check(host, 'github.com')
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, said)
      assert.match(stderr, /^usage: egress-proxy check <host>/m)
    })
})

suite('treats a list with an entry that could never match as a usage error that names it', () => {
  for (const entry of [
    '*',
    '*.github.com',
    'https://github.com',
    'github.com:443',
    'github.com/x',
    '10.0.0.0/8',
    '::1',
  ])
    test(entry, async () => {
      const { code, stdout, stderr } = await check('github.com', `pypi.org,${entry}`)
      assert.deepEqual([code, stdout], [1, ''])
      assert.ok(stderr.startsWith(`egress-proxy: --allow: "${entry}" `), stderr)
    })
  test('names every one of several', async () => {
    const { stderr } = await check('github.com', '*,com')
    assert.match(stderr, /"\*" .*"com" /)
  })
})

test('warns about a name that allows more than it seems to', async () => {
  const { code, stderr } = await check('localhost', 'localhost')
  assert.equal(code, 0)
  assert.match(stderr, /^warning: --allow: "localhost" has a single label/)
})

test('escapes control characters', async () => {
  for (const [host, shown] of [
    ['\x7f', '\\u{7f}'],
    ['\x9b', '\\u{9b}'],
    ['\u202e', '\\u{202e}'],
  ] as const) {
    const { code, stderr } = await check(host, 'example.com')
    assert.equal(code, 1)
    assert.ok(
      stderr.startsWith(`egress-proxy: "${shown}" is neither a host name nor an IP address\n`),
      JSON.stringify(stderr),
    )
  }
})

test('answers any host argument in one line, never with an internal error', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(fc.string({ unit: 'binary' }), fc.webUrl(), fc.ipV6()), async (host) => {
      const { code, stdout, stderr } = await check(host, 'example.com')
      assert.ok([0, 1].includes(code))
      assert.doesNotMatch(stderr, /internal error/)
      assert.doesNotMatch(stdout + stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
      assert.match(stdout || stderr, stdout ? /^.+\n$/ : /^egress-proxy: .+\n(?:hint: .+\n)?usage: .+\n/)
    }),
    { numRuns: 2000 },
  )
})
