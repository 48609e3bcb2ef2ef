// The official MCP client signs in by itself: discovery, registration or metadata document, consent, tokens and refresh.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client'
import { testHost } from '../../../../test/support/host.ts'
import { allow } from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { sessions } from '../../../core/people/sessions.ts'

async function opened(t: TestContext): Promise<ServedHost & { ada: SignedInBrowser }> {
  const on = await testHost(t)
  await on.groups('main', 'team')
  await on.grant('local:ada', 'interact', 'team')
  const s = await serveHost(t, { on, daemons: ['proxyd', 'webd', 'routd', 'authd'] })
  return { ...s, ada: await signIn(s, 'local:ada') }
}

type Tokens = Awaited<ReturnType<OAuthClientProvider['tokens']>>
type ClientInformation = Awaited<ReturnType<OAuthClientProvider['clientInformation']>>

class MemoryProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://localhost:9999/callback'
  readonly clientMetadata = { client_name: 'An MCP client', redirect_uris: [this.redirectUrl] }
  readonly clientMetadataUrl?: string
  information: ClientInformation
  saved: Tokens
  verifier = ''
  asked: URL | undefined

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
}

/** The public URL of the test host has no listener, so requests to it go to the served port. */
function fetchThrough(s: ServedHost): typeof fetch {
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input)
    return fetch(url.href.replace('http://localhost:8080', s.url()), init)
  }
}

async function connect(t: TestContext, s: ServedHost, provider: MemoryProvider) {
  const transport = new StreamableHTTPClientTransport(new URL('http://localhost:8080/mcp'), {
    authProvider: provider,
    fetch: fetchThrough(s),
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
