import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { cleanHeaders, headerText, locationText, onwardHeaders } from './headers.ts'

const CAME = ['X-User-Sub', 'me', 'X-Forwarded-Port', '1', 'Accept', 'a', 'X_Folder', 'x', 'Accept', 'b', 'Cookie', 'c']

test('what only we say stays outside, what we say is added, the rest keeps its order', () => {
  assert.deepEqual(onwardHeaders(CAME, { 'X-User-Sub': 'github:1', 'X-Folder': undefined }), [
    ...['Accept', 'a', 'Accept', 'b', 'Cookie', 'c'],
    ...['X-User-Sub', 'github:1'],
  ])
})

test('a row may keep what is harmless, and never what says who somebody is', () => {
  const preserve = new Set(['x-forwarded-port', 'x-user-sub', 'cookie'])
  const kept = onwardHeaders(CAME, { 'X-Forwarded-Port': '2' }, { preserve, drop: new Set(['cookie', 'accept']) })
  assert.deepEqual(kept, ['X-Forwarded-Port', '1', 'Cookie', 'c'])
})

test('the same of a request that stays here', () => {
  const headers = new Headers({ 'X-User-Sub': 'me', X_User_Name: 'me', Accept: 'a', Connection: 'X-B', 'X-B': '1' })
  cleanHeaders(headers, { 'X-Forwarded-For': '10.0.0.1', 'X-Folder': undefined })
  assert.deepEqual(Object.fromEntries(headers), { accept: 'a', 'x-forwarded-for': '10.0.0.1' })
})

test('any text is fit for a header, and can be read back', () => {
  assert.equal(headerText('Jörg\r\nX: 1 100%'), 'J%C3%B6rg%0D%0AX: 1 100%25')
  assert.equal(locationText('/ä b?x=%20'), '/%C3%A4%20b?x=%20')
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      new Headers({ a: headerText(text), b: locationText(text) })
      assert.equal(decodeURIComponent(headerText(text)), text.toWellFormed())
    }),
  )
})
