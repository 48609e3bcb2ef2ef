import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { record } from '../../../test/support/client-hello.ts'
import { RETRY_RANDOM, ServerHelloReader } from './server-hello.ts'

const RANDOM = Buffer.alloc(32, 7)
const CIPHERS = record(Buffer.of(1), { type: 20 })
/** The warning unrecognized_name. */
const WARNING = record(Buffer.of(1, 112), { type: 21 })
const HELLO_REQUEST = record(Buffer.of(0, 0, 0, 0))
const DATA = record(Buffer.alloc(100), { type: 23 })

function serverHello(random: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.of(3, 3), random, Buffer.of(0, 0x13, 1, 0, 0, 0)])
  return Buffer.concat([Buffer.of(2, 0, 0, body.length), body])
}

const ACCEPTED = record(serverHello(RANDOM))
const RETRY = record(serverHello(RETRY_RANDOM))

function isSettled(bytes: Uint8Array, cut = bytes.length): boolean {
  const reader = new ServerHelloReader()
  for (let at = 0; at < bytes.length; at += cut) reader.push(bytes.subarray(at, at + cut))
  return reader.isSettled
}

function check(expected: boolean, ...parts: readonly Uint8Array[]): void {
  const bytes = Buffer.concat(parts)
  for (const cut of [1, 2, 3, 7, bytes.length]) assert.equal(isSettled(bytes, cut), expected)
}

test('a ServerHello settles it, also after other records', () => {
  check(true, ACCEPTED)
  check(true, WARNING, ACCEPTED)
  check(true, HELLO_REQUEST, ACCEPTED)
  check(true, RETRY, CIPHERS, ACCEPTED)
  check(true, RETRY, ACCEPTED)
})

test('a HelloRetryRequest or a warning settles nothing', () => {
  check(false, RETRY)
  check(false, WARNING, RETRY, CIPHERS)
  check(false, WARNING, CIPHERS, HELLO_REQUEST)
  check(false, record(Buffer.alloc(0)))
})

test('every byte of the random counts', () => {
  for (const at of RETRY_RANDOM.keys()) {
    const random = Buffer.from(RETRY_RANDOM)
    random[at] = (random[at] ?? 0) ^ 1
    check(true, record(serverHello(random)))
  }
})

test('reads a message that is split into records or shares one', () => {
  const [retry, accepted] = [serverHello(RETRY_RANDOM), serverHello(RANDOM)]
  for (const at of [1, 4, 5, 6, 20, 37, 38, 40]) {
    check(false, record(retry.subarray(0, at)), record(retry.subarray(at)))
    check(true, record(retry.subarray(0, at)), record(Buffer.concat([retry.subarray(at), accepted])))
  }
  check(true, record(Buffer.concat([retry, accepted])))
  check(false, record(Buffer.concat([retry, retry])))
})

test('a server that does not speak TLS accepts no ClientHello', () => {
  check(true, Buffer.from('SSH-2.0-OpenSSH_9.9\r\n'))
  check(true, Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'))
  check(true, Buffer.of(22, 2))
  check(true, DATA)
})

test('the result does not depend on how the bytes are split', () => {
  const part = fc.oneof(
    fc.constantFrom(ACCEPTED, RETRY, WARNING, CIPHERS, HELLO_REQUEST, DATA),
    fc.uint8Array({ maxLength: 60 }),
    fc.uint8Array({ maxLength: 60 }).map((payload) => record(payload)),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 5 }), fc.integer({ min: 1, max: 50 }), (parts, cut) => {
      const bytes = Buffer.concat(parts)
      assert.equal(isSettled(bytes, cut), isSettled(bytes, 1))
    }),
    { numRuns: 2000 },
  )
})
