// GitHub and Discord: OAuth without OpenID Connect. The account is read from their APIs with the access token.
import type { Configuration } from 'openid-client'
import { z } from 'zod'
import type { ConfirmedAccount } from '../../core/people/accounts.ts'
import { utf8 } from '../../lib/http/http.ts'
import { lazy } from '../../lib/lazy.ts'
import { parseJson } from '../../lib/text/json.ts'
import type { ClientCredentials } from '../provider-settings.ts'
import { isLoopbackHttp, loadOpenIdClient, REQUEST_TIMEOUT_S } from './openid-client.ts'
import { accountText, openIdSub } from './provider-accounts.ts'
import type { SignInProvider } from './sign-in-provider.ts'

export interface OAuthEndpoints {
  /** Of the parameter `iss` in callbacks. */
  readonly issuer: string
  readonly authorization: string
  readonly token: string
  readonly api: string
}

const GITHUB: OAuthEndpoints = {
  issuer: 'https://github.com/login/oauth',
  authorization: 'https://github.com/login/oauth/authorize',
  token: 'https://github.com/login/oauth/access_token',
  api: 'https://api.github.com',
}

const DISCORD: OAuthEndpoints = {
  issuer: 'https://discord.com',
  authorization: 'https://discord.com/oauth2/authorize',
  token: 'https://discord.com/api/oauth2/token',
  api: 'https://discord.com/api',
}

/** `endpoints`: other servers, for tests. */
export function openGithub(credentials: ClientCredentials, endpoints = GITHUB): SignInProvider {
  return openOAuthProvider({
    name: 'github',
    title: 'GitHub',
    scope: 'read:user user:email',
    linkPrompt: 'select_account',
    credentials,
    endpoints,
    readAccount: readGithubAccount,
  })
}

export function openDiscord(credentials: ClientCredentials, endpoints = DISCORD): SignInProvider {
  return openOAuthProvider({
    name: 'discord',
    title: 'Discord',
    scope: 'identify email',
    linkPrompt: 'consent',
    credentials,
    endpoints,
    readAccount: readDiscordAccount,
  })
}

/** Reads JSON of the provider's API; undefined if the app has no permission for it. */
type ApiReader = (path: string) => Promise<unknown>

interface OAuthProviderOptions extends Pick<SignInProvider, 'name' | 'title'> {
  readonly scope: string
  /** Makes the provider show which account it is, before it is linked. */
  readonly linkPrompt: string
  readonly credentials: ClientCredentials
  readonly endpoints: OAuthEndpoints
  readonly readAccount: (read: ApiReader) => Promise<ConfirmedAccount>
}

function openOAuthProvider(options: OAuthProviderOptions): SignInProvider {
  const { name, title, scope, linkPrompt, endpoints, readAccount } = options
  const configure = lazy(() => createConfiguration(options))
  return {
    name,
    title,
    authorizationUrl: async ({ state, verifier, link }, redirectUri) => {
      const [client, config] = [await loadOpenIdClient(), await configure()]
      return client.buildAuthorizationUrl(config, {
        redirect_uri: redirectUri,
        scope,
        state,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(link ? { prompt: linkPrompt } : {}),
      })
    },
    confirm: async ({ state, verifier }, callback) => {
      const [client, config] = [await loadOpenIdClient(), await configure()]
      const checks = { expectedState: state, pkceCodeVerifier: verifier }
      const { access_token: token } = await client.authorizationCodeGrant(config, callback, checks)
      const headers = new Headers({ Accept: 'application/json' })
      return readAccount(async (path) => {
        const url = new URL(`${endpoints.api}${path}`)
        const response = await client.fetchProtectedResource(config, token, url, 'GET', undefined, headers)
        if (response.status === 403 || response.status === 404) return undefined
        if (!response.ok) throw new Error(`${path} answered ${response.status}`)
        return parseJson(utf8(await readLimited(response)))
      })
    },
  }
}

async function createConfiguration({ credentials, endpoints }: OAuthProviderOptions): Promise<Configuration> {
  const client = await loadOpenIdClient()
  const { issuer, authorization, token } = endpoints
  const server = { issuer, authorization_endpoint: authorization, token_endpoint: token }
  const auth = client.ClientSecretPost(credentials.secret)
  const config = new client.Configuration(server, credentials.id, undefined, auth)
  config.timeout = REQUEST_TIMEOUT_S
  if (isLoopbackHttp(new URL(token))) client.allowInsecureRequests(config)
  return config
}

const API_MAX = 256 * 1024

async function readLimited(response: Response): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.byteLength
    if (length > API_MAX) throw new Error(`a response is larger than ${API_MAX} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks, length)
}

/** The id stays when a person renames the account, and the login name may be taken by another person afterwards. */
const GithubUser = z.object({
  id: z.int().positive(),
  login: z.string(),
  name: z.string().nullish(),
})
const GithubEmails = z.array(
  z.object({ email: z.string(), verified: z.unknown().optional(), primary: z.unknown().optional() }),
)

async function readGithubAccount(read: ApiReader): Promise<ConfirmedAccount> {
  const { id, login, name } = GithubUser.parse(await read('/user'))
  const emails = GithubEmails.parse((await read('/user/emails')) ?? [])
  const email = accountText(emails.find(({ verified, primary }) => verified === true && primary === true)?.email)
  return {
    sub: `github:${id}`,
    issuer: 'github',
    subject: String(id),
    name: accountText(name) ?? accountText(login),
    email,
    email_verified: email !== undefined,
  }
}

const DiscordUser = z.object({
  id: z.string().regex(/^\d{1,20}$/),
  username: z.string(),
  global_name: z.string().nullish(),
  email: z.string().nullish(),
  verified: z.unknown().optional(),
})

async function readDiscordAccount(read: ApiReader): Promise<ConfirmedAccount> {
  const { id, username, global_name, email, verified } = DiscordUser.parse(await read('/users/@me'))
  const address = accountText(email)
  return {
    sub: openIdSub('discord', id),
    issuer: 'discord',
    subject: id,
    name: accountText(global_name) ?? accountText(username),
    email: address,
    email_verified: address !== undefined && verified === true,
  }
}
