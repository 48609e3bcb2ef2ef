// Dynamic client registration over HTTP.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { registerOauthClient } from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'

const opened = (t: TestContext): Promise<ServedHost> => serveHost(t, { daemons: ['proxyd', 'authd'] })

test('a client gets an id and no secret, whatever it asks for', async (t) => {
  const s = await opened(t)
  const redirect_uris = ['http://127.0.0.1:3000/', 'cursor://x/cb']
  const { client_id, client_id_issued_at, ...answer } = await registerOauthClient(s, {
    redirect_uris,
    token_endpoint_auth_method: 'client_secret_basic',
    grant_types: ['authorization_code', 'refresh_token', 'implicit'],
    scope: 'everything',
    application_type: 'native',
  })
  assert.match(String(client_id), /^client-[0-9a-f-]{36}$/)
  assert.equal(client_id_issued_at, Math.floor(s.clock.now() / 1000))
  assert.deepEqual(answer, {
    status: 201,
    client_name: 'Unnamed client',
    redirect_uris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  })
})

test('wrong metadata is refused', async (t) => {
  const s = await opened(t)
  const good = 'https://app.example/cb'
  const cases: [unknown, number, string][] = [
    [{}, 400, 'invalid_client_metadata'],
    [{ redirect_uris: [] }, 400, 'invalid_client_metadata'],
    [{ redirect_uris: good }, 400, 'invalid_client_metadata'],
    [{ redirect_uris: Array(21).fill(good) }, 400, 'invalid_client_metadata'],
    [{ redirect_uris: [good], client_name: 7 }, 400, 'invalid_client_metadata'],
    [{ redirect_uris: [good, 'http://evil.example/'] }, 400, 'invalid_redirect_uri'],
    [{ redirect_uris: ['https://good@evil.example/'] }, 400, 'invalid_redirect_uri'],
    [{ redirect_uris: ['https://a;script-src/cb'] }, 400, 'invalid_redirect_uri'],
    [{ redirect_uris: ['javascript:alert(1)'] }, 400, 'invalid_redirect_uri'],
    ['[]', 400, 'invalid_request'],
    ['{', 400, 'invalid_request'],
    [{ redirect_uris: [good], x: 'x'.repeat(16 * 1024) }, 413, 'invalid_request'],
  ]
  for (const [body, status, error] of cases) {
    const answer = await registerOauthClient(s, body)
    assert.deepEqual([answer.status, answer.error], [status, error], JSON.stringify(body).slice(0, 80))
  }
  assert.equal((await registerOauthClient(s, { redirect_uris: Array(20).fill(good) })).status, 201)
})

test('one address registers 20 clients an hour', async (t) => {
  const s = await opened(t)
  const metadata = { redirect_uris: ['https://app.example/cb'] }
  for (let index = 0; index < 20; index++) assert.equal((await registerOauthClient(s, metadata)).status, 201)
  const limited = await registerOauthClient(s, metadata)
  assert.deepEqual([limited.status, limited.error], [429, 'temporarily_unavailable'])
  s.clock.advance(3_600_000 / 20)
  assert.equal((await registerOauthClient(s, metadata)).status, 201)
})
