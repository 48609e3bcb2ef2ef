import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { z } from 'zod'
import { parse } from '../lib/text/schema-parser.ts'
import {
  codePoints,
  EnvValue,
  Folder,
  HostName,
  hostFault,
  isPlainValue,
  Jid,
  jsonText,
  LabelSegment,
  line,
  pageLimit,
  SecretKey,
  Sub,
} from './values.ts'

const fits = (schema: z.ZodType, value: unknown): boolean => schema.safeParse(value).success

const FOLDERS: Record<string, [string, boolean]> = {
  'a plain name is a folder': ['team', true],
  'names are joined by slashes': ['team/support/eu-1', true],
  'eight segments are allowed': ['a/b/c/d/e/f/g/h', true],
  'nine segments are not': ['a/b/c/d/e/f/g/h/i', false],
  'the empty text is refused': ['', false],
  'a leading slash makes an empty segment': ['/team', false],
  'a trailing slash makes an empty segment': ['team/', false],
  'a double slash makes an empty segment': ['team//x', false],
  'a parent directory is refused': ['team/..', false],
  'a traversal from the start is refused': ['../etc', false],
  'a single dot is refused': ['team/.', false],
  'a hidden name is refused': ['.claude', false],
  'a name may contain dots': ['team/v1.2', true],
  'a backslash is refused': ['team\\x', false],
  'a space is refused': ['my team', false],
  'a NUL is refused': ['team\u0000', false],
  'a newline is refused': ['team\nx', false],
  'a letter of another script is refused': ['tеam', false],
  'a full-width letter is refused': ['ｔeam', false],
  'an emoji is refused': ['team😀', false],
  'a right-to-left mark is refused': ['team\u202ex', false],
  'a combining accent is refused': ['te\u0301am', false],
  'a percent-encoded slash is refused': ['team%2Fx', false],
  'share is reserved for the disk layout': ['team/share', false],
  'gated.sock is reserved for the disk layout': ['gated.sock', false],
  'a segment of 64 characters is allowed': ['a'.repeat(64), true],
  'a segment of 65 characters is not': ['a'.repeat(65), false],
  'a glob is refused': ['team/*', false],
  'a leading dash is refused': ['-rf', false],
}
for (const [behaviour, [folder, ok]] of Object.entries(FOLDERS)) {
  test(`folder names: ${behaviour}`, () => assert.equal(fits(Folder, folder), ok))
}

test('an accepted folder never leaves its parent directory', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', '.', '/', '-', '_', '\\', '%', ' ', '~') }), (text) => {
      if (!fits(Folder, text)) return
      assert.ok(!text.split('/').some((segment) => segment === '' || segment === '.' || segment === '..'))
    }),
  )
})

const HOSTS: Record<string, [string, string | false]> = {
  'a host name is kept': ['api.example.com', 'api.example.com'],
  'case is folded': ['API.Example.COM', 'api.example.com'],
  'one trailing dot is dropped': ['example.com.', 'example.com'],
  'a single label is a host': ['localhost', 'localhost'],
  'an IDN is given in its ASCII form': ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
  'an IDN in letters is refused': ['bücher.example', false],
  'a URL is refused': ['https://example.com', false],
  'a path is refused': ['example.com/x', false],
  'a port is refused': ['example.com:443', false],
  'a wildcard is refused': ['*.example.com', false],
  'a lone star is refused': ['*', false],
  'an IPv4 address is refused': ['10.0.0.1', false],
  'an IPv6 address is refused': ['::1', false],
  'an IPv6 address in brackets is refused': ['[::1]', false],
  'a decimal IPv4 address is refused': ['2130706433', false],
  'the empty text is refused': ['', false],
  'two trailing dots are refused': ['example.com..', false],
  'an empty label is refused': ['a..b', false],
  'a label may not start with a dash': ['-a.example', false],
  'a space is refused': ['exam ple.com', false],
  'a label of 64 characters is refused': [`${'a'.repeat(64)}.com`, false],
  'a short IPv4 address is refused': ['127.1', false],
  'a hexadecimal IPv4 address is refused': ['0x7f000001', false],
  'an IPv4 address with a hexadecimal part is refused': ['127.0.0.0x1', false],
  'an octal IPv4 address is refused': ['0177.0.0.01', false],
  'an IPv4 address with a trailing dot is refused': ['10.0.0.1.', false],
  'an IPv6 address with an IPv4 tail is refused': ['::ffff:10.0.0.1', false],
  'an IPv6 address with a zone is refused': ['fe80::1%eth0', false],
  'a range of addresses is refused': ['10.0.0.0/8', false],
  'a NUL is refused': ['a.example\u0000', false],
  'a newline at the end is refused': ['a.example\n', false],
  'the Kelvin sign is not a k': ['\u212a.example', false],
  'a number is a label if it is not the last one': ['1.example', '1.example'],
}
for (const [behaviour, [host, folded]] of Object.entries(HOSTS)) {
  test(`network hosts: ${behaviour}`, () => {
    const result = HostName.safeParse(host)
    assert.equal(result.success ? result.data : false, folded)
  })
}

