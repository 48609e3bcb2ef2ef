import assert from 'node:assert/strict'
import { test } from 'node:test'
import { record } from '../../../test/support/client-hello.ts'
import { SecondHelloScanner } from './second-hello-scanner.ts'

const CIPHERS = record(Buffer.of(1), { type: 20 })
const DATA = record(Buffer.alloc(300, 0x16), { type: 23 })
const LONG_DATA = record(Buffer.alloc(16_000, 0x16), { type: 23 })
const NEXT = record(Buffer.of(1, 0, 0))

/** The offset of the record that may hold a ClientHello. */
function find(bytes: Buffer, cut = bytes.length): number {
  const second = new SecondHelloScanner()
  for (let from = 0; from < bytes.length; from += cut) {
    const piece = bytes.subarray(from, from + cut)
    const at = second.find(piece, 0)
    if (at < piece.length) return from + at
  }
  return bytes.length
}

test('finds a handshake record after any number of others, however the bytes are split', () => {
  for (const before of [
    [],
    [CIPHERS],
    [CIPHERS, CIPHERS],
    [DATA],
    [DATA, CIPHERS, DATA],
    [record(Buffer.alloc(0), { type: 23 })],
    Array.from({ length: 100 }, () => LONG_DATA),
  ]) {
    const start = Buffer.concat(before)
    for (const cut of [1, 2, 3, 7, 1000, 65_536]) assert.equal(find(Buffer.concat([start, NEXT]), cut), start.length)
  }
})

test('skips a ClientHello inside application data', () => {
  const all = Buffer.concat([CIPHERS, record(NEXT, { type: 23 })])
  for (const cut of [1, 2, 3, 7, 1000]) assert.equal(find(all, cut), all.length)
})
