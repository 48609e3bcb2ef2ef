// The state of a sign-in between the redirect to a provider and its callback. It is sealed in a cookie of the browser that
// began, so a callback in another browser does not sign that one in.
import { z } from 'zod'
import { keyedHash } from '../../core/secrets/derived-keys.ts'
import { Refusal } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { attemptCookieName, formatCookie, isSecure, readCookie } from '../http/session-cookie.ts'
import { providerPath } from './provider-paths.ts'

const ATTEMPT_MS = 10 * 60_000

const Attempt = z.object({
  state: z.string(),
  nonce: z.string(),
  /** Of PKCE. */
  verifier: z.string(),
  next: z.string().optional(),
  /** Id of the session whose person links the account; absent for a sign-in. */
  link: z.string().optional(),
  startedMs: z.number(),
})

export type ProviderAttempt = z.output<typeof Attempt>

export function startAttempt(
  host: InstanceHost,
  { next, link }: Pick<ProviderAttempt, 'next' | 'link'>,
): ProviderAttempt {
  const text = (): string => Buffer.from(host.random.bytes(32)).toString('base64url')
  return {
    state: text(),
    nonce: text(),
    verifier: text(),
    startedMs: host.clock.now(),
    ...(next === undefined ? {} : { next }),
    ...(link === undefined ? {} : { link }),
  }
}

const context = (provider: string): string => `sign-in attempt at ${provider}`

export function attemptCookie(host: InstanceHost, provider: string, attempt: ProviderAttempt): string {
  const sealed = Buffer.from(host.keyring.seal(JSON.stringify(attempt), context(provider))).toString('base64url')
  return formatAttempt(host, provider, sealed, ATTEMPT_MS / 1000)
}

export function clearedAttemptCookie(host: InstanceHost, provider: string): string {
  return formatAttempt(host, provider, '', 0)
}

function formatAttempt(host: InstanceHost, provider: string, value: string, maxAgeS: number): string {
  // The prefix __Host- needs the path /.
  const path = isSecure(host) ? '/' : providerPath(provider)
  return formatCookie(host, attemptCookieName(host, provider), value, { maxAgeS, path })
}

/** Undefined if this browser began no sign-in at the provider in the last 10 minutes. */
export function readAttempt(
  host: InstanceHost,
  provider: string,
  header: string | undefined,
): ProviderAttempt | undefined {
  const value = readCookie(header, attemptCookieName(host, provider))
  const text = value === undefined ? undefined : tryOpen(host, Buffer.from(value, 'base64url'), provider)
  const { data } = Attempt.safeParse(text === undefined ? undefined : tryParseJson(text))
  const ageMs = host.clock.now() - (data?.startedMs ?? Number.NaN)
  return ageMs >= 0 && ageMs < ATTEMPT_MS ? data : undefined
}

function tryOpen({ keyring }: InstanceHost, sealed: Uint8Array, provider: string): string | undefined {
  try {
    return keyring.open(sealed, context(provider)).toString()
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

/**
 * Proves that the page of the session started the link. Another site could start one otherwise, while the browser is signed in at
 * the provider with the attacker's account. It is in a URL, so it is not the token of forms.
 */
export function linkProof({ keyring }: Pick<InstanceHost, 'keyring'>, session: string, provider: string): string {
  return keyedHash(keyring, 'svc account link', `${session} ${provider}`).toString('base64url')
}
