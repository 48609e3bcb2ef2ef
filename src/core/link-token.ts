// What stands for a link in a URL: the raw token, or a proof that the operator's own command line can make of its hash
// (decision L16), because the token itself is stored nowhere.
import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import { Refusal } from '../lib/refusal.ts'
import type { Keyring } from './seal.ts'

// 32 bytes in base64url, written the one canonical way: the two bits left over in the last letter are zero.
const TOKEN = /^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/
const TOKEN_LENGTH = 43
const PROOF_MARK = '~'
const PROOF_LENGTH = 1 + TOKEN_LENGTH + 1 + TOKEN_LENGTH
const PROOF_PURPOSE = 'svc token proof'

/** The hash that the store would know this link by; nothing where the text is no link. */
export function hashOfLink(inUrl: string, keyring: Keyring): Uint8Array | undefined {
  const text = unescaped(inUrl)
  if (text.length === TOKEN_LENGTH) return TOKEN.test(text) ? hashOfToken(text) : undefined
  return text.length === PROOF_LENGTH && text.startsWith(PROOF_MARK) ? provenHash(text, keyring) : undefined
}

/** Whether a text that is a link is a proof, which only the operator can make. */
export function isProof(link: string): boolean {
  return unescaped(link).startsWith(PROOF_MARK)
}

/** Some clients escape more than they must: the letters of links mean the same as %41 and as A (RFC 3986, 2.3). */
function unescaped(link: string): string {
  if (!link.includes('%')) return link
  return link.replace(/%(?:2[DE]|3\d|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])/gi, (code) => decodeURIComponent(code))
}

/** Every request asks: the digest as a text and then as bytes takes half the time of a buffer from OpenSSL. */
function hashOfToken(token: string): Uint8Array {
  return Buffer.from(hash('sha256', token, 'latin1'), 'latin1')
}

/** Stands where a raw token would, for whoever has the store and SECRETS_KEY. */
export function proofOf(tokenHash: Uint8Array, keyring: Keyring): string {
  const encoded = Buffer.from(tokenHash).toString('base64url')
  return `${PROOF_MARK}${encoded}.${sign(tokenHash, mustHaveKey(keyring)).toString('base64url')}`
}

function provenHash(text: string, keyring: Keyring): Uint8Array | undefined {
  const [hashed = '', signature = '', more] = text.slice(PROOF_MARK.length).split('.')
  if (more !== undefined || !TOKEN.test(hashed) || !TOKEN.test(signature)) return undefined
  const key = keyOf(keyring)
  if (!key) return undefined
  const tokenHash = Buffer.from(hashed, 'base64url')
  return timingSafeEqual(sign(tokenHash, key), Buffer.from(signature, 'base64url')) ? tokenHash : undefined
}

function sign(tokenHash: Uint8Array, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(tokenHash).digest()
}

/** Derived once; a keyring's first entry never changes. */
const keys = new WeakMap<Keyring, KeyObject | 'none'>()

/** Nothing where SECRETS_KEY is not set: then no proof is a good one. */
function keyOf(keyring: Keyring): KeyObject | undefined {
  let key = keys.get(keyring)
  if (key === undefined) {
    try {
      key = mustHaveKey(keyring)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      key = 'none'
    }
    keys.set(keyring, key)
  }
  return key === 'none' ? undefined : key
}

function mustHaveKey(keyring: Keyring): KeyObject {
  return createSecretKey(keyring.derive(PROOF_PURPOSE))
}
