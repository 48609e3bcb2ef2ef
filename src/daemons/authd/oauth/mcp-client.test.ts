// The official MCP client signs in by itself: discovery, registration or metadata document, consent, tokens and refresh.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { Hono } from 'hono'
import { openDocumentServer } from '../../../../test/support/document-server.ts'
import { testHost } from '../../../../test/support/host.ts'
import { needs } from '../../../../test/support/needs.ts'
import { allow } from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { formRequest, type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { sessions } from '../../../core/people/sessions.ts'
import { mountAuthorizationServer } from './authorization-server.ts'

async function opened(
  t: TestContext,
  settings: Record<string, string> = {},
): Promise<ServedHost & { ada: SignedInBrowser }> {
  const on = await testHost(t)
  await on.groups('main', 'team')
  await on.grant('local:ada', 'interact', 'team')
  const s = await serveHost(t, { on, daemons: ['proxyd', 'webd', 'routd', 'authd'], settings })
  return { ...s, ada: await signIn(s, 'local:ada') }
}

type Tokens = Awaited<ReturnType<OAuthClientProvider['tokens']>>
type DiscoveryState = Awaited<ReturnType<NonNullable<OAuthClientProvider['discoveryState']>>>
type ClientInformation = Awaited<ReturnType<OAuthClientProvider['clientInformation']>>

class MemoryProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://localhost:9999/callback'
  readonly clientMetadata = { client_name: 'An MCP client', redirect_uris: [this.redirectUrl] }
  readonly clientMetadataUrl?: string
  information: ClientInformation
  saved: Tokens
  verifier = ''
  asked: URL | undefined
  discovered: DiscoveryState

  constructor(clientMetadataUrl?: string) {
    if (clientMetadataUrl !== undefined) this.clientMetadataUrl = clientMetadataUrl
  }

  state(): string {
    return 'the state of the client'
  }
  clientInformation(): ClientInformation {
    return this.information
  }
  saveClientInformation(information: NonNullable<ClientInformation>): void {
    this.information = information
  }
  tokens(): Tokens {
    return this.saved
  }
  saveTokens(tokens: NonNullable<Tokens>): void {
    this.saved = tokens
  }
  redirectToAuthorization(url: URL): void {
    this.asked = url
  }
  saveCodeVerifier(verifier: string): void {
    this.verifier = verifier
  }
  codeVerifier(): string {
    return this.verifier
  }
  saveDiscoveryState(discovered: NonNullable<DiscoveryState>): void {
    this.discovered = discovered
  }
  discoveryState(): DiscoveryState {
    return this.discovered
  }
}

/** The public URL of the test host has no listener, so requests to it go to the served port. */
function fetchThrough(s: ServedHost): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    return fetch(url.href.replace('http://localhost:8080', s.url()), init)
  }
}

async function connect(t: TestContext, s: ServedHost, provider: MemoryProvider, send = fetchThrough(s)) {
  const transport = new StreamableHTTPClientTransport(new URL('http://localhost:8080/mcp'), {
    authProvider: provider,
    fetch: send,
  })
  const client = new Client({ name: 'test', version: '1' })
  t.after(() => client.close())
  return { transport, client, open: () => client.connect(transport) }
}

test('the official client registers, signs in, calls a tool and refreshes', async (t) => {
  const s = await opened(t)
  const provider = new MemoryProvider()
  const first = await connect(t, s, provider)
  await assert.rejects(first.open(), UnauthorizedError)
  const { asked } = provider
  assert.ok(asked)
  assert.equal(asked.origin + asked.pathname, 'http://localhost:8080/auth/authorize')
  const parameters = Object.fromEntries(asked.searchParams)
  assert.match(String(parameters.client_id), /^client-/)
  const page = await s.ada.get(`/auth/authorize?${asked.searchParams}`)
  assert.match(await page.text(), /An MCP client/)
  const answer = await allow(s.ada, parameters)
  assert.deepEqual([answer.get('state'), answer.get('iss')], ['the state of the client', 'http://localhost:8080'])
  await first.transport.finishAuth(answer)
  const second = await connect(t, s, provider)
  await second.open()
  const { tools } = await second.client.listTools()
  assert.ok(tools.some(({ name }) => name === 'send'))
  const before = provider.saved?.refresh_token
  s.clock.advance(3_700_000)
  assert.ok((await second.client.listTools()).tools.length > 0)
  assert.notEqual(provider.saved?.refresh_token, before)
  const [row] = await s.host.engine.read((tx) => sessions.list(tx, { kind: 'client' }))
  assert.deepEqual([row?.sub, row?.rotations, row?.name], ['local:ada', 1, 'An MCP client'])
})

