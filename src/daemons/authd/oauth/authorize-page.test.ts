// The consent page and the answers of /auth/authorize, through the front door.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { allow, authorization, REDIRECT, registerOauthClient } from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { authorizationCodes } from '../../../core/people/authorization-codes.ts'

async function opened(t: TestContext): Promise<ServedHost & { ada: SignedInBrowser }> {
  const s = await serveHost(t, { daemons: ['proxyd', 'authd'] })
  return { ...s, ada: await signIn(s, 'local:ada') }
}

const pathOf = (changes: Record<string, string | undefined> = {}): string =>
  `/auth/authorize?${new URLSearchParams(authorization(changes))}`

const answerOf = (response: Response): URLSearchParams => new URL(response.headers.get('location') ?? '').searchParams

suite('the consent page', () => {
  test('names the client and where the redirect leads, and warns about programs on a computer', async (t) => {
    const s = await opened(t)
    const page = await s.ada.get(pathOf())
    const text = await page.text()
    assert.equal(page.status, 200)
    assert.match(text, /<strong>svc command line<\/strong> wants to act for you, <code>local:ada<\/code>/)
    assert.match(text, /sent to <code>127\.0\.0\.1:7777<\/code>/)
    assert.match(text, /only if you started it yourself/)
    assert.match(text, /read their messages/)
    assert.match(
      await (await s.ada.get(pathOf({ resource: 'http://localhost:8080/v1' }))).text(),
      /everything that you may do/,
    )
    const policy = page.headers.get('content-security-policy') ?? ''
    assert.match(policy, /form-action 'self' http:\/\/127\.0\.0\.1:7777;/)
    assert.match(policy, /frame-ancestors 'none'/)
    assert.equal(await s.host.engine.read((tx) => authorizationCodes.count(tx)), 0)
  })

  test('shows a registered client with its host and without markup, control or direction characters', async (t) => {
    const s = await opened(t)
    const redirect_uri = 'https://app.example/cb'
    const client_name = `<b>Google</b>\u202e\n\u0007${'x'.repeat(200)}`
    const { client_id } = await registerOauthClient(s, { client_name, redirect_uris: [redirect_uri], scope: 'account' })
    const page = await s.ada.get(
      pathOf({ client_id: String(client_id), redirect_uri, scope: 'account offline_access' }),
    )
    const text = await page.text()
    assert.match(text, /&lt;b&gt;Google&lt;\/b&gt; x+</)
    assert.match(text, /sent to <code>app\.example<\/code>/)
    assert.doesNotMatch(text, /only if you started it yourself|\u202e/)
    assert.match(page.headers.get('content-security-policy') ?? '', /form-action 'self' https:\/\/app\.example;/)
  })

  test('needs a session, and the sign-in page leads back to it', async (t) => {
    const s = await opened(t)
    const response = await fetch(s.url() + pathOf(), { redirect: 'manual' })
    assert.equal(response.status, 303)
    const location = new URL(response.headers.get('location') ?? '', s.url())
    assert.equal(location.pathname, '/auth/sign-in')
    assert.equal((await s.ada.get(location.searchParams.get('next') ?? '')).status, 200)
    const bearer = await s.bearer({ sub: 'local:ada' })
    assert.equal((await s.ask(pathOf(), bearer, { redirect: 'manual' })).status, 303)
    const foreign = 'https://app.example/client.json'
    const early = await fetch(s.url() + pathOf({ client_id: foreign }), { redirect: 'manual' })
    assert.match(early.headers.get('location') ?? '', /^\/auth\/sign-in\?next=/)
  })
})

