// Signs in to an instance on another machine with OAuth, as the public client svc-cli.
import {
  AuthorizationResponseError,
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  initiateDeviceAuthorization,
  None,
  pollDeviceAuthorizationGrant,
  ResponseBodyError,
  randomPKCECodeVerifier,
  randomState,
  refreshTokenGrant,
  type TokenEndpointResponse,
  tokenRevocation,
} from 'openid-client'
import type { Clock } from '../../lib/clock.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { isObject } from '../../lib/text/json.ts'
import { openLoopbackServer } from './loopback-server.ts'
import { isOwnMachine, refuseForeignResponse, refuseUnreachable } from './server-address.ts'
import type { RemoteSignIn } from './sign-in-file.ts'

/** Every instance knows this client. */
const CLIENT_ID = 'svc-cli'
const DEFAULT_TTL_S = 300

interface SignInOptions {
  readonly clock: Clock
  readonly signal: AbortSignal
  /** Prints instructions for the person. */
  say(text: string): void
}

/** Authorization code with PKCE; the browser returns to a server on this machine. */
export function signInWithBrowser(base: string, { clock, signal, say }: SignInOptions): Promise<RemoteSignIn> {
  return withOAuthErrors(base, async () => {
    const config = await discover(base)
    const [verifier, state] = [randomPKCECodeVerifier(), randomState()]
    await using loopback = await openLoopbackServer(state)
    const url = buildAuthorizationUrl(config, {
      redirect_uri: loopback.redirectUri,
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
      state,
      ...accessParameters(config, base),
    })
    say(`Open this address in a browser on this machine:\n\n  ${url.href}\n`)
    const exchange = (callback: URL): Promise<TokenEndpointResponse> =>
      withOAuthErrors(base, () => {
        // The URL that the browser requested, with the redirect URI that the server compares.
        const current = new URL(`${loopback.redirectUri}${callback.search}`)
        const checks = { pkceCodeVerifier: verifier, expectedState: state }
        return authorizationCodeGrant(config, current, checks, { resource: resourceOf(base) })
      })
    return toSignIn(base, clock, await loopback.receive(exchange, signal))
  })
}

/** For machines without a browser: the person types a code on another device. */
export function signInWithDevice(base: string, { clock, signal, say }: SignInOptions): Promise<RemoteSignIn> {
  return withOAuthErrors(base, async () => {
    const config = await discover(base)
    const started = await initiateDeviceAuthorization(config, accessParameters(config, base))
    say(
      `Open this address on any device:\n\n  ${started.verification_uri}\n\nand enter the code:\n\n  ${started.user_code}\n`,
    )
    const parameters = { resource: resourceOf(base) }
    return toSignIn(base, clock, await pollDeviceAuthorizationGrant(config, started, parameters, { signal }))
  })
}

/** Undefined if the session has ended. */
export function refreshSignIn(signIn: RemoteSignIn, clock: Clock): Promise<RemoteSignIn | undefined> {
  const { base, refresh_token } = signIn
  return withOAuthErrors(base, async () => {
    if (refresh_token === undefined) return undefined
    const config = await discover(base)
    try {
      const tokens = await refreshTokenGrant(config, refresh_token, { resource: resourceOf(base) })
      return toSignIn(base, clock, { refresh_token, ...tokens })
    } catch (error) {
      if (error instanceof ResponseBodyError && error.error === 'invalid_grant') return undefined
      throw error
    }
  })
}

/** Ends the session on the server. */
export function revokeSignIn({ base, refresh_token, access_token }: RemoteSignIn): Promise<void> {
  return withOAuthErrors(base, async () => tokenRevocation(await discover(base), refresh_token ?? access_token))
}

/** The audience of the tokens. */
function resourceOf(base: string): string {
  return `${base}/v1`
}

function accessParameters(config: Configuration, base: string): Record<string, string> {
  const resource = resourceOf(base)
  const { scopes_supported: scopes = [] } = config.serverMetadata()
  return scopes.includes('offline_access') ? { resource, scope: 'offline_access' } : { resource }
}

/** The library refuses metadata whose issuer is another one than `base`, and plain HTTP unless allowed. */
function discover(base: string): Promise<Configuration> {
  const url = new URL(base)
  return discovery(url, CLIENT_ID, undefined, None(), {
    algorithm: 'oauth2',
    ...(isOwnMachine(url) ? { execute: [allowInsecureRequests] } : {}),
  })
}

type IssuedTokens = Pick<TokenEndpointResponse, 'access_token' | 'refresh_token' | 'expires_in'>

function toSignIn(base: string, clock: Clock, tokens: IssuedTokens): RemoteSignIn {
  const { access_token, refresh_token, expires_in = DEFAULT_TTL_S } = tokens
  const expires_ms = clock.now() + expires_in * 1000
  return { base, access_token, ...(refresh_token === undefined ? {} : { refresh_token }), expires_ms }
}

const OAUTH_FAULTS: Readonly<Record<string, string>> = {
  access_denied: 'the sign-in was refused in the browser',
  expired_token: 'the code was not entered in time',
}

async function withOAuthErrors<T>(base: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof ResponseBodyError || error instanceof AuthorizationResponseError) {
      const { error: code, error_description: detail } = error
      refuse('forbidden', OAUTH_FAULTS[code] ?? `${base} refused the sign-in: ${detail ?? code}`)
    }
    const issuer = otherIssuer(error)
    if (issuer !== undefined)
      refuse('invalid', `the server at ${base} calls itself ${issuer}`, `use --url ${issuer} if you trust that address`)
    // Errors of the library have a code; their cause may be a network failure.
    if (error instanceof Error && !(error instanceof Refusal) && 'code' in error && isObject(error)) {
      if (error.cause instanceof TypeError) refuseUnreachable(base, error.cause)
      if (typeof error.code === 'string' && error.code.startsWith('OAUTH_')) refuseForeignResponse(base, error.message)
    }
    return refuseUnreachable(base, error)
  }
}

/** The issuer in metadata that name another one than expected. */
function otherIssuer(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined
  if (!isObject(cause) || cause.attribute !== 'issuer' || !isObject(cause.body)) return undefined
  return typeof cause.body.issuer === 'string' ? cause.body.issuer : undefined
}
