// Starts the session of a person whose account was confirmed. Every way to sign in ends here.
import type { Context } from 'hono'
import { administersAny } from '../../core/access/policy.ts'
import { accounts, type ConfirmedAccount, primaryAccount } from '../../core/people/accounts.ts'
import { defineCounter, knownLabel } from '../../lib/log/metric-registry.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Settings } from '../../lib/settings.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { sessionsResource } from '../../resources/sessions.ts'
import type { SESSION_SETTINGS } from '../settings.ts'
import { authenticate } from './credentials.ts'
import { redirectTo } from './page-response.ts'
import { clientAddressOf } from './request-middleware.ts'
import { formatSessionCookie, readInviteCookie } from './session-cookie.ts'
import type { SignInAllowlist } from './sign-in-allowlist.ts'

const METHODS = ['link', 'passkey', 'invite', 'github', 'discord', 'other'] as const

/** OpenID providers are `other`: operators name them. */
export const SIGN_INS = defineCounter('svc_sign_ins_total', 'Sign-ins of people whose account was confirmed', {
  method: METHODS,
  result: ['ok', 'refused'],
})

export interface SignInContext {
  readonly host: InstanceHost
  readonly isAllowed: SignInAllowlist
  /** How long sessions last. */
  readonly settings: Pick<Settings<typeof SESSION_SETTINGS>, 'SESSION_IDLE' | 'SESSION_MAX'>
}

export interface SignInRequest {
  readonly account: ConfirmedAccount
  /** link, passkey, or the name of the provider. */
  readonly method: string
  /** The one-time link of method link. */
  readonly linkToken?: string | undefined
  readonly inviteToken?: string | undefined
}

export interface StartedSession {
  readonly sub: string
  readonly session: string
  readonly cookie: string
}

/** The browser's previous session ends: a session never continues as another person. */
export async function startSession(
  context: SignInContext,
  c: Context,
  request: SignInRequest,
): Promise<StartedSession> {
  const count = (result: 'ok' | 'refused'): void =>
    context.host.metrics.add(SIGN_INS, { method: knownLabel(METHODS, request.method), result })
  try {
    const started = await signIn(context, c, request)
    count('ok')
    return started
  } catch (error) {
    if (error instanceof Refusal) count('refused')
    throw error
  }
}

async function signIn(
  { host, isAllowed, settings }: SignInContext,
  c: Context,
  { account, method, linkToken, inviteToken }: SignInRequest,
): Promise<StartedSession> {
  const previous = (await authenticate(host, { cookie: c.req.header('Cookie') })).caller
  const address = clientAddressOf(c)
  const request = {
    host,
    caller: { kind: 'person', sub: account.sub },
    face: 'dash',
    requestId: c.get('requestId'),
    ...(address === undefined ? {} : { sourceIp: address }),
  } as const
  const { token, family_id, sub } = await callVerb(request, sessionsResource.verbs.sign_in, {
    account,
    method,
    is_allowed: isAllowed(account) || (await isPrimaryAllowed(host, isAllowed, account)),
    link_token: linkToken,
    invite_token: inviteToken,
    browser: browserName(c.req.header('User-Agent')),
    address,
    replaces: previous?.kind === 'person' ? previous.session : undefined,
    idle_ms: settings.SESSION_IDLE,
    max_ms: settings.SESSION_MAX,
  })
  return { sub, session: family_id, cookie: formatSessionCookie(host, token) }
}

/** SIGN_IN_ALLOW may name the account that the person acts as, and they sign in with one that is linked to it. */
async function isPrimaryAllowed(
  { engine }: InstanceHost,
  isAllowed: SignInAllowlist,
  { sub }: ConfirmedAccount,
): Promise<boolean> {
  const primary = await engine.read(async (tx) => {
    const primarySub = await primaryAccount(tx, sub)
    return primarySub === sub ? undefined : accounts.find(tx, { sub: primarySub })
  })
  return primary !== undefined && isAllowed(primary)
}

/** The invite that the person had opened before they signed in. */
export function inviteTokenOf({ host }: Pick<SignInContext, 'host'>, c: Context): string | undefined {
  return readInviteCookie(host, c.req.header('Cookie'))
}

/** Where a person goes after signing in: `next`, else the invite, else the dashboard or their account. */
export async function signedInDestination(
  context: Pick<SignInContext, 'host'>,
  c: Context,
  { sub, next }: { readonly sub: string; readonly next: string | undefined },
): Promise<string> {
  const invite = inviteTokenOf(context, c)
  if (next !== undefined) return next
  if (invite !== undefined) return `/invite/${invite}`
  return (await hasDashboard(context.host, sub)) ? DASHBOARD_PATH : HOME_PATH
}

/** The account page, for people who have no other destination. */
export const HOME_PATH = '/auth/me'

export const DASHBOARD_PATH = '/dash/'

/** Other people have nothing to administer; their account page leads to their chats. */
export function hasDashboard(host: InstanceHost, sub: string): Promise<boolean> {
  return host.engine.read(async (tx) => administersAny(await host.policies.read(tx), sub))
}

export function signedInResponse({ cookie }: StartedSession, next: string): Response {
  return redirectTo(next, { 'Set-Cookie': cookie })
}

const BROWSERS: readonly (readonly [string, RegExp])[] = [
  ['Edge', /\bEdg/],
  ['Opera', /\bOPR\//],
  ['Chrome', /\b(?:Chrome|CriOS|Chromium)\//],
  ['Firefox', /\b(?:Firefox|FxiOS)\//],
  ['Safari', /\bSafari\//],
  ['curl', /^curl\//],
]
const SYSTEMS: readonly (readonly [string, RegExp])[] = [
  ['Android', /\bAndroid\b/],
  ['iPhone or iPad', /\b(?:iPhone|iPad)\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMac OS X\b/],
  ['Linux', /\bLinux\b/],
]

/** `Firefox on Linux`: enough to recognize a session. */
export function browserName(userAgent = ''): string {
  const find = (names: typeof BROWSERS): string | undefined => names.find(([, pattern]) => pattern.test(userAgent))?.[0]
  const [browser = 'Unknown browser', system] = [find(BROWSERS), find(SYSTEMS)]
  return system === undefined ? browser : `${browser} on ${system}`
}
