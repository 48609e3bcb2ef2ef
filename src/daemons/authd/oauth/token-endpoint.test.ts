// Access and refresh tokens over HTTP: where they are accepted, and how they end.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { SignJWT } from 'jose'
import { type EngineName, freshStore, onEveryEngine, testHost } from '../../../../test/support/host.ts'
import {
  allow,
  authorization,
  codeExchange,
  postOauth,
  refreshTokens,
  registerOauthClient,
  signInClient,
} from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { accounts } from '../../../core/people/accounts.ts'
import { sessions } from '../../../core/people/sessions.ts'

const REST = { resource: 'http://localhost:8080/v1' }

async function opened(t: TestContext, engine: EngineName = 'sqlite'): Promise<ServedHost & { ada: SignedInBrowser }> {
  const s = await serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'webd', 'routd', 'authd'] })
  return { ...s, ada: await signIn(s, 'local:ada') }
}

const clientSession = async ({ host }: ServedHost) =>
  (await host.engine.read((tx) => sessions.list(tx, { kind: 'client' })))[0]

/** Statuses at REST and at /mcp. */
async function accepted(s: ServedHost, token: string): Promise<[rest: number, mcp: number]> {
  const rest = await s.ask('/v1/sessions', token)
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
  const mcp = await s.ask('/mcp', token, { method: 'POST', body, headers })
  await Promise.all([rest.text(), mcp.text()])
  return [rest.status, mcp.status]
}

onEveryEngine('tokens', (engine) => {
  test('a code gives an access token for an hour and a refresh token, without caching', async (t) => {
    const s = await opened(t, engine)
    const code = (await allow(s.ada, authorization({ scope: 'account offline_access' }))).get('code') ?? ''
    const response = await fetch(`${s.url()}/auth/token`, {
      method: 'POST',
      body: new URLSearchParams(codeExchange(code)),
    })
    assert.equal(response.headers.get('cache-control'), 'no-store')
    const answer = JSON.parse(await response.text())
    assert.deepEqual(
      [response.status, answer.token_type, answer.expires_in, answer.scope],
      [200, 'Bearer', 3600, 'account offline_access'],
    )
    const again = await postOauth(s, '/auth/token', codeExchange(code))
    assert.deepEqual([again.status, again.error], [400, 'invalid_grant'])
    assert.deepEqual(await accepted(s, answer.access_token), [401, 401])
  })

  test('a token for /mcp is refused by REST, and a token for REST is accepted by both', async (t) => {
    const s = await opened(t, engine)
    assert.deepEqual(await accepted(s, (await signInClient(s, s.ada)).access), [401, 200])
    assert.deepEqual(await accepted(s, (await signInClient(s, s.ada, REST)).access), [200, 200])
    for (const resource of ['http://localhost:8080', 'http://localhost:8080/'])
      assert.deepEqual(await accepted(s, (await signInClient(s, s.ada, { resource })).access), [200, 200])
  })

  test('ending the session ends its access token at once', async (t) => {
    const s = await opened(t, engine)
    const { access, refresh } = await signInClient(s, s.ada, REST)
    const row = await clientSession(s)
    assert.deepEqual([row?.sub, row?.name, row?.client_id], ['local:ada', 'svc command line', 'svc-cli'])
    const { status } = await s.ask(`/v1/sessions/${row?.family_id}`, access, { method: 'DELETE' })
    assert.equal(status, 204)
    assert.deepEqual(await accepted(s, access), [401, 401])
    assert.equal((await refreshTokens(s, refresh)).error, 'invalid_grant')
  })

  test('a refresh gives new tokens; a lost answer is repeated; a late reuse ends both tokens', async (t) => {
    const s = await opened(t, engine)
    const { refresh } = await signInClient(s, s.ada, REST)
    const first = await refreshTokens(s, refresh)
    const repeated = await refreshTokens(s, refresh)
    assert.equal(repeated.refresh_token, first.refresh_token)
    assert.deepEqual(await accepted(s, String(repeated.access_token)), [200, 200])
    s.clock.advance(60_000)
    const reused = await refreshTokens(s, refresh)
    assert.deepEqual([reused.status, reused.error], [400, 'invalid_grant'])
    assert.deepEqual(await accepted(s, String(first.access_token)), [401, 401])
    assert.equal((await refreshTokens(s, String(first.refresh_token))).error, 'invalid_grant')
    assert.equal((await clientSession(s))?.status, 'revoked')
  })

  test('two servers on one store share codes and refresh tokens', async (t) => {
    const store = await freshStore(t, engine)
    const open = async () => serveHost(t, { on: await testHost(t, engine, store), daemons: ['proxyd', 'authd'] })
    const [one, two] = [await open(), await open()]
    const ada = await signIn(one, 'local:ada')
    const code = (await allow(ada, authorization())).get('code') ?? ''
    const answers = await Promise.all([one, two].map((s) => postOauth(s, '/auth/token', codeExchange(code))))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 400])
    const { refresh } = await signInClient(two, ada)
    const tokens = await Promise.all(
      Array.from({ length: 50 }, (_, index) => refreshTokens(index % 2 ? one : two, refresh)),
    )
    assert.deepEqual([...new Set(tokens.map(({ status }) => status))], [200])
    assert.equal(new Set(tokens.map(({ refresh_token }) => refresh_token)).size, 1)
  })
})

