import assert from 'node:assert/strict'
import { createHash, createHmac, hkdfSync } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { isRefusal } from '../../../test/support/host.ts'
import { redact, redactJson } from '../../lib/log/redact.ts'
import { openKeyring } from '../secrets/keyring.ts'
import { createTokenProof, tokenHashFromUrl } from './link-token.ts'

const KEY = 'a key of the tests'
const keyring = openKeyring(KEY)
const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
const hex = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString('hex')

test('hashes a token with SHA-256', () => {
  fc.assert(
    fc.property(bytes32, (bytes) => {
      const token = base64url(bytes)
      assert.equal(hex(tokenHashFromUrl(token, keyring)), createHash('sha256').update(token).digest('hex'))
    }),
  )
})

test('a proof gives the hash it was created from and has the documented format', () => {
  const key = Buffer.from(hkdfSync('sha256', KEY, '', 'svc token proof', 32))
  fc.assert(
    fc.property(bytes32, (tokenHash) => {
      const proof = createTokenProof(tokenHash, keyring)
      assert.equal(proof, `~${base64url(tokenHash)}.${createHmac('sha256', key).update(tokenHash).digest('base64url')}`)
      assert.equal(hex(tokenHashFromUrl(proof, keyring)), hex(tokenHash))
    }),
  )
})

test('rejects a proof with any character changed', () => {
  const proof = createTokenProof(new Uint8Array(32).fill(7), keyring)
  for (let at = 0; at < proof.length; at++) {
    for (const letter of 'AQgw9_-.~ \n') {
      const other = proof.slice(0, at) + letter + proof.slice(at + 1)
      if (other !== proof) assert.equal(tokenHashFromUrl(other, keyring), undefined, other)
    }
  }
})

test('rejects a proof of another key and every proof without a key', () => {
  const proof = createTokenProof(new Uint8Array(32), keyring)
  assert.equal(tokenHashFromUrl(proof, openKeyring('another key')), undefined)
  const keyless = openKeyring(undefined)
  assert.equal(tokenHashFromUrl(proof, keyless), undefined)
  assert.equal(tokenHashFromUrl(proof, keyless), undefined)
  assert.ok(tokenHashFromUrl(base64url(new Uint8Array(32)), keyless), 'raw tokens need no key')
  assert.throws(() => createTokenProof(new Uint8Array(32), keyless), isRefusal('unavailable', 'SECRETS_KEY is not set'))
})

test('signs proofs with the first key of the list', () => {
  const proof = createTokenProof(new Uint8Array(32), openKeyring(`${KEY},old`))
  assert.ok(tokenHashFromUrl(proof, keyring))
  assert.equal(tokenHashFromUrl(proof, openKeyring(`old,${KEY}`)), undefined)
})

test('rejects every other text', () => {
  const looksLike = fc.string({
    unit: fc.constantFrom(...'AZaz09_-.~=+/ \n\u0000é'),
    minLength: 40,
    maxLength: 90,
  })
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 100 }), looksLike), (text) => {
      if (/^[\w-]{43}$/.test(text) && base64url(Buffer.from(text, 'base64url')) === text) return
      assert.equal(tokenHashFromUrl(text, keyring), undefined)
    }),
  )
  const token = base64url(new Uint8Array(32).fill(255))
  for (const text of [
    '',
    ' ',
    token.slice(1),
    `${token}A`,
    `${token}\n`,
    ` ${token.slice(1)}`,
    `${token.slice(0, 42)}9`,
  ])
    assert.equal(tokenHashFromUrl(text, keyring), undefined, JSON.stringify(text))
})

test('accepts only the canonical spelling of a token', () => {
  const token = base64url(new Uint8Array(32))
  assert.ok(tokenHashFromUrl(token, keyring))
  for (const last of 'BCD') assert.equal(tokenHashFromUrl(token.slice(0, 42) + last, keyring), undefined)
})

test('redacts tokens and proofs in any text', () => {
  fc.assert(
    fc.property(bytes32, (bytes) => {
      const [token, proof] = [base64url(bytes), createTokenProof(bytes, keyring)]
      for (const text of [
        token,
        proof,
        `https://a.example/chat/${token}/`,
        `/chat/${proof}/mcp`,
        `\n${token}\n${proof}`,
      ]) {
        for (const shown of [redact(text), redactJson(JSON.stringify(text))]) {
          assert.ok(!shown.includes(token), shown)
          assert.ok(!shown.includes(proof.slice(1)), shown)
        }
      }
    }),
  )
})
