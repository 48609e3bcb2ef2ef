import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '../../lib/refusal.ts'
import { openKeyring } from './keyring.ts'

const OLD = 'a'.repeat(64)
const NEW = 'b'.repeat(64)
const ROW = 'folder/main/API_KEY'

const unavailable = (sentence: RegExp) => (error: unknown) =>
  error instanceof Refusal && error.code === 'unavailable' && sentence.test(error.message)

test('opens any sealed value unchanged', () => {
  const keyring = openKeyring(NEW)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 4096 }), fc.string(), (plain, context) => {
      assert.deepEqual([...keyring.open(keyring.seal(plain, context), context)], [...plain])
    }),
  )
  assert.equal(keyring.open(keyring.seal('pâss\nword', ROW), ROW).toString(), 'pâss\nword')
  assert.equal(keyring.open(keyring.seal('', ROW), ROW).length, 0)
})

test('sealed bytes do not contain the value, and two seals of a value differ', () => {
  const keyring = openKeyring(NEW)
  const [one, two] = [keyring.seal('hunter2', ROW), keyring.seal('hunter2', ROW)]
  assert.ok(!Buffer.from(one).includes('hunter2'))
  assert.notDeepEqual(one, two)
})

test('takes the nonce from the given random source', () => {
  const fixed = { bytes: (count: number) => new Uint8Array(count).fill(7) }
  const keyring = openKeyring(NEW, fixed)
  assert.deepEqual(keyring.seal('x', ROW), keyring.seal('x', ROW))
})

test('a sealed value that is moved to another row does not open', () => {
  const keyring = openKeyring(NEW)
  const sealed = keyring.seal('hunter2', ROW)
  assert.throws(() => keyring.open(sealed, 'folder/main/OTHER_KEY'), unavailable(/another row/))
})

test('detects any flipped bit', () => {
  const keyring = openKeyring(`${NEW},${OLD}`)
  const sealed = keyring.seal('hunter2', ROW)
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const damaged = Uint8Array.from(sealed, (byte, at) => (at === bit >> 3 ? byte ^ (1 << (bit & 7)) : byte))
    assert.throws(() => keyring.open(damaged, ROW), unavailable(/damaged/), `bit ${bit}`)
  }
})

test('refuses bytes that were never sealed', () => {
  const keyring = openKeyring(NEW)
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      assert.throws(() => keyring.open(bytes, ROW), unavailable(/stored secret/))
    }),
  )
})

test('a rotated keyring opens with the old key and seals with the new one', () => {
  const before = openKeyring(OLD).seal('hunter2', ROW)
  const rotated = openKeyring(` ${NEW} , ${OLD},`)
  assert.equal(rotated.open(before, ROW).toString(), 'hunter2')
  const after = rotated.seal('hunter3', ROW)
  assert.equal(openKeyring(NEW).open(after, ROW).toString(), 'hunter3')
  assert.throws(() => openKeyring(OLD).open(after, ROW), unavailable(/not in SECRETS_KEY/))
  assert.throws(() => openKeyring(NEW).open(before, ROW), unavailable(/not in SECRETS_KEY/))
})

test('every key of a long list opens what it sealed, even if key ids collide', () => {
  const entries = Array.from({ length: 300 }, (_, index) => `key-${index}`)
  const ring = openKeyring(entries.join(','))
  for (const entry of entries) assert.equal(ring.open(openKeyring(entry).seal(entry, ROW), ROW).toString(), entry)
})

test('refuses to seal and open without a key, with a hint how to set one', () => {
  const sealed = openKeyring(NEW).seal('x', ROW)
  for (const keyless of [undefined, '', ' , ,']) {
    const keyring = openKeyring(keyless)
    for (const work of [() => keyring.seal('x', ROW), () => keyring.open(sealed, ROW), () => keyring.derive('x')]) {
      assert.throws(work, (error) => unavailable(/SECRETS_KEY is not set/)(error) && /openssl rand/.test(hintOf(error)))
    }
  }
})

test('derives different keys per purpose from the first key', () => {
  const proof = openKeyring(`${NEW},${OLD}`).derive('svc token proof')
  assert.equal(proof.length, 32)
  assert.deepEqual(proof, openKeyring(NEW).derive('svc token proof'))
  assert.notDeepEqual(proof, openKeyring(NEW).derive('svc seal'))
  assert.notDeepEqual(proof, openKeyring(OLD).derive('svc token proof'))
})

function hintOf(error: unknown): string {
  return error instanceof Refusal ? (error.hint ?? '') : ''
}
