// OpenID Connect providers: discovery, code flow with PKCE, state and nonce. The account is issuer and subject of the ID token.
import type { Configuration, IDToken } from 'openid-client'
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import type { Clock } from '../../lib/clock.ts'
import type { OpenIdSettings } from '../provider-settings.ts'
import { chooseClientAuth, isLoopbackHttp, loadOpenIdClient, REQUEST_TIMEOUT_S } from './openid-client.ts'
import { accountText, openIdSub } from './provider-accounts.ts'
import type { SignInProvider } from './sign-in-provider.ts'

/** Providers change endpoints rarely; keys are fetched again by themselves. */
const METADATA_TTL_MS = 3_600_000

export function openOpenIdProvider(settings: OpenIdSettings, clock: Clock): SignInProvider {
  const { name } = settings
  const discover = cachedDiscovery(settings, clock)
  return {
    name,
    title: `${name.slice(0, 1).toUpperCase()}${name.slice(1)}`,
    authorizationUrl: async ({ state, nonce, verifier, link }, redirectUri) => {
      const [client, config] = [await loadOpenIdClient(), await discover()]
      const prompts = config.serverMetadata().prompt_values_supported
      const canSelect = Array.isArray(prompts) && prompts.includes('select_account')
      return client.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        state,
        nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        // The browser may be signed in at the provider as another person.
        ...(link && canSelect ? { prompt: 'select_account' } : {}),
      })
    },
    confirm: async ({ state, nonce, verifier }, callback) => {
      const [client, config] = [await loadOpenIdClient(), await discover()]
      const tokens = await client.authorizationCodeGrant(config, callback, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      })
      const claims = tokens.claims()
      if (!claims) throw new Error('the provider sent no ID token')
      // Many providers put the address into the ID token; the others have it at the user info endpoint.
      const needsProfile = claims.email === undefined && config.serverMetadata().userinfo_endpoint !== undefined
      const profile: Profile = needsProfile
        ? await client.fetchUserInfo(config, tokens.access_token, claims.sub)
        : claims
      return accountOf(name, claims, profile)
    },
  }
}

/** Concurrent requests share one discovery; a failed one is not kept. */
function cachedDiscovery(settings: OpenIdSettings, clock: Clock): () => Promise<Configuration> {
  let cached: { readonly atMs: number; readonly config: Promise<Configuration> } | undefined
  return () => {
    const nowMs = clock.now()
    if (cached && Math.abs(nowMs - cached.atMs) < METADATA_TTL_MS) return cached.config
    const entry = { atMs: nowMs, config: discover(settings) }
    cached = entry
    entry.config.catch(() => {
      if (cached === entry) cached = undefined
    })
    return entry.config
  }
}

async function discover({ issuer, id, secret }: OpenIdSettings): Promise<Configuration> {
  const client = await loadOpenIdClient()
  const { clockTolerance, enableNonRepudiationChecks, allowInsecureRequests } = client
  return client.discovery(issuer, id, { [clockTolerance]: 30 }, chooseClientAuth(client, secret), {
    timeout: REQUEST_TIMEOUT_S,
    // Verifies signatures of ID tokens too, although they come directly from the provider.
    execute: [enableNonRepudiationChecks, ...(isLoopbackHttp(issuer) ? [allowInsecureRequests] : [])],
  })
}

/** Address and its confirmation come from one document. */
type Profile = Readonly<Record<string, unknown>>

/** `iss` of the token, not of the settings: an issuer for several tenants has subjects per tenant. */
function accountOf(provider: string, { iss, sub }: IDToken, profile: Profile): ConfirmedAccount {
  return {
    sub: openIdSub(provider, sub),
    issuer: iss,
    subject: sub,
    name: accountText(profile.name) ?? accountText(profile.preferred_username),
    email: accountText(profile.email),
    // The texts "true" and "false" are not booleans, and both would count as true.
    email_verified: profile.email_verified === true,
  }
}
