import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { encodeHeaderValue, encodeLocation, rewriteHeaders, upstreamHeaders } from './upstream-headers.ts'

const CAME = ['X-User-Sub', 'me', 'X-Forwarded-Port', '1', 'Accept', 'a', 'X_Folder', 'x', 'Accept', 'b', 'Cookie', 'c']

test('removes reserved headers, adds ours, and keeps the order of the rest', () => {
  assert.deepEqual(upstreamHeaders(CAME, { 'X-User-Sub': 'github:1', 'X-Folder': undefined }), [
    ...['Accept', 'a', 'Accept', 'b', 'Cookie', 'c'],
    ...['X-User-Sub', 'github:1'],
  ])
})

test('a route may preserve harmless headers but never identity headers', () => {
  const preserve = new Set(['x-forwarded-port', 'x-user-sub', 'cookie'])
  const kept = upstreamHeaders(CAME, { 'X-Forwarded-Port': '2' }, { preserve, drop: new Set(['cookie', 'accept']) })
  assert.deepEqual(kept, ['X-Forwarded-Port', '1', 'Cookie', 'c'])
})

test('rewrites the headers of a request that stays in the process', () => {
  const headers = new Headers({ 'X-User-Sub': 'me', X_User_Name: 'me', Accept: 'a', Connection: 'X-B', 'X-B': '1' })
  rewriteHeaders(headers, { 'X-Forwarded-For': '10.0.0.1', 'X-Folder': undefined })
  assert.deepEqual(Object.fromEntries(headers), { accept: 'a', 'x-forwarded-for': '10.0.0.1' })
})

test('encodes any text for a header so that it can be decoded', () => {
  assert.equal(encodeHeaderValue('Jörg\r\nX: 1 100%'), 'J%C3%B6rg%0D%0AX: 1 100%25')
  assert.equal(encodeLocation('/ä b?x=%20'), '/%C3%A4%20b?x=%20')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      new Headers({ a: encodeHeaderValue(text), b: encodeLocation(text) })
      assert.equal(decodeURIComponent(encodeHeaderValue(text)), text.toWellFormed())
    }),
  )
})
