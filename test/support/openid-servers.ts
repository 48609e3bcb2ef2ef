// OpenID providers for tests: the real `oidc-provider`, and a small one whose every answer a test can change.
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'

export const CLIENT = { id: 'the-client', secret: 'the client secret that is never logged' }

/** Listens on a free port of this machine until the test ends. */
export async function listenForTest(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

interface RealProvider {
  callback(): RequestListener
}
type RealProviderClass = new (issuer: string, configuration: Record<string, unknown>) => RealProvider

/** Every login name is accepted; `claims` has what the provider says about it. */
export async function serveRealProvider(
  t: TestContext,
  redirectUri: string,
  claims: Readonly<Record<string, Record<string, unknown>>>,
): Promise<string> {
  // It warns about each shortcut that is fine in a test, and about new versions of Node.
  t.mock.method(console, 'warn', () => {})
  t.mock.method(console, 'info', () => {})
  // The package has no types.
  const name: string = 'oidc-provider'
  const { default: Provider }: { default: RealProviderClass } = await import(name)
  let listener: RequestListener | undefined
  const issuer = await listenForTest(t, (request, response) => listener?.(request, response))
  listener = new Provider(issuer, {
    clients: [{ client_id: CLIENT.id, client_secret: CLIENT.secret, redirect_uris: [redirectUri] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
    findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub, ...claims[sub] }) }),
    pkce: { required: () => true },
    cookies: { keys: ['a key of the tests'] },
  }).callback()
  return issuer
}

export interface SmallProvider {
  readonly issuer: string
  /** What the next ID token contains, besides iss, aud, iat, exp and nonce; those can be overridden too. */
  claims: Record<string, unknown>
  /** Overrides parameters of the next callback; null removes one. */
  callback: Record<string, string | null>
  /** The status of every response. */
  status: number
  /** Signs with a key that the provider does not publish. */
  signsWrongly: boolean
  readonly requests: string[]
}

/** Signs people in at once, without a page. */
export async function serveSmallProvider(t: TestContext): Promise<SmallProvider> {
  const [key, other] = [await generateKeyPair('ES256'), await generateKeyPair('ES256')]
  const jwks = { keys: [{ ...(await exportJWK(key.publicKey)), alg: 'ES256', kid: 'k', use: 'sig' }] }
  const nonces = new Map<string, string>()
  const provider = {
    issuer: '',
    claims: {} as Record<string, unknown>,
    callback: {} as Record<string, string | null>,
    status: 200,
    signsWrongly: false,
    requests: [] as string[],
  }
  const answers: Record<string, (url: URL, body: URLSearchParams) => unknown> = {
    '/.well-known/openid-configuration': () => ({
      issuer: provider.issuer,
      authorization_endpoint: `${provider.issuer}/authorize`,
      token_endpoint: `${provider.issuer}/token`,
      jwks_uri: `${provider.issuer}/jwks`,
      id_token_signing_alg_values_supported: ['ES256'],
      authorization_response_iss_parameter_supported: true,
    }),
    '/jwks': () => jwks,
    '/token': async (_, body) => {
      const code = body.get('code') ?? ''
      const nonce = nonces.get(code)
      nonces.delete(code)
      if (nonce === undefined) return { error: 'invalid_grant' }
      const now = Math.floor(Date.now() / 1000)
      const claims = { iss: provider.issuer, aud: CLIENT.id, iat: now, exp: now + 60, nonce, ...provider.claims }
      const token = new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid: 'k' })
      const id_token = await token.sign(provider.signsWrongly ? other.privateKey : key.privateKey)
      return { access_token: 'an access token', token_type: 'Bearer', id_token }
    },
  }
  provider.issuer = await listenForTest(t, async (request, response) => {
    const url = new URL(request.url ?? '/', 'http://provider')
    provider.requests.push(`${request.method} ${url.pathname}`)
    if (provider.status !== 200) return void response.writeHead(provider.status).end('down')
    if (url.pathname === '/authorize') {
      const code = `code-${nonces.size}-${provider.requests.length}`
      nonces.set(code, url.searchParams.get('nonce') ?? '')
      const to = new URL(url.searchParams.get('redirect_uri') ?? '')
      const query = { code, state: url.searchParams.get('state'), iss: provider.issuer, ...provider.callback }
      for (const [name, value] of Object.entries(query)) if (value !== null) to.searchParams.set(name, value)
      return void response.writeHead(302, { Location: to.href }).end()
    }
    let body = ''
    for await (const chunk of request) body += chunk
    const answer = await answers[url.pathname]?.(url, new URLSearchParams(body))
    const isError = typeof answer === 'object' && answer !== null && 'error' in answer
    response.writeHead(answer === undefined ? 404 : isError ? 400 : 200, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(answer ?? {}))
  })
  return provider
}
