import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isPlain, isStill, targetOf } from './target.ts'

test('a target is a path and a query, as they stand', () => {
  const TARGETS: Record<string, [path: string, query: string]> = {
    '/': ['/', ''],
    '/a%2Fb?x=/../y': ['/a%2Fb', '?x=/../y'],
    '/a?': ['/a', '?'],
    '//evil.example/x': ['//evil.example/x', ''],
  }
  for (const [url, [path, query]] of Object.entries(TARGETS)) assert.deepEqual(targetOf(url), { path, query }, url)
})

test('a path that moves when somebody resolves it is seen', () => {
  for (const path of ['/', '/a/', '/a/..b/.c/d..', '/a%2Fb', '/...', '/a/%2e%2e%2e']) assert.ok(isStill(path), path)
  for (const path of ['//', '/./a', '/a/..', '/a/%2E%2e/b', '/a/.%2e', '/a//b', '/a\\b', '/%2e', 'a', ''])
    assert.ok(!isStill(path), path)
  for (const path of ['/a%2Fb', '/a%5cb', '/a%00', '/a%2E']) assert.ok(!isPlain(path), path)
  assert.ok(isPlain('/a/b%20c/'))
})

test('what stands still is the same after the platform has read it', () => {
  const part = fc.constantFrom('a', '.', '..', '%2e', '%2E', '/', '\\', 'b.c', '%2f', '...')
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), (parts) => {
      const path = `/${parts.join('')}`
      if (isStill(path)) assert.equal(new URL(path, 'http://a.example').pathname, path)
    }),
  )
})
