// Tokens of links and invites: creating, hashing and parsing them. The store keeps only `token_hash`, so the operator's
// command line presents a proof, the hash signed with SECRETS_KEY, in place of the token. See docs/decisions.md#svc-send.
import { createHmac, createSecretKey, hash, type KeyObject, timingSafeEqual } from 'node:crypto'
import type { Random } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import { TOKEN_BYTES, TOKEN_LAST_CHARACTER, TOKEN_LENGTH } from '../../lib/token-format.ts'
import type { Keyring } from '../secrets/keyring.ts'

const TOKEN = new RegExp(`^[A-Za-z0-9_-]{${TOKEN_LENGTH - 1}}${TOKEN_LAST_CHARACTER}$`)
const PROOF_MARK = '~'
const PROOF_LENGTH = 1 + TOKEN_LENGTH + 1 + TOKEN_LENGTH
const PROOF_PURPOSE = 'svc token proof'

export function createToken(random: Random): string {
  return Buffer.from(random.bytes(TOKEN_BYTES)).toString('base64url')
}

/** Whether a text has the format of tokens, which visitors' keys have too. */
export function isTokenText(text: string): boolean {
  return TOKEN.test(text)
}

export function hashToken(token: string): Uint8Array {
  return Buffer.from(hashTokenToKey(token), 'latin1')
}

/** The hash as a latin1 string, for use as a map key. Twice as fast as asking OpenSSL for a buffer. */
export function hashTokenToKey(token: string): string {
  return hash('sha256', token, 'latin1')
}

/** The `token_hash` of the link that a URL segment names by token or proof; undefined if it is malformed. */
export function tokenHashFromUrl(segment: string, keyring: Keyring): Uint8Array | undefined {
  const text = unescapeUnreserved(segment)
  if (text.length === TOKEN_LENGTH) return isTokenText(text) ? hashToken(text) : undefined
  return text.length === PROOF_LENGTH && text.startsWith(PROOF_MARK) ? verifyProof(text, keyring) : undefined
}

/** Whether a valid URL segment is a proof, which only the operator can create. */
export function isTokenProof(segment: string): boolean {
  return unescapeUnreserved(segment).startsWith(PROOF_MARK)
}

/** Some clients escape characters that need no escaping; RFC 3986 section 2.3 makes %41 and A equivalent. */
function unescapeUnreserved(segment: string): string {
  if (!segment.includes('%')) return segment
  return segment.replace(/%(?:2[DE]|3\d|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE])/gi, (code) => decodeURIComponent(code))
}

/** Replaces the token in a URL; needs the store and SECRETS_KEY. */
export function createTokenProof(tokenHash: Uint8Array, keyring: Keyring): string {
  const encoded = Buffer.from(tokenHash).toString('base64url')
  return `${PROOF_MARK}${encoded}.${sign(tokenHash, deriveProofKey(keyring)).toString('base64url')}`
}

function verifyProof(proof: string, keyring: Keyring): Uint8Array | undefined {
  const [hashed = '', signature = '', more] = proof.slice(PROOF_MARK.length).split('.')
  if (more !== undefined || !TOKEN.test(hashed) || !TOKEN.test(signature)) return undefined
  const key = cachedProofKey(keyring)
  if (!key) return undefined
  const tokenHash = Buffer.from(hashed, 'base64url')
  return timingSafeEqual(sign(tokenHash, key), Buffer.from(signature, 'base64url')) ? tokenHash : undefined
}

function sign(tokenHash: Uint8Array, key: KeyObject): Buffer {
  return createHmac('sha256', key).update(tokenHash).digest()
}

/** A keyring's first entry never changes, so its key is derived once. */
const proofKeys = new WeakMap<Keyring, KeyObject | 'none'>()

/** Undefined if SECRETS_KEY is not set: then every proof is invalid. */
function cachedProofKey(keyring: Keyring): KeyObject | undefined {
  let key = proofKeys.get(keyring)
  if (key === undefined) {
    try {
      key = deriveProofKey(keyring)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      key = 'none'
    }
    proofKeys.set(keyring, key)
  }
  return key === 'none' ? undefined : key
}

function deriveProofKey(keyring: Keyring): KeyObject {
  return createSecretKey(keyring.derive(PROOF_PURPOSE))
}
