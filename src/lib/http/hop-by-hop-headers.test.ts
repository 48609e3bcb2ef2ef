import assert from 'node:assert/strict'
import { test } from 'node:test'
import { deleteHopByHopHeaders, withoutHopByHopHeaders } from './hop-by-hop-headers.ts'

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

test('removes hop-by-hop headers and those that Connection lists, and keeps length and order', () => {
  assert.deepEqual(withoutHopByHopHeaders([...RAW, ...REST]), [
    'Set-Cookie',
    'a',
    'Content-Length',
    '5',
    'Set-Cookie',
    'b',
  ])
  assert.deepEqual(withoutHopByHopHeaders([]), [])
})

test('does the same for Headers, whatever Connection contains', () => {
  const headers = new Headers({
    Connection: 'x-mine, "bad name", :, keep-alive',
    'X-Mine': '1',
    TE: 'x',
    'X-Kept': '1',
  })
  headers.set('Content-Length', '5')
  deleteHopByHopHeaders(headers)
  assert.deepEqual([...headers.keys()], ['content-length', 'x-kept'])
})
