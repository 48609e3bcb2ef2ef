// Signatures of webhooks, checked on the raw bytes (decision L18): who signs how, and what is wrong with one.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { refuse } from '../lib/refusal.ts'

/** How a sender signs. `header` is in lower case. */
export type Scheme =
  | { readonly kind: 'github' }
  | { readonly kind: 'standard' }
  | { readonly kind: 'stripe' }
  | { readonly kind: 'hmac'; readonly header: string }

/** Asked with names in lower case. */
export type Headers = (name: string) => string | undefined

const TOLERANCE_MS = 5 * 60_000
const HEADER = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/
const STANDARD_PREFIX = 'whsec_'

function readScheme(text: string): Scheme | undefined {
  if (text === 'github' || text === 'standard' || text === 'stripe') return { kind: text }
  const header = /^hmac:(.*)$/s.exec(text)?.[1]
  return header !== undefined && HEADER.test(header) ? { kind: 'hmac', header: header.toLowerCase() } : undefined
}

/** Why a text is no scheme, or nothing. */
export function schemeFault(text: string): string | undefined {
  if (readScheme(text)) return undefined
  return text.startsWith('hmac:')
    ? 'must name a header after hmac:, such as hmac:X-Signature'
    : 'must be github, standard, stripe or hmac:<header>'
}

export function parseScheme(text: string): Scheme {
  return readScheme(text) ?? refuse('invalid', `the way to verify ${schemeFault(text)}`)
}

/** Why no sender can sign with this secret, or nothing. */
export function secretFault(scheme: Scheme, secret: string): string | undefined {
  if (secret === '') return 'must not be empty'
  if (scheme.kind !== 'standard' || !secret.startsWith(STANDARD_PREFIX)) return undefined
  const isBase64 = /^[A-Za-z0-9+/]+={0,2}$/.test(secret.slice(STANDARD_PREFIX.length))
  return isBase64 ? undefined : `must be base64 after ${STANDARD_PREFIX}`
}

/** What is wrong with a request's signature, as a sentence that gives nothing away; nothing when it is good. */
export function signatureFault(
  scheme: Scheme,
  secret: Uint8Array,
  headers: Headers,
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

function githubFault(secret: Uint8Array, headers: Headers, body: Uint8Array): string | undefined {
  const given = headers('x-hub-signature-256')
  if (given === undefined) return missing('X-Hub-Signature-256')
  return judged([hexOf(/^sha256=(.*)$/s.exec(given)?.[1])], hmac(secret, '', body))
}

/** https://www.standardwebhooks.com: several signatures while a secret is being changed. */
function standardFault(secret: Uint8Array, headers: Headers, body: Uint8Array, nowMs: number): string | undefined {
  const [id, at, given] = [headers('webhook-id'), headers('webhook-timestamp'), headers('webhook-signature')]
  if (!id) return missing('webhook-id')
  if (at === undefined) return missing('webhook-timestamp')
  if (given === undefined) return missing('webhook-signature')
  const old = ageFault(at, nowMs)
  if (old !== undefined) return old
  const signatures = given.split(' ').map((one) => base64Of(/^v1,(.*)$/s.exec(one)?.[1]))
  return judged(signatures, hmac(standardKey(secret), `${id}.${at}.`, body))
}

function standardKey(secret: Uint8Array): Uint8Array {
  const text = Buffer.from(secret).toString()
  return text.startsWith(STANDARD_PREFIX) ? Buffer.from(text.slice(STANDARD_PREFIX.length), 'base64') : secret
}

/** `t=<seconds>,v1=<hex>[,v1=<hex>][,v0=…]`; only v1 counts. */
function stripeFault(secret: Uint8Array, headers: Headers, body: Uint8Array, nowMs: number): string | undefined {
  const given = headers('stripe-signature')
  if (given === undefined) return missing('Stripe-Signature')
  const parts = given.split(',').map((part) => part.trim())
  const valuesOf = (start: string) =>
    parts.filter((part) => part.startsWith(start)).map((part) => part.slice(start.length))
  const [at, another] = valuesOf('t=')
  if (at === undefined || another !== undefined) return 'Stripe-Signature has not one t='
  const old = ageFault(at, nowMs)
  if (old !== undefined) return old
  return judged(valuesOf('v1=').map(hexOf), hmac(secret, `${at}.`, body))
}

function hmacFault(header: string, secret: Uint8Array, headers: Headers, body: Uint8Array): string | undefined {
  const given = headers(header)
  if (given === undefined) return missing(header)
  const text = given.replace(/^sha256=/i, '')
  return judged([hexOf(text) ?? base64Of(text)], hmac(secret, '', body))
}

function missing(header: string): string {
  return `the header ${header} is missing: this link takes only signed requests`
}

/** Either way: a clock may be ahead as well as behind. */
function ageFault(seconds: string, nowMs: number): string | undefined {
  if (!/^\d{1,12}$/.test(seconds)) return "the signature's time is not in seconds since 1970"
  return Math.abs(nowMs - Number(seconds) * 1000) <= TOLERANCE_MS
    ? undefined
    : "the signature's time is more than 5 minutes off"
}

function judged(given: readonly (Buffer | undefined)[], expected: Buffer): string | undefined {
  // All are looked at, so that the time does not tell which one was near.
  let isGood = false
  for (const one of given) if (one && timingSafeEqual(one, expected)) isGood = true
  return isGood ? undefined : 'the signature does not fit'
}

function hmac(secret: Uint8Array, prefix: string, body: Uint8Array): Buffer {
  return createHmac('sha256', secret).update(prefix).update(body).digest()
}

function hexOf(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : undefined
}

/** 32 bytes, in either alphabet. */
function base64Of(text: string | undefined): Buffer | undefined {
  return text !== undefined && /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? Buffer.from(text, 'base64') : undefined
}
