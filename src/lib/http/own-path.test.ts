import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ownPath } from './own-path.ts'

test('accepts paths of this server with a query', () => {
  for (const path of ['/', '/a', '/a/b?c=d&e=%2F%2Fx', '/invite/abc', '/a?next=//x', '/a@b', '/%5Cevil'])
    assert.equal(ownPath(path), path)
})

test('refuses everything that leads elsewhere in a browser', () => {
  const bad = [
    '',
    'a',
    '//x',
    '///x',
    '/\\x',
    '\\\\x',
    'https://x',
    'javascript:alert(1)',
    '/\t/x',
    '/\n/x',
    '/ /x',
    ' /x',
    '/ü',
  ]
  for (const path of [...bad, '/./' + '/x', '/a/..//x', `/${'a'.repeat(2001)}`])
    assert.equal(ownPath(path), undefined, path)
  assert.equal(ownPath(undefined), undefined)
  assert.equal(ownPath(`/${'a'.repeat(2000)}`)?.length, 2001)
})

test('what it accepts stays on this server, however it is resolved', () => {
  const piece = fc.constantFrom(
    '/',
    '\\',
    '.',
    '..',
    '%2f',
    '%5c',
    '@',
    ':',
    '?',
    '#',
    'evil.example',
    'a',
    '\t',
    '\r',
    ' ',
  )
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const path = ownPath(pieces.join(''))
      if (path !== undefined) assert.equal(new URL(path, 'https://own.example').origin, 'https://own.example')
    }),
    { numRuns: 2000 },
  )
})
