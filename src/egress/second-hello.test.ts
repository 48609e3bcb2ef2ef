import assert from 'node:assert/strict'
import { test } from 'node:test'
import { record } from '../../test/support/client-hello.ts'
import { SecondHello } from './second-hello.ts'

const CIPHERS = record(Buffer.of(1), { type: 20 })
const DATA = record(Buffer.alloc(300, 0x16), { type: 23 })
const NEXT = record(Buffer.of(1, 0, 0))

/** Where the record begins that may hold a hello, and whether there may be one at all. */
function find(early: boolean, bytes: Buffer, cut = bytes.length): { at: number; isRuledOut: boolean } {
  const second = new SecondHello(early)
  for (let from = 0; from < bytes.length; from += cut) {
    const piece = bytes.subarray(from, from + cut)
    const at = second.find(piece, 0)
    if (at < piece.length || second.isRuledOut) return { at: from + at, isRuledOut: second.isRuledOut }
  }
  return { at: bytes.length, isRuledOut: second.isRuledOut }
}

test('a record of the handshake is found behind those that servers pass over, however the bytes are cut', () => {
  for (const [early, ...before] of [
    [false],
    [false, CIPHERS],
    [false, CIPHERS, CIPHERS],
    [true, DATA],
    [true, DATA, CIPHERS, DATA],
    [true, record(Buffer.alloc(0), { type: 23 })],
  ] as const) {
    const start = Buffer.concat(before)
    for (const cut of [1, 2, 3, 7, 1000])
      assert.deepEqual(find(early, Buffer.concat([start, NEXT]), cut), { at: start.length, isRuledOut: false })
  }
})

test('what is encrypted, and was not announced as early, rules a second hello out', () => {
  assert.equal(find(false, Buffer.concat([CIPHERS, DATA, NEXT])).isRuledOut, true)
  assert.equal(find(false, DATA, 1).isRuledOut, true)
})

test('nobody is looked at for ever', () => {
  const second = new SecondHello(true)
  let passed = 0
  while (!second.isRuledOut) passed += second.find(DATA, 0)
  assert.ok(passed > 65_000 && passed < 67_000, `${passed}`)
})