test('reports why a host is rejected', () => {
  const reasons: Record<string, RegExp> = {
    '0x7f.1': /not an IP address/,
    '10.0.0.1:80': /not an IP address/,
    '[::1]:443': /not an IP address/,
    '10.0.0.0/8': /not an IP address/,
    'a.example/x': /not a URL/,
    'a.example:80': /must not contain a port/,
    '*.example': /must not contain a wildcard/,
    'a.example\u0000': /must not contain spaces or control characters/,
    'a\u0085.example': /must not contain spaces or control characters/,
  }
  for (const [host, reason] of Object.entries(reasons)) assert.match(hostFault(host) ?? '', reason, host)
})

test('an accepted host stays the same when parsed again', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('a', 'B', '.', '-', '*', ':', '/', '1', 'é') }), (text) => {
      const result = HostName.safeParse(text)
      if (result.success) assert.equal(hostFault(result.data), undefined)
    }),
  )
})

/** Characters from every side of each boundary of the rule. */
const EDGES = [
  '\u0000',
  '\u0008',
  '\t',
  '\n',
  '\u000b',
  '\r',
  '\u001f',
  ' ',
  '~',
  '\u007f',
  '\u0080',
  '\u009f',
  '\u00a0',
]

test('rejects values with control characters other than tab and newline', () => {
  const accepted = EDGES.filter((character) => fits(EnvValue, `a${character}b`))
  assert.deepEqual(accepted, ['\t', '\n', ' ', '~', '\u00a0'])
  assert.ok(fits(EnvValue, ''))
  assert.throws(
    () => parse(z.object({ value: EnvValue }), { value: 'x\u0000--bind' }),
    /^Refusal: value must not contain control characters other than tab and newline$/,
  )
})

test('rejects exactly the texts that contain a forbidden control character', () => {
  const isForbidden = (code: number): boolean =>
    (code < 0x20 && code !== 0x09 && code !== 0x0a) || (code >= 0x7f && code <= 0x9f)
  const character = fc.oneof(fc.string({ unit: 'binary', maxLength: 3 }), fc.constantFrom(...EDGES))
  fc.assert(
    fc.property(fc.array(character), (parts) => {
      const text = parts.join('')
      const isClean = ![...text].some((each) => isForbidden(each.codePointAt(0) ?? 0))
      assert.equal(fits(EnvValue, text), isClean)
      assert.equal(isPlainValue(text), isClean)
    }),
    { numRuns: 1000 },
  )
})

test('secret keys look like API_KEY', () => {
  for (const key of ['GITHUB_TOKEN', 'K', 'A1_B2']) assert.ok(fits(SecretKey, key), key)
  for (const key of ['', 'lower', '1LEAD', 'WITH-DASH', 'WITH SPACE', 'A_lower', 'A\n', 'A'.repeat(129)]) {
    assert.ok(!fits(SecretKey, key), JSON.stringify(key))
  }
})

test('a suffix is 1 to 64 letters, digits, underscores or dashes', () => {
  for (const text of ['a', 'forms', 'A_b-1', 'x'.repeat(64)]) assert.ok(fits(LabelSegment, text), text)
  for (const text of ['', '..', 'a//b', '/a', 'a/', '%2F', 'x'.repeat(65), '😀', 'a b', 'a:b', 'a.b', 'a\n']) {
    assert.ok(!fits(LabelSegment, text), JSON.stringify(text))
  }
})

test('requires a platform and a room in a JID', () => {
  for (const jid of ['web:team', 'discord:1/2', 'telegram:user/1', 'hook:a/b/c']) assert.ok(fits(Jid, jid), jid)
  for (const jid of ['', 'team', ':x', 'web:', 'Web:x', 'web:a\u0000', `web:${'x'.repeat(600)}`])
    assert.ok(!fits(Jid, jid), jid)
})

test('requires a provider in a sub', () => {
  for (const sub of ['github:42', 'google:a@b', 'local:me']) assert.ok(fits(Sub, sub), sub)
  for (const sub of ['', 'github', 'github:', ':42', 'a b:c', 'github: 4']) assert.ok(!fits(Sub, sub), sub)
})

test('counts characters, not UTF-16 units', () => {
  assert.equal(codePoints('😀😀'), 2)
  assert.ok(fits(line(2), '😀😀'))
  assert.ok(!fits(line(2), 'abc'))
})

test('clamps a page size into its range instead of rejecting it', () => {
  const schema = pageLimit(50, 200)
  const cases: [unknown, number][] = [
    [undefined, 50],
    [0, 1],
    [-1, 1],
    [200, 200],
    [201, 200],
    [1e9, 200],
    [7, 7],
  ]
  for (const [given, expected] of cases) assert.equal(schema.parse(given), expected)
  for (const bad of ['10', 1.5, 0.5, Number.NaN, Number.POSITIVE_INFINITY, null])
    assert.ok(!fits(schema, bad), String(bad))
})

test('parses a tool argument that contains JSON and rejects other text', () => {
  const schema = z.object({ route: jsonText(z.strictObject({ seq: z.int() })) })
  assert.deepEqual(parse(schema, { route: '{"seq":1}' }), { route: { seq: 1 } })
  assert.throws(() => parse(schema, { route: '{' }), /route must be JSON/)
  assert.throws(() => parse(schema, { route: '{"seq":1.5}' }), /route.seq must be a whole number/)
  assert.throws(() => parse(schema, { route: '{"seq":1,"x":2}' }), /unknown field "route.x"/)
})
