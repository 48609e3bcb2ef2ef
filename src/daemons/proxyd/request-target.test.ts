import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isNormalizedPath, isUnambiguousPath, parseTarget } from './request-target.ts'

test('splits a target into raw path and query', () => {
  const TARGETS: Record<string, [path: string, query: string]> = {
    '/': ['/', ''],
    '/a%2Fb?x=/../y': ['/a%2Fb', '?x=/../y'],
    '/a?': ['/a', '?'],
    '//evil.example/x': ['//evil.example/x', ''],
  }
  for (const [url, [path, query]] of Object.entries(TARGETS)) assert.deepEqual(parseTarget(url), { path, query }, url)
})

test('detects paths that change when they are resolved', () => {
  for (const path of ['/', '/a/', '/a/..b/.c/d..', '/a%2Fb', '/...', '/a/%2e%2e%2e'])
    assert.ok(isNormalizedPath(path), path)
  for (const path of ['//', '/./a', '/a/..', '/a/%2E%2e/b', '/a/.%2e', '/a//b', '/a\\b', '/%2e', 'a', ''])
    assert.ok(!isNormalizedPath(path), path)
  for (const path of ['/a%2Fb', '/a%5cb', '/a%00', '/a%2E']) assert.ok(!isUnambiguousPath(path), path)
  assert.ok(isUnambiguousPath('/a/b%20c/'))
})

test('a normalized path is unchanged by URL parsing', () => {
  const part = fc.constantFrom('a', '.', '..', '%2e', '%2E', '/', '\\', 'b.c', '%2f', '...')
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      const path = `/${parts.join('')}`
      if (isNormalizedPath(path)) assert.equal(new URL(path, 'http://a.example').pathname, path)
    }),
  )
})
