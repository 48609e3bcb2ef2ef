import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseTarget, RequestPath, rawPath } from './request-target.ts'

test('splits a target into path and query, which stays as it is', () => {
  const TARGETS: Record<string, [path: string, query: string]> = {
    '/': ['/', ''],
    '/a%2fb?x=/../%61': ['/a%2Fb', '?x=/../%61'],
    '/a?': ['/a', '?'],
    '/a#b': ['/a', '#b'],
  }
  for (const [url, [path, query]] of Object.entries(TARGETS)) {
    const target = parseTarget(url)
    assert.deepEqual([target?.path.text, target?.query], [path, query], url)
  }
  assert.equal(rawPath('/%61//..?x'), '/%61//..')
})

test('every spelling of a path has one text and one name', () => {
  const PATHS: Record<string, [text: string, name: string]> = {
    '/%61%2D%5f%7E%30/.b..': ['/a-_~0/.b..', '/a-_~0/.b..'],
    '/a%20b/%c3%a4': ['/a%20b/%C3%A4', '/a b/\u00e4'],
    '/a b/\u00c3\u00a4': ['/a%20b/%C3%A4', '/a b/\u00e4'],
    "/!$&'()*+,;=:@": ["/!$&'()*+,;=:@", "/!$&'()*+,;=:@"],
    '/%21%3b': ['/%21%3B', '/!;'],
    '/a%2fb%5C%00': ['/a%2Fb%5C%00', '/a%2Fb%5C%00'],
    '/%2561': ['/%2561', '/%61'],
    '/...': ['/...', '/...'],
    '/"<>^`{|}[]': ['/%22%3C%3E%5E%60%7B%7C%7D%5B%5D', '/"<>^`{|}[]'],
  }
  for (const [raw, [text, name]] of Object.entries(PATHS)) {
    const path = RequestPath.parse(raw)
    assert.deepEqual([path?.text, path?.name], [text, name], raw)
  }
  assert.ok(RequestPath.parse('/a%2fb')?.hasSeparators)
  assert.ok(!RequestPath.parse('/a%20b')?.hasSeparators)
  assert.equal(RequestPath.parse('/%c3%a4')?.isUtf8, true)
  assert.equal(RequestPath.parse('/%e4/x')?.isUtf8, false)
})

test('refuses what a backend would resolve, drop or not understand', () => {
  for (const path of [
    '//',
    '/./a',
    '/a/..',
    '/a/%2E%2e/b',
    '/a/.%2e',
    '/a//b',
    '/a\\b',
    '/%2e',
    'a',
    '',
    '/%',
    '/%4',
    '/%zz',
  ])
    assert.equal(RequestPath.parse(path), undefined, path)
})

test('the rest after a prefix has the same segments in both spellings', () => {
  const path = RequestPath.parse('/a%20b/%63/d%2Fe/f')
  assert.deepEqual(path?.after('/a b/'), { text: '/c/d%2Fe/f', name: '/c/d%2Fe/f' })
  assert.deepEqual(path?.after('/a b'), { text: '/c/d%2Fe/f', name: '/c/d%2Fe/f' })
  assert.deepEqual(path?.after('/'), { text: '/a%20b/c/d%2Fe/f', name: '/a b/c/d%2Fe/f' })
  assert.deepEqual(path?.after('/a b/c/d%2Fe/f'), { text: '', name: '' })
})

test('a path is simplified as some backends do it', () => {
  const PATHS: Record<string, string | undefined> = {
    '/a/b': '/a/b',
    '/a%20b/%63/d%2Fe': '/a%20b/c/d/e',
    '/a%5cb;x=1/c': '/a/b/c',
    '/a%3Bx/c;': '/a/c',
    '/a%2F%2E%2e': undefined,
    '/a/.;/b': undefined,
    '/a/;x/b': undefined,
    '/a/..;/b': undefined,
  }
  for (const [raw, text] of Object.entries(PATHS)) assert.equal(RequestPath.parse(raw)?.simplified()?.text, text, raw)
})

const PARTS = fc.constantFrom(
  ...['a', 'A', '.', '..', '/', '\\', 'b.c', '...', ' ', ';', '!', '%', '\u00c3\u00a4', '\u00ff', '%25', '%252e'],
  ...['%61', '%41', '%2e', '%2E', '%2f', '%2F', '%5c', '%00', '%c3%a4', '%C3%A4', '%ff', '%3b', '%7e', '%0a', '%20'],
)

test('the text of a path is parsed to the same path, and no URL parser changes it', () => {
  fc.assert(
    fc.property(fc.array(PARTS, { maxLength: 8 }), (parts) => {
      const path = RequestPath.parse(`/${parts.join('')}`)
      if (!path) return
      const again = RequestPath.parse(path.text)
      assert.deepEqual({ ...again }, { ...path })
      assert.equal(new URL(path.text, 'http://a.example').pathname, path.text)
      assert.ok(!/[^\x21-\x7e]/.test(path.text))
    }),
  )
})

/** How nginx reads a path: all escapes decoded, dot segments resolved, slashes merged. */
function asNginxReads(raw: string): string {
  const decoded = raw.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return decoded.replace(/\/+/g, '/')
}

/** How a browser sends it. */
function asBrowserSends(raw: string): string {
  return new URL(raw, 'http://a.example').pathname
}

test('paths that a browser or a web server in front treats as equal have the same name, or are refused', () => {
  const raw = fc.array(PARTS, { maxLength: 6 }).map((parts) => `/x${parts.join('')}x`)
  fc.assert(
    fc.property(raw, raw, (one, other) => {
      const [a, b] = [RequestPath.parse(one), RequestPath.parse(other)]
      if (!a || !b || a.hasSeparators || b.hasSeparators || !a.isUtf8 || !b.isUtf8) return
      if (asNginxReads(one) === asNginxReads(other)) assert.equal(a.name, b.name)
    }),
    { numRuns: 2000 },
  )
  fc.assert(
    fc.property(raw, (sent) => {
      const path = RequestPath.parse(sent)
      // A browser writes characters above ASCII as UTF-8; here each stands for one byte.
      if (path && !/[^\x20-\x7e]/.test(sent)) assert.equal(RequestPath.parse(asBrowserSends(sent))?.name, path.name)
    }),
  )
  // Every letter escaped, in both cases.
  fc.assert(
    fc.property(fc.stringMatching(/^(?:\/[a-z0-9._~-]{1,8}){1,4}\/?$/), fc.boolean(), (path, isUpper) => {
      const escaped = path.replace(/[^/]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`)
      assert.equal(RequestPath.parse(isUpper ? escaped.toUpperCase() : escaped)?.text, RequestPath.parse(path)?.text)
    }),
  )
})