test(
  'the official client signs in with a metadata document, and its consent names the publisher',
  needs('openssl'),
  async (t) => {
    const s = await opened(t)
    const server = await openDocumentServer(t, (request, response) => {
      const client_id = `${server.origin}${request.url}`
      // Claude Code lists its redirects without a port and asks with one.
      const redirect_uris = ['http://localhost/callback', 'http://127.0.0.1/callback']
      response.writeHead(200, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify({ client_id, client_name: 'Published client', redirect_uris }))
    })
    const app = new Hono()
    mountAuthorizationServer(app, { host: s.host, isAllowed: () => false, dialer: server.dialer })
    const served = fetchThrough(s)
    const send: typeof fetch = async (input, init) => {
      const url = new URL(input instanceof Request ? input.url : input)
      return url.pathname.startsWith('/auth/') ? app.request(url.pathname + url.search, init) : served(input, init)
    }
    const provider = new MemoryProvider(`${server.origin}/client.json`)
    const first = await connect(t, s, provider, send)
    await assert.rejects(first.open(), UnauthorizedError)
    const asked = provider.asked ?? new URL('about:blank')
    assert.equal(asked.searchParams.get('client_id'), `${server.origin}/client.json`)
    const cookie = { Cookie: s.ada.cookie, Accept: 'text/html' }
    const page = await (await app.request(`/auth/authorize${asked.search}`, { headers: cookie })).text()
    assert.match(page, /Published client/)
    assert.ok(page.includes(`published by <code>${new URL(server.origin).host}</code>`))
    assert.match(page, /only if you started it yourself/)
    const fields = { ...Object.fromEntries(asked.searchParams), csrf: s.ada.csrf, decision: 'allow' }
    const allowed = await app.request('/auth/authorize', formRequest('http://localhost:8080', fields, cookie))
    await first.transport.finishAuth(new URL(allowed.headers.get('location') ?? '').searchParams)
    const second = await connect(t, s, provider, send)
    await second.open()
    s.clock.advance(3_700_000)
    assert.ok((await second.client.listTools()).tools.length > 0)
    assert.deepEqual(server.requests, ['/client.json'])
  },
)

test('the official client registers where documents are switched off, and one that presents its document is refused', async (t) => {
  const s = await opened(t, { OAUTH_CLIENT_DOCUMENTS: 'off' })
  const document = 'https://app.example/client.json'
  const provider = new MemoryProvider(document)
  await assert.rejects((await connect(t, s, provider)).open(), UnauthorizedError)
  const parameters = Object.fromEntries(provider.asked?.searchParams ?? [])
  assert.match(String(parameters.client_id), /^client-/)
  const presented = new URLSearchParams({ ...parameters, client_id: document })
  const page = await s.ada.get(`/auth/authorize?${presented}`)
  assert.equal(page.status, 400)
  assert.match(await page.text(), /Programs sign in here only after they register/)
})

test('the official client registers in its second try where its document cannot be fetched', async (t) => {
  const s = await opened(t)
  const app = new Hono()
  const dialer = { resolve: async () => [], isAllowed: () => true, timeoutMs: 5000 }
  mountAuthorizationServer(app, { host: s.host, isAllowed: () => false, dialer })
  const served = fetchThrough(s)
  const send: typeof fetch = async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    const isOurs = /^\/auth\/|^\/\.well-known\/oauth-authorization-server$/.test(url.pathname)
    return isOurs ? app.request(url.pathname + url.search, init) : served(input, init)
  }
  const first = new MemoryProvider('https://app.example/client.json')
  await assert.rejects((await connect(t, s, first, send)).open(), UnauthorizedError)
  const cookie = { Cookie: s.ada.cookie, Accept: 'text/html' }
  const page = await app.request(`/auth/authorize${first.asked?.search}`, { headers: cookie })
  assert.equal(page.status, 400)
  assert.match(await page.text(), /could not be fetched.*it can register itself now/s)
  const second = new MemoryProvider('https://app.example/client.json')
  const { transport, open } = await connect(t, s, second, send)
  await assert.rejects(open(), UnauthorizedError)
  const parameters = Object.fromEntries(second.asked?.searchParams ?? [])
  assert.match(String(parameters.client_id), /^client-/)
  await transport.finishAuth(await allow(s.ada, parameters))
  assert.ok(second.saved?.access_token)
})
