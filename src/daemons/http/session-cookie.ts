// The session cookie of browsers, and the token that protects forms against requests from other sites.
import { timingSafeEqual } from 'node:crypto'
import { keyedHash } from '../../core/secrets/derived-keys.ts'
import type { InstanceHost } from '../../registry/context.ts'

type CookieHost = Pick<InstanceHost, 'instance' | 'webBase'>

export function isSecure({ webBase }: CookieHost): boolean {
  return webBase.startsWith('https:')
}

/** Cookies ignore ports, so instances on one host need different names; the prefix needs HTTPS. */
export function sessionCookieName(host: CookieHost): string {
  return isSecure(host) ? '__Host-svc_session' : `svc_session_${host.instance}`
}

/** The raw token of an invite that the person is about to redeem, while they sign in. */
export function inviteCookieName(host: CookieHost): string {
  return isSecure(host) ? '__Host-svc_invite' : `svc_invite_${host.instance}`
}

/** The sealed state of a sign-in at a provider. `__Host-`: a sibling domain could plant its own attempt otherwise. */
export function attemptCookieName(host: CookieHost, provider: string): string {
  return `${attemptCookiePrefix(host)}_${provider}`
}

function attemptCookiePrefix(host: CookieHost): string {
  return isSecure(host) ? '__Host-svc_attempt' : `svc_attempt_${host.instance}`
}

/** Undefined if there is none, or several: a sibling domain may have planted one of them. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  if (header === undefined || !header.includes(name)) return undefined
  const values = header.split(';').flatMap((part) => {
    const at = part.indexOf('=')
    return at > 0 && part.slice(0, at).trim() === name ? [part.slice(at + 1).trim()] : []
  })
  return values.length === 1 ? values[0] : undefined
}

export function readSessionCookie(host: CookieHost, header: string | undefined): string | undefined {
  return readCookie(header, sessionCookieName(host))
}

const INVITE_TOKEN = /^[A-Za-z0-9_-]{43}$/

export function readInviteCookie(host: CookieHost, header: string | undefined): string | undefined {
  const token = readCookie(header, inviteCookieName(host))
  return token !== undefined && INVITE_TOKEN.test(token) ? token : undefined
}

interface CookieOptions {
  readonly maxAgeS: number
  readonly path?: string
}

export function formatCookie(host: CookieHost, name: string, value: string, options: CookieOptions): string {
  const { maxAgeS, path = '/' } = options
  return `${name}=${value}; Path=${path}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Lax${isSecure(host) ? '; Secure' : ''}`
}

/** The browser keeps it longer than the server: expiry is decided by the session's row. */
const COOKIE_MAX_AGE_S = 400 * 24 * 3600

export function formatSessionCookie(host: CookieHost, token: string): string {
  return formatCookie(host, sessionCookieName(host), token, { maxAgeS: COOKIE_MAX_AGE_S })
}

export function clearedSessionCookie(host: CookieHost): string {
  return formatCookie(host, sessionCookieName(host), '', { maxAgeS: 0 })
}

/** The Cookie header for backends, which must not get the session or an invite. Undefined if nothing else is in it. */
export function withoutSessionCookie(host: CookieHost, header: string): string | undefined {
  const [own, attempt] = [[sessionCookieName(host), inviteCookieName(host)], attemptCookiePrefix(host)]
  const rest = header
    .split(';')
    .map((part) => part.trim())
    .filter((part) => {
      const name = part.split('=')[0]?.trim() ?? ''
      return part !== '' && !own.includes(name) && !name.startsWith(attempt)
    })
  return rest.length ? rest.join('; ') : undefined
}

/** Raw headers of a backend's response: it may set its own cookies, but not start, replace or end the session. */
export function withoutSessionCookies(host: CookieHost, rawHeaders: readonly string[]): string[] {
  const name = sessionCookieName(host)
  const isOurs = (at: number): boolean =>
    rawHeaders[at]?.toLowerCase() === 'set-cookie' && rawHeaders[at + 1]?.split('=')[0]?.trim() === name
  return rawHeaders.filter((_, at) => !isOurs(at - (at % 2)))
}

const FORM_PURPOSE = 'svc form token'

/** `binding`: the id of the session, or of the visit of a person who is not signed in. */
export function formToken({ keyring }: Pick<InstanceHost, 'keyring'>, binding: string): string {
  return keyedHash(keyring, FORM_PURPOSE, binding).toString('base64url')
}

export function isFormToken(host: Pick<InstanceHost, 'keyring'>, binding: string, given: string | undefined): boolean {
  const expected = Buffer.from(formToken(host, binding))
  const presented = Buffer.from(given ?? '')
  return presented.length === expected.length && timingSafeEqual(presented, expected)
}
