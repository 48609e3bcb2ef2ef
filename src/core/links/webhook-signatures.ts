// Verifies webhook signatures on the raw bytes of the body. See docs/decisions.md#signed-webhooks.
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Random } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'

/** `header` is in lower case. */
export type SignatureScheme =
  | { readonly kind: 'github' }
  | { readonly kind: 'standard' }
  | { readonly kind: 'stripe' }
  | { readonly kind: 'hmac'; readonly header: string }

/** Called with names in lower case. */
export type HeaderLookup = (name: string) => string | undefined

const TOLERANCE_MS = 5 * 60_000
const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
const STANDARD_PREFIX = 'whsec_'

function tryParseScheme(text: string): SignatureScheme | undefined {
  if (text === 'github' || text === 'standard' || text === 'stripe') return { kind: text }
  const header = /^hmac:(.*)$/s.exec(text)?.[1]
  return header !== undefined && HEADER.test(header) ? { kind: 'hmac', header: header.toLowerCase() } : undefined
}

export function signatureSchemeFault(text: string): string | undefined {
  if (tryParseScheme(text)) return undefined
  return text.startsWith('hmac:')
    ? 'must name a header after hmac:, such as hmac:X-Signature'
    : 'must be github, standard, stripe or hmac:<header>'
}

export function parseSignatureScheme(text: string): SignatureScheme {
  return tryParseScheme(text) ?? refuse('invalid', `the signature scheme ${signatureSchemeFault(text)}`)
}

/** Rejects secrets that no sender can sign with. */
export function signingSecretFault(scheme: SignatureScheme, secret: string): string | undefined {
  if (secret === '') return 'must not be empty'
  if (scheme.kind !== 'standard' || !secret.startsWith(STANDARD_PREFIX)) return undefined
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(secret.slice(STANDARD_PREFIX.length))
  return isBase64 ? undefined : `must be base64 after ${STANDARD_PREFIX}`
}

/** Undefined if the signature is valid. The messages reveal nothing about the expected signature. */
export function signatureFault(
  scheme: SignatureScheme,
  secret: Uint8Array,
  headers: HeaderLookup,
  body: Uint8Array,
  nowMs: number,
): string | undefined {
  switch (scheme.kind) {
    case 'github':
      return githubFault(secret, headers, body)
    case 'standard':
      return standardFault(secret, headers, body, nowMs)
    case 'stripe':
      return stripeFault(secret, headers, body, nowMs)
    case 'hmac':
      return hmacFault(scheme.header, secret, headers, body)
  }
}

function githubFault(secret: Uint8Array, headers: HeaderLookup, body: Uint8Array): string | undefined {
  const header = headers('x-hub-signature-256')
  if (header === undefined) return missingHeader('X-Hub-Signature-256')
  return compareSignatures([decodeHex(/^sha256=(.*)$/s.exec(header)?.[1])], hmac(secret, '', body))
}

/**
 * How the names of the three headers begin: as in Standard Webhooks, or as in Svix, which Standard Webhooks is based on. All
 * three begin in the same way, so that the id that marks a repeat is the one that was signed.
 */
export function standardPrefix(headers: HeaderLookup): 'webhook' | 'svix' {
  return !headers('webhook-id') && headers('svix-id') ? 'svix' : 'webhook'
}

/** https://www.standardwebhooks.com; several signatures are sent while a secret is rotated. */
function standardFault(secret: Uint8Array, headers: HeaderLookup, body: Uint8Array, nowMs: number): string | undefined {
  const prefix = standardPrefix(headers)
  const [id, at, given] = ['id', 'timestamp', 'signature'].map((name) => headers(`${prefix}-${name}`))
  if (!id) return missingHeader(`${prefix}-id`)
  if (at === undefined) return missingHeader(`${prefix}-timestamp`)
  if (given === undefined) return missingHeader(`${prefix}-signature`)
  const fault = ageFault(at, nowMs)
  if (fault !== undefined) return fault
  const signatures = given.split(' ').map((one) => decodeBase64(/^v1,(.*)$/s.exec(one)?.[1]))
  return compareSignatures(signatures, hmac(standardKey(secret), `${id}.${at}.`, body))
}

/** The value of `webhook-signature`. */
export function signStandard(secret: Uint8Array, id: string, seconds: number, body: Uint8Array): string {
  return `v1,${hmac(standardKey(secret), `${id}.${seconds}.`, body).toString('base64')}`
}

/** A secret for `signStandard`, as the receiver gets it. */
export function createStandardSecret(random: Random): string {
  return STANDARD_PREFIX + Buffer.from(random.bytes(32)).toString('base64')
}

function standardKey(secret: Uint8Array): Uint8Array {
  const text = Buffer.from(secret).toString()
  return text.startsWith(STANDARD_PREFIX) ? Buffer.from(text.slice(STANDARD_PREFIX.length), 'base64') : secret
}

/** `t=<seconds>,v1=<hex>[,v1=<hex>][,v0=…]`; only v1 counts. */
function stripeFault(secret: Uint8Array, headers: HeaderLookup, body: Uint8Array, nowMs: number): string | undefined {
  const header = headers('stripe-signature')
  if (header === undefined) return missingHeader('Stripe-Signature')
  const parts = header.split(',').map((part) => part.trim())
  const valuesOf = (start: string) =>
    parts.filter((part) => part.startsWith(start)).map((part) => part.slice(start.length))
  const [at, duplicate] = valuesOf('t=')
  if (at === undefined || duplicate !== undefined) return 'Stripe-Signature must contain exactly one t='
  const fault = ageFault(at, nowMs)
  if (fault !== undefined) return fault
  return compareSignatures(valuesOf('v1=').map(decodeHex), hmac(secret, `${at}.`, body))
}

function hmacFault(name: string, secret: Uint8Array, headers: HeaderLookup, body: Uint8Array): string | undefined {
  const header = headers(name)
  if (header === undefined) return missingHeader(name)
  const text = header.replace(/^sha256=/i, '')
  return compareSignatures([decodeHex(text) ?? decodeBase64(text)], hmac(secret, '', body))
}

function missingHeader(name: string): string {
  return `the header ${name} is missing: this link accepts only signed requests`
}

/** In both directions: the sender's clock may be ahead or behind. */
function ageFault(seconds: string, nowMs: number): string | undefined {
  if (!/^\d{1,12}$/.test(seconds)) return "the signature's timestamp is not in seconds since 1970"
  return Math.abs(nowMs - Number(seconds) * 1000) <= TOLERANCE_MS
    ? undefined
    : "the signature's timestamp is more than 5 minutes off"
}

function compareSignatures(given: readonly (Buffer | undefined)[], expected: Buffer): string | undefined {
  // Compares all, so timing does not reveal which one matched.
  let isValid = false
  for (const one of given) if (one && timingSafeEqual(one, expected)) isValid = true
  return isValid ? undefined : 'the signature does not match'
}

function hmac(secret: Uint8Array, prefix: string, body: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(prefix).update(body).digest()
}

function decodeHex(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : undefined
}

/** 32 bytes in base64 or base64url. */
function decodeBase64(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
