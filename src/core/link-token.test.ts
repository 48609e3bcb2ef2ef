import assert from 'node:assert/strict'
import { createHash, createHmac, hkdfSync } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { refused } from '../../test/support/host.ts'
import { redact, redactJson } from '../lib/redact.ts'
import { hashOfLink, proofOf } from './link-token.ts'
import { openKeyring } from './seal.ts'

const KEY = 'a key of the tests'
const keyring = openKeyring(KEY)
const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 })
const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
const hex = (bytes: Uint8Array | undefined): string | undefined => bytes && Buffer.from(bytes).toString('hex')

test('a raw token gives the SHA-256 of its text', () => {
  fc.assert(
    fc.property(bytes32, (bytes) => {
      const token = base64url(bytes)
      assert.equal(hex(hashOfLink(token, keyring)), createHash('sha256').update(token).digest('hex'))
    }),
  )
})

test('a proof gives the hash that it was made of, and is what the decision says', () => {
  const key = Buffer.from(hkdfSync('sha256', KEY, '', 'svc token proof', 32))
  fc.assert(
    fc.property(bytes32, (tokenHash) => {
      const proof = proofOf(tokenHash, keyring)
      assert.equal(proof, `~${base64url(tokenHash)}.${createHmac('sha256', key).update(tokenHash).digest('base64url')}`)
      assert.equal(hex(hashOfLink(proof, keyring)), hex(tokenHash))
    }),
  )
})

test('a change of any letter of a proof makes it no proof', () => {
  const proof = proofOf(new Uint8Array(32).fill(7), keyring)
  for (let at = 0; at < proof.length; at++) {
    for (const letter of 'AQgw9_-.~ \n') {
      const other = proof.slice(0, at) + letter + proof.slice(at + 1)
      if (other !== proof) assert.equal(hashOfLink(other, keyring), undefined, other)
    }
  }
})

test('a proof is worth nothing under another key, and under none', () => {
  const proof = proofOf(new Uint8Array(32), keyring)
  assert.equal(hashOfLink(proof, openKeyring('another key')), undefined)
  const keyless = openKeyring(undefined)
  assert.equal(hashOfLink(proof, keyless), undefined)
  assert.equal(hashOfLink(proof, keyless), undefined)
  assert.ok(hashOfLink(base64url(new Uint8Array(32)), keyless), 'raw tokens need no key')
  assert.throws(() => proofOf(new Uint8Array(32), keyless), refused('unavailable', 'SECRETS_KEY is not set'))
})

test('the first key of a list makes the proof', () => {
  const proof = proofOf(new Uint8Array(32), openKeyring(`${KEY},old`))
  assert.ok(hashOfLink(proof, keyring))
  assert.equal(hashOfLink(proof, openKeyring(`old,${KEY}`)), undefined)
})

test('anything else is no link', () => {
  const looksLike = fc.string({
    unit: fc.constantFrom(...'AZaz09_-.~=+/ \n\u0000é'),
    minLength: 40,
    maxLength: 90,
  })
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: 'binary', maxLength: 100 }), looksLike), (text) => {
      if (/^[\w-]{43}$/.test(text) && base64url(Buffer.from(text, 'base64url')) === text) return
      assert.equal(hashOfLink(text, keyring), undefined)
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
    assert.equal(hashOfLink(text, keyring), undefined, JSON.stringify(text))
})

test('a token has one spelling: what decodes to the same bytes is another text and no link', () => {
  const token = base64url(new Uint8Array(32))
  assert.ok(hashOfLink(token, keyring))
  for (const last of 'BCD') assert.equal(hashOfLink(token.slice(0, 42) + last, keyring), undefined)
})

test('tokens and proofs are redacted wherever they are written down', () => {
  fc.assert(
    fc.property(bytes32, (bytes) => {
      const [token, proof] = [base64url(bytes), proofOf(bytes, keyring)]
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
