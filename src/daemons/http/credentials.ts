// Authenticates requests: a bearer in the Authorization header, or the session cookie of a browser.
import type { Context } from 'hono'
import { verifyBearer } from '../../core/access/bearers.ts'
import type { Caller } from '../../core/access/caller.ts'
import { authenticateSession } from '../../core/people/browser-sessions.ts'
import type { RequestAuthenticator } from '../../faces/rest.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { clientAddressOf } from './request-middleware.ts'
import { requestSource } from './request-source.ts'
import { isFormToken, readSessionCookie } from './session-cookie.ts'

export const CSRF_HEADER = 'X-CSRF-Token'

export interface Credentials {
  readonly authorization?: string | undefined
  readonly cookie?: string | undefined
}

export interface Authentication {
  readonly caller?: Caller
  /** When the person of a session signed in. */
  readonly signedInMs?: number
  /** The new token of the session, which the response must set as cookie. */
  readonly renewedToken?: string
  /** Why there is no caller. */
  readonly fault?: Refusal
}

export interface AuthenticationOptions {
  /** Whether the response can set a cookie. */
  readonly canRenew?: boolean
  /** Audiences of bearers that are accepted here, besides the instance. */
  readonly audiences?: readonly string[]
}

/** Refuses repeated headers too: Node joins them with a comma. */
export function bearerFromHeader(header: string | undefined): string {
  const [, bearer] = /^bearer +([\w-]+\.[\w-]+\.[\w-]+) *$/i.exec(header ?? '') ?? []
  return (
    bearer ?? refuse('unauthenticated', 'a bearer token is required', 'send the header Authorization: Bearer <bearer>')
  )
}

/**
 * Both credentials are optional. Other Authorization headers than bearers name no caller: they may be meant for a backend.
 */
export async function authenticate(
  host: InstanceHost,
  { authorization, cookie }: Credentials,
  { canRenew = false, audiences = [] }: AuthenticationOptions = {},
): Promise<Authentication> {
  const token = readSessionCookie(host, cookie)
  const session = token === undefined ? undefined : await authenticateSession(host, token, canRenew)
  const bearer = authorization === undefined ? {} : await authenticateBearer(host, authorization, audiences)
  if (!session || (bearer.fault && /^bearer /i.test(authorization ?? ''))) return bearer
  const { sub, id, startedMs: signedInMs, renewedToken } = session
  // A request that names two people is a mistake or an attack.
  if (bearer.caller && (bearer.caller.kind !== 'person' || bearer.caller.sub !== sub))
    return { fault: new Refusal('unauthenticated', 'the bearer and the session belong to different callers') }
  return {
    caller: bearer.caller ?? { kind: 'person', sub, session: id },
    signedInMs,
    ...(renewedToken === undefined ? {} : { renewedToken }),
  }
}

async function authenticateBearer(
  host: InstanceHost,
  authorization: string,
  audiences: readonly string[],
): Promise<Authentication> {
  try {
    return { caller: await verifyBearer(host, bearerFromHeader(authorization), audiences) }
  } catch (fault) {
    if (fault instanceof Refusal && fault.code === 'unauthenticated') return { fault }
    throw fault
  }
}

/** Authenticates a request of Hono, and renews its session with the response. */
export async function authenticateRequest(
  host: InstanceHost,
  c: Context,
  audiences: readonly string[] = [],
): Promise<Authentication> {
  const credentials = { authorization: c.req.header('Authorization'), cookie: c.req.header('Cookie') }
  const authentication = await authenticate(host, credentials, { canRenew: true, audiences })
  if (authentication.caller) c.set('caller', authentication.caller)
  if (authentication.renewedToken !== undefined) c.set('renewedSession', authentication.renewedToken)
  return authentication
}

/** For REST and MCP: a caller is required, and a session needs its own origin, and the CSRF header to change something. */
export function requestAuthenticator(host: InstanceHost, audiences: readonly string[] = []): RequestAuthenticator {
  return async (c) => {
    const { caller, fault } = await authenticateRequest(host, c, audiences)
    if (!caller) throw fault ?? missingCredentials()
    if (caller.kind === 'person' && caller.session !== undefined) {
      mustBeOwnOrigin(host, c)
      mustHaveCsrfHeader(host, caller.session, c)
    }
    const sourceIp = clientAddressOf(c)
    return { host, caller, face: 'rest', requestId: c.get('requestId'), ...(sourceIp ? { sourceIp } : {}) }
  }
}

function missingCredentials(): Refusal {
  return new Refusal('unauthenticated', 'a bearer token is required', 'send the header Authorization: Bearer <bearer>')
}

/** Programs send no origin; a link on another site may lead to what a GET shows. */
function mustBeOwnOrigin(host: InstanceHost, c: Context): void {
  const [origin, address, site] = [c.req.header('Origin'), c.req.header('Host'), c.req.header('Sec-Fetch-Site')]
  if (origin === undefined && isSafeMethod(c.req.method)) return
  if (requestSource(host, { origin, host: address, 'sec-fetch-site': site }) === 'foreign')
    refuse('forbidden', 'this request was sent from another site', 'send a bearer instead of the session cookie')
}

function mustHaveCsrfHeader(host: InstanceHost, session: string, c: Context): void {
  if (isSafeMethod(c.req.method)) return
  if (!isFormToken(host, session, c.req.header(CSRF_HEADER)))
    refuse(
      'forbidden',
      `a request with a session needs the header ${CSRF_HEADER}`,
      'GET /auth/me with Accept: application/json returns its value as csrf',
    )
}

export function isSafeMethod(method: string): boolean {
  return method === 'GET' || method === 'HEAD'
}