suite('the token endpoint', () => {
  test('refuses with the errors of OAuth', async (t) => {
    const s = await opened(t)
    const { refresh } = await signInClient(s, s.ada)
    const refreshing = { grant_type: 'refresh_token', client_id: 'svc-cli', refresh_token: refresh }
    const cases: [Record<string, string>, number, string][] = [
      [{}, 400, 'invalid_request'],
      [{ grant_type: 'password' }, 400, 'unsupported_grant_type'],
      [{ grant_type: '__proto__' }, 400, 'unsupported_grant_type'],
      [{ grant_type: 'toString' }, 400, 'unsupported_grant_type'],
      [{ grant_type: 'authorization_code' }, 400, 'invalid_request'],
      [{ ...refreshing, client_id: 'client-unknown' }, 401, 'invalid_client'],
      [{ ...refreshing, client_id: 'https://app.example/client.json' }, 400, 'invalid_grant'],
      [{ ...refreshing, refresh_token: 'x' }, 400, 'invalid_grant'],
      [{ ...refreshing, resource: 'http://localhost:8080/v1' }, 400, 'invalid_target'],
      [{ ...refreshing, resource: 'https://evil.example' }, 400, 'invalid_target'],
      [codeExchange('x'), 400, 'invalid_grant'],
      [codeExchange('x', { code_verifier: '' }), 400, 'invalid_request'],
      [codeExchange('x', { redirect_uri: '' }), 400, 'invalid_request'],
    ]
    for (const [fields, status, error] of cases) {
      const answer = await postOauth(s, '/auth/token', fields)
      assert.deepEqual([answer.status, answer.error], [status, error], JSON.stringify(fields))
      assert.equal(typeof answer.error_description, 'string')
    }
    assert.equal((await refreshTokens(s, refresh)).status, 200)
  })

  test('reads forms of at most 64 KiB, and each field once', async (t) => {
    const s = await opened(t)
    const send = async (body: string, type = 'application/x-www-form-urlencoded') => {
      const response = await fetch(`${s.url()}/auth/token`, { method: 'POST', body, headers: { 'Content-Type': type } })
      const answer = JSON.parse(await response.text())
      return [response.status, answer.error]
    }
    assert.deepEqual(await send('{"grant_type":"refresh_token"}', 'application/json'), [415, 'invalid_request'])
    assert.deepEqual(await send('grant_type=x&grant_type=y'), [400, 'invalid_request'])
    assert.deepEqual(await send(`x=${'a'.repeat(64 * 1024 - 2)}`), [400, 'invalid_request'])
    assert.deepEqual(await send(`x=${'a'.repeat(64 * 1024 - 1)}`), [413, 'invalid_request'])
    assert.equal((await fetch(`${s.url()}/auth/token`)).status, 405)
  })

  test('answers 300 requests a minute of one address', async (t) => {
    const s = await opened(t)
    for (let index = 0; index < 300; index++) assert.equal((await refreshTokens(s, 'x')).status, 400)
    const limited = await refreshTokens(s, 'x')
    assert.deepEqual([limited.status, limited.error], [429, 'temporarily_unavailable'])
    s.clock.advance(60_000)
    assert.equal((await refreshTokens(s, 'x')).status, 400)
  })

  test('refreshes only while the person may enter: by the operator, SIGN_IN_ALLOW or a grant', async (t) => {
    const s = await opened(t)
    const { refresh } = await signInClient(s, s.ada)
    const first = await refreshTokens(s, refresh)
    assert.equal(first.status, 200)
    await s.host.engine.transaction((tx) => accounts.remove(tx, { sub: 'local:ada' }))
    assert.equal((await refreshTokens(s, String(first.refresh_token))).error, 'invalid_grant')
    await s.grant('local:ada', 'interact', 'team')
    assert.equal((await refreshTokens(s, String(first.refresh_token))).status, 200)
  })

  test('tells a client whose registration has expired to register again', async (t) => {
    const s = await opened(t)
    const redirect_uri = 'http://localhost/cb'
    const { client_id } = await registerOauthClient(s, { redirect_uris: [redirect_uri] })
    const changes = { client_id: String(client_id), redirect_uri: 'http://localhost:51234/cb' }
    const { refresh } = await signInClient(s, s.ada, changes)
    assert.equal((await refreshTokens(s, refresh)).error, 'invalid_grant')
    assert.equal((await refreshTokens(s, refresh, { client_id: String(client_id) })).status, 200)
    s.clock.advance(90 * 24 * 3_600_000)
    const late = await refreshTokens(s, refresh, { client_id: String(client_id) })
    assert.deepEqual([late.status, late.error], [401, 'invalid_client'])
  })
})

