// Discovery documents, the challenge of /mcp, and CORS, through the front door.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ServedHost, sendRaw, serveHost } from '../../../../test/support/served-host.ts'

const BASE = 'http://localhost:8080'

function opened(t: TestContext): Promise<ServedHost> {
  return serveHost(t, { daemons: ['proxyd', 'webd', 'authd'] })
}

const SERVER = ['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration']
const RESOURCE = ['/.well-known/oauth-protected-resource', '/.well-known/oauth-protected-resource/mcp']

test('both forms of discovery describe the server by its public URL', async (t) => {
  const s = await opened(t)
  for (const path of SERVER) {
    const response = await fetch(s.url() + path)
    assert.equal(response.status, 200)
    assert.equal(response.headers.get('content-type'), 'application/json')
    const document = JSON.parse(await response.text())
    assert.deepEqual(
      [document.issuer, document.authorization_endpoint, document.token_endpoint, document.jwks_uri],
      [BASE, `${BASE}/auth/authorize`, `${BASE}/auth/token`, `${BASE}/v1/keys`],
    )
    assert.deepEqual(document.code_challenge_methods_supported, ['S256'])
    assert.deepEqual(document.token_endpoint_auth_methods_supported, ['none'])
    assert.deepEqual(document.scopes_supported, ['account', 'offline_access'])
    assert.equal(document.client_id_metadata_document_supported, true)
    assert.equal(document.authorization_response_iss_parameter_supported, true)
    assert.deepEqual(document.grant_types_supported, [
      'authorization_code',
      'refresh_token',
      'urn:ietf:params:oauth:grant-type:device_code',
    ])
  }
})

test('the metadata of /mcp is at the root and below its path, and the challenge leads there', async (t) => {
  const s = await opened(t)
  for (const path of RESOURCE) {
    assert.deepEqual(JSON.parse(await (await fetch(s.url() + path)).text()), {
      resource: `${BASE}/mcp`,
      authorization_servers: [BASE],
      scopes_supported: ['account'],
      bearer_methods_supported: ['header'],
      resource_name: 'svc',
    })
  }
  const metadata = `resource_metadata="${BASE}/.well-known/oauth-protected-resource/mcp"`
  const challengeOf = async (headers: Record<string, string>): Promise<[number, string | null]> => {
    const { status, headers: answered } = await fetch(`${s.url()}/mcp`, { method: 'POST', headers })
    return [status, answered.get('www-authenticate')]
  }
  assert.deepEqual(await challengeOf({}), [401, `Bearer ${metadata}`])
  assert.deepEqual(await challengeOf({ Authorization: 'Bearer a.b.c' }), [
    401,
    `Bearer error="invalid_token", ${metadata}`,
  ])
  const service = await s.bearer({ sub: 'service:timed', kind: 'service' })
  const refused = `Bearer error="insufficient_scope", scope="account", ${metadata}`
  assert.deepEqual(await challengeOf({ Authorization: `Bearer ${service}` }), [403, refused])
})

test('a foreign Host or X-Forwarded header changes no URL', async (t) => {
  const s = await opened(t)
  const head =
    'Host: evil.example\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n'
  for (const target of [...SERVER, ...RESOURCE, '/auth/authorize?client_id=x', '/auth/device']) {
    const answer = await sendRaw(s.url(), `GET ${target} HTTP/1.1\r\n${head}\r\n`)
    assert.match(answer, /^HTTP\/1\.1 [234]/)
    assert.doesNotMatch(answer, /evil\.example/)
  }
})

test('pages of other sites may read what is public, without cookies', async (t) => {
  const s = await opened(t)
  const origin = { Origin: 'https://inspector.example' }
  for (const path of [...SERVER, ...RESOURCE, '/v1/keys']) {
    const { headers, status } = await fetch(s.url() + path, { headers: origin })
    assert.deepEqual([status, headers.get('access-control-allow-origin')], [200, '*'], path)
    assert.equal(headers.get('access-control-allow-credentials'), null)
  }
  const preflight = {
    ...origin,
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': 'content-type',
  }
  for (const path of ['/auth/token', '/auth/register', '/auth/revoke', '/auth/device_authorization', ...SERVER]) {
    const { headers, status } = await fetch(s.url() + path, { method: 'OPTIONS', headers: preflight })
    assert.deepEqual([status, headers.get('access-control-allow-origin')], [204, '*'], path)
    assert.match(headers.get('access-control-allow-headers') ?? '', /Content-Type/)
  }
  for (const path of ['/auth/authorize', '/auth/device', '/auth/me', '/mcp']) {
    const { headers } = await fetch(s.url() + path, { headers: origin, redirect: 'manual' })
    assert.equal(headers.get('access-control-allow-origin'), null, path)
  }
})

test('only these paths below /.well-known belong to svc', async (t) => {
  const s = await opened(t)
  for (const path of [...SERVER, ...RESOURCE].map((each) => `${each}/x`)) {
    assert.equal((await fetch(s.url() + path)).status, 404)
  }
  const { status } = await fetch(`${s.url()}/.well-known/oauth-authorization-server`, { method: 'POST' })
  assert.equal(status, 405)
})
