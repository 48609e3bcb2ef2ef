// Compares the ClientHello reader with a simple, slow second parser on mutated bytes.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { clientHello } from '../../../test/support/client-hello.ts'
import { ClientHelloReader } from './client-hello.ts'
import type { ClientHelloResult } from './client-hello-message.ts'

const NAME = 'example.test'
const bases = [
  clientHello(),
  clientHello({ grease: true, keyShare: 'x25519mlkem768', alpn: ['h2', 'http/1.1'] }),
  clientHello({ ech: 'grease', recordBytes: 50 }),
  clientHello({ recordBytes: 1 }),
  clientHello({ sni: null, alpn: ['h2'] }),
  clientHello({ hasExtensions: false }),
  clientHello({ serverNames: [[{ name: NAME }, { name: 'other.test' }], [{ name: 'other.test' }]] }),
]
const mutant = fc.record({
  base: fc.constantFrom(...bases),
  // Most relevant bytes are among the first 200, and the first five decide whether it is TLS.
  changes: fc.array(fc.tuple(fc.nat(4), fc.oneof(fc.nat(4), fc.nat(200), fc.nat(9000)), fc.nat(255)), { maxLength: 4 }),
  cuts: fc.array(fc.oneof(fc.nat(200), fc.nat(9000)), { maxLength: 4 }),
})

const MUTANTS = 10_000

test('agrees with a second parser on 10,000 mutants, split or whole', () => {
  const kinds = new Map<string, number>()
  const check = fc.property(mutant, ({ base, changes, cuts }) => {
    const bytes = changes.reduce(mutate, base)
    const answer = read(bytes)
    kinds.set(answer.kind, (kinds.get(answer.kind) ?? 0) + 1)
    assert.deepEqual(readCut(bytes, cuts), answer)
    assert.deepEqual(answer.kind === 'hello' ? answer : undefined, readNaively(bytes))
  })
  fc.assert(check, { numRuns: MUTANTS })
  // Otherwise the mutations were too strong or too weak to be useful.
  for (const kind of ['more', 'not-tls', 'unreadable', 'hello']) assert.ok((kinds.get(kind) ?? 0) > MUTANTS / 100, kind)
})

test('does not throw on noise after the first bytes of a ClientHello', () => {
  const noise = fc.tuple(fc.nat(120), fc.uint8Array({ maxLength: 400 }), fc.array(fc.nat(500), { maxLength: 3 }))
  const check = fc.property(noise, ([keep, random, cuts]) => {
    const bytes = Buffer.concat([clientHello().subarray(0, keep), random])
    const answer = read(bytes)
    assert.deepEqual(readCut(bytes, cuts), answer)
    assert.deepEqual(answer.kind === 'hello' ? answer : undefined, readNaively(bytes))
  })
  fc.assert(check, { numRuns: 3_000 })
})

function read(bytes: Uint8Array): ClientHelloResult {
  return new ClientHelloReader().push(bytes)
}

function readCut(bytes: Uint8Array, cuts: readonly number[]): ClientHelloResult {
  const reader = new ClientHelloReader()
  const places = [0, ...cuts.toSorted((one, other) => one - other), bytes.length]
  for (const [index, place] of places.entries()) reader.push(bytes.subarray(place, places[index + 1] ?? bytes.length))
  return reader.push(bytes.subarray(bytes.length))
}

function mutate(bytes: Buffer, [act, place, value]: readonly [number, number, number]): Buffer {
  const at = place % (bytes.length + 1)
  const [head, tail] = [bytes.subarray(0, at), bytes.subarray(at)]
  if (act === 0) return Buffer.concat([head, Buffer.of(value), tail.subarray(1)])
  if (act === 1) return Buffer.concat([head, Buffer.of(value), tail])
  if (act === 2) return Buffer.concat([head, tail.subarray((value % 8) + 1)])
  if (act === 3) return value < 64 ? head : Buffer.concat([head, tail.subarray(0, value), tail])
  return Buffer.concat([head, Buffer.of((bytes[at] ?? 0) + (value % 2) * 2 - 1), tail.subarray(1)])
}

/** Simple and slow: takes all bytes at once, throws at the first error, shares no code with the reader. */
function readNaively(bytes: Buffer): ClientHelloResult | undefined {
  try {
    const body = takeBlock(joinRecords(bytes).subarray(1), 3)[0]
    const afterSession = takeBlock(body.subarray(34), 1)
    const afterSuites = takeBlock(afterSession[1], 2)
    const afterCompressions = takeBlock(afterSuites[1], 1)
    const version = body.readUInt16BE()
    const isPlausible = afterSession[0].length <= 32 && afterSuites[0].length % 2 === 0
    assert.ok(isPlausible && afterSuites[0].length > 0 && afterCompressions[0].length > 0)
    assert.ok(version >= 0x300 && version <= 0x304)
    return readBlock(afterCompressions[1])
  } catch {
    return undefined
  }
}

function joinRecords(bytes: Buffer): Buffer {
  let joined = Buffer.alloc(0)
  for (let rest = bytes; joined.length < 4 || joined.length < 4 + joined.readUIntBE(1, 3); ) {
    assert.match(rest.toString('latin1', 0, 3), /^\x16\x03[\0-\x04]$/)
    const length = rest.readUInt16BE(3)
    assert.ok(length > 0 && length <= 16_384 && rest.length >= 5 + length)
    joined = Buffer.concat([joined, rest.subarray(5, 5 + length)])
    rest = rest.subarray(5 + length)
  }
  assert.equal(joined[0], 1)
  assert.equal(joined.length, 4 + joined.readUIntBE(1, 3))
  return joined
}

function readBlock(block: Buffer): ClientHelloResult {
  if (block.length === 0) return { kind: 'hello', sni: undefined, ech: false }
  const extensions: { type: number; body: Buffer }[] = []
  for (let rest = takeAll(block); rest.length > 0; ) {
    const [body, next] = takeBlock(rest.subarray(2), 2)
    extensions.push({ type: rest.readUInt16BE(), body })
    rest = next
  }
  const lists = extensions.filter(({ type }) => type === 0)
  assert.ok(lists.length < 2)
  const ech = extensions.some(({ type }) => type === 65_037)
  const sni = lists[0] && readName(takeAll(lists[0].body))
  return { kind: 'hello', sni, ech }
}

function readName(list: Buffer): string {
  assert.equal(list[0], 0)
  const name = takeAll(list.subarray(1)).toString('latin1')
  assert.match(name, /^(?=.{1,253}$)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/)
  return name
}

function takeBlock(bytes: Buffer, lengthBytes: number): readonly [Buffer, Buffer] {
  const end = lengthBytes + bytes.readUIntBE(0, lengthBytes)
  assert.ok(end <= bytes.length)
  return [bytes.subarray(lengthBytes, end), bytes.subarray(end)]
}

function takeAll(bytes: Buffer): Buffer {
  const [block, rest] = takeBlock(bytes, 2)
  assert.equal(rest.length, 0)
  return block
}
