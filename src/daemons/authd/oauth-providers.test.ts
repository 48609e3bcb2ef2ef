import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { suite, type TestContext, test } from 'node:test'
import { CLIENT, listenForTest } from '../../../test/support/openid-servers.ts'
import { openDiscord, openGithub } from './oauth-providers.ts'
import type { ProviderAttempt } from './provider-attempt.ts'

const REDIRECT = 'https://svc.example/auth/provider/x/callback'
const ATTEMPT: ProviderAttempt = { state: 'the-state', nonce: 'n', verifier: 'v'.repeat(43), startedMs: 0 }

interface ApiServer {
  /** JSON by path; a number is a status. */
  readonly answers: Map<string, unknown>
  readonly endpoints: { issuer: string; authorization: string; token: string; api: string }
  readonly tokenRequests: URLSearchParams[]
  readonly authorizations: (string | undefined)[]
}

/** Responds like GitHub: a wrong code is a 200 with an error. */
async function serveApi(t: TestContext): Promise<ApiServer> {
  const answers = new Map<string, unknown>()
  const tokenRequests: URLSearchParams[] = []
  const authorizations: (string | undefined)[] = []
  const base = await listenForTest(t, async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const path = request.url ?? ''
    let answer = answers.get(path)
    if (path === '/token') {
      const fields = new URLSearchParams(body)
      tokenRequests.push(fields)
      const isRight = fields.get('code') === 'right' && fields.get('client_secret') === CLIENT.secret
      answer ??= isRight
        ? { access_token: 'gho_secret', token_type: 'bearer', scope: 'read:user,user:email' }
        : { error: 'bad_verification_code', error_description: 'The code is incorrect or expired.' }
    } else authorizations.push(request.headers.authorization)
    response.writeHead(typeof answer === 'number' ? answer : 200, { 'Content-Type': 'application/json; charset=utf-8' })
    response.end(typeof answer === 'string' ? answer : JSON.stringify(answer ?? {}))
  })
  const endpoints = { issuer: base, authorization: `${base}/authorize`, token: `${base}/token`, api: base }
  return { answers, endpoints, tokenRequests, authorizations }
}

const callback = (query: string): URL => new URL(`${REDIRECT}?${query}`)
const RIGHT = callback('code=right&state=the-state')

suite('GitHub', () => {
  const octocat = { id: 583231, login: 'octocat', name: null, email: 'public@evil.example' }
  const emails = [
    { email: 'old@example.com', verified: true, primary: false },
    { email: 'octo@example.com', verified: true, primary: true },
  ]

  test('starts with PKCE and state, and asks for the account when it is linked', async (t) => {
    const { endpoints } = await serveApi(t)
    const github = openGithub(CLIENT, endpoints)
    const { searchParams } = await github.authorizationUrl(ATTEMPT, REDIRECT)
    assert.deepEqual(Object.fromEntries(searchParams), {
      response_type: 'code',
      client_id: CLIENT.id,
      redirect_uri: REDIRECT,
      scope: 'read:user user:email',
      state: 'the-state',
      code_challenge: createHash('sha256').update(ATTEMPT.verifier).digest('base64url'),
      code_challenge_method: 'S256',
    })
    const linking = await github.authorizationUrl({ ...ATTEMPT, link: 'a session' }, REDIRECT)
    assert.equal(linking.searchParams.get('prompt'), 'select_account')
  })

  test('is known by its numeric id and its verified primary address', async (t) => {
    const api = await serveApi(t)
    api.answers.set('/user', octocat).set('/user/emails', emails)
    const account = await openGithub(CLIENT, api.endpoints).confirm(ATTEMPT, RIGHT)
    assert.deepEqual(account, {
      sub: 'github:583231',
      issuer: 'github',
      subject: '583231',
      name: 'octocat',
      email: 'octo@example.com',
      email_verified: true,
    })
    const [request] = api.tokenRequests
    assert.deepEqual([request?.get('code_verifier'), request?.get('redirect_uri')], [ATTEMPT.verifier, REDIRECT])
    assert.deepEqual(api.authorizations, ['Bearer gho_secret', 'Bearer gho_secret'])
  })

  test('has no address that is not verified, not primary, or not readable by the app', async (t) => {
    const api = await serveApi(t)
    const github = openGithub(CLIENT, api.endpoints)
    for (const answer of [
      [],
      [{ email: 'octo@example.com', verified: false, primary: true }],
      [{ email: 'octo@example.com', verified: 'true', primary: true }],
      [{ email: 'octo@example.com', verified: true, primary: false }],
      [{ email: 'octo@example.com', verified: true, primary: 1 }],
      403,
      404,
    ]) {
      api.answers.set('/user', octocat).set('/user/emails', answer)
      const { email, email_verified } = await github.confirm(ATTEMPT, RIGHT)
      assert.deepEqual([email, email_verified], [undefined, false], JSON.stringify(answer))
    }
  })

  test('is refused with a wrong code, state or issuer, and with unexpected answers', async (t) => {
    const api = await serveApi(t)
    const github = openGithub(CLIENT, api.endpoints)
    api.answers.set('/user', octocat).set('/user/emails', emails)
    for (const query of [
      ...['code=wrong&state=the-state', 'code=right&state=other', 'code=right', 'state=the-state', ''],
      ...['code=right&state=the-state&iss=https://evil.example', 'error=access_denied&state=the-state'],
      ...['code=right&code=right&state=the-state', 'code=right&state=the-state&state=the-state'],
    ])
      await assert.rejects(github.confirm(ATTEMPT, callback(query)), query)
    for (const user of [
      { ...octocat, id: '583231' },
      { ...octocat, id: -1 },
      { ...octocat, id: 1.5 },
      [],
      null,
      500,
      403,
      'not JSON',
      '['.repeat(300_000),
    ]) {
      api.answers.set('/user', user)
      await assert.rejects(github.confirm(ATTEMPT, RIGHT), JSON.stringify(user).slice(0, 80))
    }
  })
})

suite('Discord', () => {
  const user = {
    id: '80351110224678912',
    username: 'nelly',
    global_name: 'Nelly',
    email: 'n@example.com',
    verified: true,
  }

  test('is known by its id and, if it is verified, its address', async (t) => {
    const api = await serveApi(t)
    const discord = openDiscord(CLIENT, api.endpoints)
    for (const [verified, isVerified] of [
      [true, true],
      [false, false],
      ['true', false],
      [undefined, false],
    ] as const) {
      api.answers.set('/users/@me', { ...user, verified })
      assert.deepEqual(await discord.confirm(ATTEMPT, RIGHT), {
        sub: 'oidc:discord/80351110224678912',
        issuer: 'discord',
        subject: '80351110224678912',
        name: 'Nelly',
        email: 'n@example.com',
        email_verified: isVerified,
      })
    }
    api.answers.set('/users/@me', { ...user, email: null })
    assert.equal((await discord.confirm(ATTEMPT, RIGHT)).email_verified, false)
  })

  test('is refused with an id that is not a number', async (t) => {
    const api = await serveApi(t)
    const discord = openDiscord(CLIENT, api.endpoints)
    for (const id of ['nelly', '1/2', '', 5, undefined]) {
      api.answers.set('/users/@me', { ...user, id })
      await assert.rejects(discord.confirm(ATTEMPT, RIGHT))
    }
  })
})