suite('an answer to the client', () => {
  test('carries code, state and issuer when the person allows', async (t) => {
    const s = await opened(t)
    const answer = await allow(s.ada, authorization())
    assert.match(answer.get('code') ?? '', /^[\w-]{43}$/)
    assert.deepEqual([answer.get('state'), answer.get('iss')], ['a state', 'http://localhost:8080'])
    const logged = JSON.stringify(s.logged())
    assert.ok(!logged.includes(answer.get('code') ?? '') && !logged.includes('a+state'))
    assert.equal((await allow(s.ada, authorization({ state: undefined }))).has('state'), false)
  })

  test('is access_denied when the person denies or presses nothing', async (t) => {
    const s = await opened(t)
    for (const fields of [{ decision: 'deny' }, {}]) {
      const response = await s.ada.post('/auth/authorize', { ...authorization(), ...fields })
      const answer = answerOf(response)
      assert.deepEqual(
        [answer.get('error'), answer.get('state'), answer.get('iss'), answer.has('code')],
        ['access_denied', 'a state', 'http://localhost:8080', false],
      )
    }
  })

  const ERRORS: readonly [Record<string, string | undefined>, string][] = [
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ response_type: undefined }, 'unsupported_response_type'],
    [{ response_mode: 'fragment' }, 'invalid_request'],
    [{ code_challenge: undefined }, 'invalid_request'],
    [{ code_challenge: '' }, 'invalid_request'],
    [{ code_challenge: 'short' }, 'invalid_request'],
    [{ code_challenge_method: undefined }, 'invalid_request'],
    [{ code_challenge_method: '' }, 'invalid_request'],
    [{ code_challenge_method: 'plain' }, 'invalid_request'],
    [{ code_challenge: undefined, code_challenge_method: undefined }, 'invalid_request'],
    [{ resource: 'https://evil.example/mcp' }, 'invalid_target'],
    [{ resource: 'http://localhost:8080/mcp/' }, 'invalid_target'],
    [{ resource: '' }, 'invalid_target'],
    [{ prompt: 'none' }, 'consent_required'],
  ]
  for (const [changes, error] of ERRORS) {
    test(`is ${error} for ${JSON.stringify(changes)}, on the page and on its form`, async (t) => {
      const s = await opened(t)
      const shown = await s.ada.get(pathOf(changes))
      assert.equal(shown.status, 303)
      assert.ok(shown.headers.get('location')?.startsWith(`${REDIRECT}?`))
      const answer = answerOf(shown)
      assert.deepEqual(
        [answer.get('error'), answer.get('state'), answer.get('iss')],
        [error, 'a state', 'http://localhost:8080'],
      )
      if (changes.prompt !== undefined) return
      const sent = await s.ada.post('/auth/authorize', { ...authorization(changes), decision: 'allow' })
      assert.equal(answerOf(sent).get('error'), error)
    })
  }
})

suite('a request with a wrong client or redirect', () => {
  const WRONG: readonly Record<string, string | undefined>[] = [
    { client_id: undefined },
    { client_id: 'unknown-client' },
    { client_id: 'SVC-CLI' },
    { client_id: 'http://app.example/client.json' },
    { client_id: 'https://app.example/' },
    { redirect_uri: undefined },
    { redirect_uri: 'https://evil.example/callback' },
    { redirect_uri: 'http://127.0.0.1:7777/other' },
    { redirect_uri: 'http://127.0.0.1@evil.example/callback' },
    { redirect_uri: 'http://127.0.0.1:7777\\@evil.example/callback' },
    { redirect_uri: 'http://127.0.0.1:7777/callback#x' },
    { redirect_uri: 'http://127.0.0.1:7777/%2e/callback' },
    { redirect_uri: 'http://LOCALHOST/callback' },
    { redirect_uri: 'http://localhost./callback' },
    { redirect_uri: 'javascript:alert(1)' },
  ]
  test('gets a page, never a redirect', async (t) => {
    const s = await opened(t)
    for (const changes of WRONG) {
      const answers = [
        await s.ada.get(pathOf(changes)),
        await s.ada.post('/auth/authorize', { ...authorization(changes), decision: 'allow' }),
      ]
      for (const answer of answers) {
        assert.equal(answer.status, 400, JSON.stringify(changes))
        assert.equal(answer.headers.get('location'), null)
        assert.match(answer.headers.get('content-type') ?? '', /^text\/html/)
      }
    }
    const twice = await s.ada.get(`${pathOf()}&redirect_uri=https%3A%2F%2Fevil.example%2F`)
    assert.equal(twice.status, 400)
  })
})

test('a person may ask for clients with a document 60 times in ten minutes', async (t) => {
  const s = await opened(t)
  // An address that is never asked.
  const path = pathOf({ client_id: 'https://127.0.0.1/client.json' })
  for (let index = 0; index < 60; index++) assert.equal((await s.ada.get(path)).status, 400)
  assert.equal((await s.ada.get(path)).status, 429)
  assert.equal((await s.ada.get(pathOf())).status, 200)
  s.clock.advance(10_000)
  assert.equal((await s.ada.get(path)).status, 400)
})

suite('the form', () => {
  test('is refused from another site, without the CSRF field, and without a session', async (t) => {
    const s = await opened(t)
    const fields = { ...authorization(), decision: 'allow' }
    const foreign = await s.ada.post('/auth/authorize', fields, { Origin: 'https://evil.example' })
    assert.equal(foreign.status, 403)
    assert.equal((await s.ada.post('/auth/authorize', { ...fields, csrf: 'x' })).status, 403)
    assert.equal((await s.ada.post('/auth/authorize', fields, { Cookie: '' })).status, 401)
    const bob = await signIn(s, 'local:bob')
    assert.equal((await s.ada.post('/auth/authorize', { ...fields, csrf: bob.csrf })).status, 403)
    assert.equal(await s.host.engine.read((tx) => authorizationCodes.count(tx)), 0)
  })
})