suite('revocation', () => {
  test('a refresh or an access token ends the session; unknown tokens are no error', async (t) => {
    const s = await opened(t)
    for (const kind of ['access', 'refresh'] as const) {
      const tokens = await signInClient(s, s.ada, REST)
      const other = await postOauth(s, '/auth/revoke', { token: tokens[kind], client_id: 'client-b' })
      assert.deepEqual([other.status, other.error], [400, 'invalid_grant'])
      assert.deepEqual(await accepted(s, tokens.access), [200, 200])
      assert.equal((await postOauth(s, '/auth/revoke', { token: tokens[kind], client_id: 'svc-cli' })).status, 200)
      assert.deepEqual(await accepted(s, tokens.access), [401, 401])
      assert.equal((await refreshTokens(s, tokens.refresh)).error, 'invalid_grant')
      assert.equal((await postOauth(s, '/auth/revoke', { token: tokens[kind] })).status, 200)
    }
    const bearer = await s.bearer({ sub: 'local:ada' })
    for (const token of ['x', 'a.b.c', bearer])
      assert.equal((await postOauth(s, '/auth/revoke', { token })).status, 200)
    assert.equal((await s.ask('/v1/sessions', bearer)).status, 200)
    assert.equal((await postOauth(s, '/auth/revoke', {})).error, 'invalid_request')
  })
})

suite('tokens of another kind', () => {
  test('are no bearers, refresh tokens, sessions or people', async (t) => {
    const s = await opened(t)
    const { access, refresh } = await signInClient(s, s.ada, REST)
    const [, payload = ''] = access.split('.')
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
    const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
    const { kid } = JSON.parse(Buffer.from(access.split('.')[0] ?? '', 'base64url').toString())
    const keys = await (await fetch(`${s.url()}/v1/keys`)).text()
    const forged = [
      `${encode({ alg: 'none', kid })}.${payload}.`,
      await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid }).sign(Buffer.from(keys)),
      await new SignJWT({ ...claims, typ: 'service', sub: 'service:timed' })
        .setProtectedHeader({ alg: 'HS256', kid })
        .sign(Buffer.from(JSON.stringify(JSON.parse(keys).keys[0]))),
      refresh,
    ]
    for (const token of forged) assert.deepEqual(await accepted(s, token), [401, 401])
    assert.equal((await refreshTokens(s, access)).error, 'invalid_grant')
    // Neither the refresh token nor a code is a session of a browser, and a browser's token refreshes nothing.
    const me = await fetch(`${s.url()}/auth/me`, {
      headers: { Cookie: `svc_session_test=${refresh}` },
      redirect: 'manual',
    })
    assert.equal(me.status, 303)
    const cookie = s.ada.cookie.split('=')[1] ?? ''
    assert.equal((await refreshTokens(s, cookie)).error, 'invalid_grant')
    const foreign = await s.bearer({ sub: 'local:ada', audience: 'https://other.example/mcp' })
    assert.deepEqual(await accepted(s, foreign), [401, 401])
    const ended = await s.bearer({ sub: 'local:ada', sid: 'no-such-session' })
    assert.deepEqual(await accepted(s, ended), [401, 401])
    assert.equal(claims.aud, 'svc:test')
  })
})
