import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteHops, withoutHops } from './hop-headers.ts'

const RAW = [
  'Connection',
  'close, X-Mine',
  'X-Mine',
  '1',
  'Set-Cookie',
  'a',
  'connection',
  'Content-Length , X-Two',
  'x-two',
  '2',
]
const REST = [
  'Transfer-Encoding',
  'chunked',
  'Content-Length',
  '5',
  'Set-Cookie',
  'b',
  'Upgrade',
  'h2c',
  'TE',
  'trailers',
]

test('headers of one connection and those it names are left behind, the length and the order stay', () => {
  assert.deepEqual(withoutHops([...RAW, ...REST]), ['Set-Cookie', 'a', 'Content-Length', '5', 'Set-Cookie', 'b'])
  assert.deepEqual(withoutHops([]), [])
})

test('the same of Headers, whatever nonsense the connection names', () => {
  const headers = new Headers({
    Connection: 'x-mine, "bad name", :, keep-alive',
    'X-Mine': '1',
    TE: 'x',
    'X-Kept': '1',
  })
  headers.set('Content-Length', '5')
  deleteHops(headers)
  assert.deepEqual([...headers.keys()], ['content-length', 'x-kept'])
})
